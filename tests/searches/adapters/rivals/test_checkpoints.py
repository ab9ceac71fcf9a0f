import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

from evolora_core.engine.meter import Meter
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population.peft_io import export_peft
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.rivals import resume
from evolora_core.searches.adapters.rivals.checkpoints import choose_checkpoint, interleave, is_finite, question_costs
from evolora_core.searches.adapters.rivals.plan import FEWEST_QUESTIONS


@pytest.fixture
def kept(host: Any, tmp_path: Path) -> Any:
    """Three checkpoints: two that change nothing, one that does."""
    population = Population.empty(host, 3, 2)
    folders = {}
    for slot, step in enumerate((5, 10, 15)):
        population.init_slot(slot, 2, np.random.default_rng(slot))
        if step == 10:
            for B in population.B.values():
                B[slot] = 0.3
        folders[step] = tmp_path / f"adapter-{step}"
        export_peft(population.get(slot), host, folders[step])
    return folders


def choose(host: Any, kept: Any, items: Any, decoding: Any, allowance: Any, meter: Any) -> Any:
    spent = {step: step * 100 for step in kept}
    return choose_checkpoint(host, kept, items, decoding=decoding, allowance=allowance, spent=spent, meter=meter)


@pytest.mark.parametrize("share", [0.3, 0.8, 5.0])
def test_selection_never_costs_more_than_its_allowance(
    host: Any, kept: Any, selection_items: list[Item], decoding: Any, share: float
) -> None:
    model = FlopModel.from_model(host.model)
    prompts = host.encode_prompts([item.prompt for item in selection_items])
    worst = int(model.generate_flops([len(ids) for ids in prompts], decoding.max_new_tokens, 2).sum()) * len(kept)
    meter = Meter()
    checkpoints = choose(host, kept, selection_items, decoding, int(share * worst), meter)
    assert 0 < meter.total() <= share * worst
    asked = {checkpoint.n for checkpoint in checkpoints}
    assert len(asked) == 1 and (asked == {len(selection_items)}) == (share > 1)


def test_a_tie_goes_to_the_earlier_step_and_nothing_asked_to_the_last(
    host: Any, kept: Any, selection_items: list[Item], decoding: Any
) -> None:
    same = {5: kept[5], 15: kept[15]}  # both change nothing
    meter = Meter()
    assert [c.chosen for c in choose(host, same, selection_items, decoding, 10**15, meter)] == [True, False]
    unasked = choose(host, same, [], decoding, 10**15, Meter())
    assert [c.chosen for c in unasked] == [False, True]
    assert all(c.accuracy is None and c.n == 0 for c in unasked)


def test_a_choice_by_fewer_answers_than_were_planned_is_none(
    host: Any, kept: Any, selection_items: list[Item], decoding: Any
) -> None:
    model = FlopModel.from_model(host.model)
    prompts = host.encode_prompts([item.prompt for item in selection_items])
    worst = int(model.generate_flops([len(ids) for ids in prompts], decoding.max_new_tokens, 2).sum()) * 2
    same = {5: kept[5], 15: kept[15]}  # a tie goes to the earlier
    few = choose(host, same, selection_items, decoding, worst // 4, Meter())
    assert 0 < few[0].n < min(FEWEST_QUESTIONS, len(selection_items))
    assert [c.chosen for c in few] == [False, True]


def test_every_beginning_is_balanced(selection_items: list[Item]) -> None:
    order = interleave(selection_items, 0)
    assert sorted(item.task_id for item in order) == sorted(item.task_id for item in selection_items)
    for n in range(2, len(order), 2):
        families = [item.family for item in order[:n]]
        assert families.count("math") == families.count("logic.bool")
    assert interleave(selection_items, 0) == order != interleave(selection_items, 1)


def test_a_question_costs_its_prompt_and_gold(host: Any, selection_items: list[Item]) -> None:
    costs = question_costs(host, selection_items, rank=2)
    model = FlopModel.from_model(host.model)
    prompt = host.encode_prompts([selection_items[0].prompt])[0]
    assert model.generate_flops(len(prompt), 1, 2) < costs[0] < model.generate_flops(len(prompt), 20, 2)


def test_nan_is_noticed(host: Any, kept: Any) -> None:
    assert is_finite(kept[5])
    path = kept[5] / "adapter_model.safetensors"
    tensors = load_file(path)
    next(iter(tensors.values()))[0, 0] = float("nan")
    save_file(tensors, path)
    assert not is_finite(kept[5])


def test_an_adapter_that_a_kill_left_half_written_is_no_part_of_a_checkpoint(tmp_path: Path) -> None:
    """Its file goes at the next try, and a checkpoint that was marked with it would count as damaged."""

    class Dies:
        def save_model(self, folder: str) -> None:
            Path(folder).mkdir()
            (Path(folder) / "half").write_text("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resume.keep_adapter(Dies(), tmp_path, 2)
    left = list(tmp_path.iterdir())
    (tmp_path / "checkpoint-1").mkdir()
    resume.mark(tmp_path, 1, "run", Meter())
    for path in left:
        shutil.rmtree(path)
    assert left and resume.last_checkpoint(tmp_path, "run", Meter()) == str(tmp_path / "checkpoint-1")
