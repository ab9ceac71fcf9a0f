import copy
import json
import os
import random
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import PeftModel, get_peft_model
from safetensors.torch import load_file
from small_runs import CONFIG, RATE, budget_of, train
from tiny_merges import character_host
from transformers import TrainingArguments

from evolora_core.engine.probes import probe
from evolora_core.errors import DataError, StageError
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold
from evolora_core.lora.population.lora import attached
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.labels import solved
from evolora_core.searches.adapters.rivals import plan, resume, sft
from evolora_core.searches.adapters.rivals.isolation import isolated
from evolora_core.searches.adapters.rivals.rows import tokenise
from evolora_core.searches.adapters.rivals.training import keep_to_device, lora, trainer_settings


@pytest.fixture(scope="module")
def whole(host: Any, train_items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run that nothing disturbed; tests only read it."""
    return train(host, train_items, tmp_path_factory.mktemp("whole"))


def weights(result: Any) -> Any:
    return load_file(result.adapter_folder / "adapter_model.safetensors")


def equal(a: Any, b: Any) -> Any:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_the_loss_is_on_the_completion_and_its_end(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    seen = []

    def look(rows: Any, inputs: Any) -> None:
        seen.append({name: inputs[name].clone() for name in ("input_ids", "labels", "attention_mask")})

    with probe("examples", look):
        train(host, train_items, tmp_path, steps=3.5)
    rows = {
        (tuple(prompt), tuple(answer))
        for prompt, answer in zip(
            host.encode_prompts([item.prompt for item in train_items]),
            host.encode_answers([gold(item) for item in train_items]),
            strict=True,
        )
    }
    checked = 0
    for batch in seen:
        for ids, labels, mask in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            real = mask.bool()
            prompt = tuple(ids[real & (labels == -100)].tolist())
            answer = tuple(labels[labels != -100].tolist())
            assert (prompt, answer) in rows  # masked is the prompt, exactly; trained is the answer, exactly
            assert answer[-1] in host.eos_ids
            assert (labels[~real] == -100).all()
            checked += 1
    assert checked >= 3 * CONFIG.batch_rows


def test_what_has_ended_is_not_trained_again(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    steps: list[int] = []
    first = train(host, train_items, tmp_path, progress=lambda done, total: steps.append(done))
    assert steps
    steps.clear()
    again = train(host, train_items, tmp_path, progress=lambda done, total: steps.append(done))
    assert not steps
    assert again.steps == first.steps and again.meter.rows() == first.meter.rows()


def test_the_budget_holds_selection_included(
    host: Any,
    train_items: list[Item],
    selection_items: list[Item],
    decoding: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "SELECTION_SHARE", 0.5)
    budget = budget_of(host, train_items, 20)
    result = train(host, train_items, tmp_path, steps=20, selection_items=selection_items * 2, decoding=decoding)
    compute = {row["purpose"]: row for row in result.meter.rows()}
    assert budget / 2 < compute["update"]["flops"]
    assert result.meter.total() > 0.9 * budget
    assert compute["selection"]["flops"] > 0
    assert result.meter.total() <= budget
    assert compute["update"]["flops"] == sum(row["flops"] for row in result.steps) == result.checkpoints[-1].flops
    assert compute["update"]["tokens"] == sum(row["tokens"] for row in result.steps)
    assert compute["update"]["executed_flops"] >= compute["update"]["flops"]
    assert len(result.checkpoints) == CONFIG.checkpoints
    assert all(checkpoint.n >= 32 for checkpoint in result.checkpoints)
    assert sum(checkpoint.chosen for checkpoint in result.checkpoints) == 1
    assert {path.name for path in (tmp_path / "adapter").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }


def test_learning_decays_to_nothing_where_the_budget_ends(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    result = train(host, train_items, tmp_path, steps=25.5)
    rates = [row["learning_rate"] for row in result.steps]
    peak = rates.index(max(rates))
    assert max(rates) == pytest.approx(RATE)
    assert 0 < rates[0] < RATE
    assert (np.diff(rates[peak:]) < 0).all()
    assert rates[-1] < 0.05 * RATE
    losses = [row["loss"] for row in result.steps]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.1
    assert [row["step"] for row in result.steps] == list(range(1, len(rates) + 1))


def test_a_killed_run_goes_on_as_if_nothing_had_been(
    host: Any,
    train_items: list[Item],
    selection_items: list[Item],
    decoding: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plan, "SELECTION_SHARE", 0.5)
    options = {"steps": 24.5, "selection_items": selection_items * 2, "decoding": decoding}
    whole = train(host, train_items, tmp_path / "whole", **options)
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")  # a checkpoint after every step

    class Killed(Exception):
        pass

    def kill_at(step: Any) -> Any:
        def progress(done: int, total: int) -> None:
            if done == step:
                raise Killed

        return progress

    folder = tmp_path / "killed"
    for step in (3, 7):
        with suppress(Killed):
            train(host, train_items, folder, progress=kill_at(step), **options)
        assert not (folder / "adapter").exists()
    for _ in range(2):  # while it was choosing, so that the second time there is nothing left to train
        with monkeypatch.context() as patch, suppress(Killed):
            patch.setattr(sft, "choose_checkpoint", lambda *arguments, **options: kill_at(0)(0, 0))
            train(host, train_items, folder, **options)
    newest = max((folder / ".work").glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
    (newest / resume.MARKER).unlink()  # as if killed while writing it
    resumed = train(host, train_items, folder, **options)
    assert equal(weights(whole), weights(resumed))
    assert whole.steps == resumed.steps
    assert whole.checkpoints == resumed.checkpoints and whole.checkpoints[0].n >= 32

    def numbers(result: Any) -> Any:
        return [
            {key: row[key] for key in ("purpose", "flops", "tokens", "executed_flops")} for row in result.meter.rows()
        ]

    assert numbers(whole) == numbers(resumed)


def test_what_is_left_of_another_run_is_not_resumed(
    host: Any, train_items: list[Item], whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")

    def die(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        train(host, train_items, tmp_path / "other", steps=9.5, progress=die)
    monkeypatch.delenv("EVOLORA_COMMIT_SECONDS")
    assert equal(weights(whole), weights(train(host, train_items, tmp_path / "other")))


def numpy_state() -> Any:
    return np.random.get_state()


def test_the_host_and_the_global_generators_stay_as_they_are(
    host: Any, train_items: list[Item], tmp_path: Path
) -> None:
    before = {name: tensor.clone() for name, tensor in host.model.state_dict().items()}
    modules = [(name, type(module)) for name, module in host.model.named_modules()]
    config = copy.deepcopy(host.model.config.to_dict())
    draws = random.getstate(), numpy_state()[1].tolist(), torch.random.get_rng_state()
    result = train(host, train_items, tmp_path)
    assert equal(before, host.model.state_dict())
    assert [(name, type(module)) for name, module in host.model.named_modules()] == modules
    assert "forward" not in vars(host.model)
    assert not host.model.training
    assert not any(parameter.requires_grad or parameter.grad is not None for parameter in host.model.parameters())
    assert host.model.config.to_dict() == config
    assert random.getstate() == draws[0]
    assert numpy_state()[1].tolist() == draws[1]
    assert torch.equal(torch.random.get_rng_state(), draws[2])
    document = json.loads((result.adapter_folder / "adapter_config.json").read_text())
    assert document["base_model_name_or_path"] == host.name


def test_the_saved_adapter_is_peft_s_and_ours(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    result = train(host, train_items, tmp_path)
    ids = torch.tensor(host.encode_prompts([train_items[0].prompt]))
    adapter = import_peft(result.adapter_folder, host)
    population = Population.empty(host, 2, CONFIG.rank, scale=CONFIG.scale)
    population.put(1, adapter)
    with torch.no_grad():
        bare = host.model(input_ids=ids).logits
        theirs = PeftModel.from_pretrained(copy.deepcopy(host.model), result.adapter_folder)(input_ids=ids).logits
        with attached(host.model, population) as rows:
            rows.rows(np.array([1]))
            ours = host.model(input_ids=ids).logits
    assert torch.allclose(ours, theirs, atol=1e-5)
    assert not torch.allclose(bare, theirs, atol=1e-3)


def test_cutting_a_batch_into_parts_changes_nothing(
    host: Any, train_items: list[Item], whole: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sft.micro_batches(64) == 4 and sft.micro_batches(16) == 2 and sft.micro_batches(15) == 1
    monkeypatch.setattr(sft, "micro_batches", lambda rows: 1)
    uncut = train(host, train_items, tmp_path)
    assert [row["loss"] for row in whole.steps] == pytest.approx([row["loss"] for row in uncut.steps], rel=1e-4)


def test_seeds_differ_and_repeat(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    runs = [train(host, train_items, tmp_path / str(i), steps=3, seed=seed) for i, seed in enumerate((0, 0, 1))]
    assert equal(weights(runs[0]), weights(runs[1]))
    assert not equal(weights(runs[0]), weights(runs[2]))


def test_a_run_that_diverges_says_so_and_keeps_what_it_started_from(
    host: Any, train_items: list[Item], whole: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for start in (None, whole.adapter_folder):
        result = train(
            host, train_items, tmp_path / f"wild from {start is not None}", rate=1e30, steps=9.5, start=start
        )
        assert result.diverged and result.meter.total() > 0
        assert "training diverged at learning rate 1e+30" in caplog.text
        assert [checkpoint.step for checkpoint in result.checkpoints if checkpoint.chosen] == [0]
        if start:
            assert equal(weights(result), weights(whole))
        else:
            assert all(not tensor.any() for name, tensor in weights(result).items() if "lora_B" in name)


def test_rows_that_do_not_fit_are_counted_not_cut(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    long = Item("x" * 300, 1, "math", "short", "long")
    assert train(host, [*train_items, long], tmp_path).left_out == 1
    with pytest.raises(DataError, match="none of 1 training items fits"):
        train(host, [long], tmp_path)


def test_a_budget_that_buys_nothing_is_an_error(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    with pytest.raises(StageError, match="does not pay for one optimizer step"):
        train(host, train_items, tmp_path, steps=0.5)


def test_trl_must_not_change_the_rows(host: Any, train_items: list[Item]) -> None:
    rows = tokenise(host, solved(train_items))
    cut = {"input_ids": rows.input_ids[1:], "labels": [[-100]] * (len(rows.input_ids) - 1)}
    with pytest.raises(RuntimeError, match="TRL changed the training rows"):
        sft._check_rows(cut, rows)


@pytest.mark.parametrize("pattern", ["checkpoint-*/adapter_model.safetensors", "adapter-*/adapter_model.safetensors"])
def test_a_damaged_checkpoint_is_not_gone_on_from(
    host: Any,
    train_items: list[Item],
    whole: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    pattern: str,
) -> None:
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")

    def die(done: int, total: int) -> None:
        if done == total - 1:
            raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        train(host, train_items, tmp_path / "cut", progress=die)
    damaged = sorted((tmp_path / "cut" / ".work").glob(pattern), key=lambda path: path.stat().st_mtime)[-1]
    os.truncate(damaged, damaged.stat().st_size // 2)
    resumed = train(host, train_items, tmp_path / "cut")
    assert "is damaged; going on from before it" in caplog.text
    assert equal(weights(whole), weights(resumed)) and whole.steps == resumed.steps


def test_a_trainer_keeps_to_the_device_of_its_host(host: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with two of them it took the first, and a batch for each."""
    taken: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", taken.append)
    elsewhere = replace(host, device="cuda:1")
    arguments = TrainingArguments(per_device_train_batch_size=6, **trainer_settings(elsewhere, CONFIG, tmp_path, 0))
    assert arguments.train_batch_size == 12
    keep_to_device(elsewhere, arguments)
    assert (arguments.train_batch_size, arguments.n_gpu, arguments.device) == (6, 1, torch.device("cuda:1"))
    assert taken[-1] == torch.device("cuda:1")


def test_nothing_drops_out_in_training(tmp_path: Path) -> None:
    """As in arms without a Trainer; OPT drops out by a function, which TRL's `disable_dropout` does not know."""
    own = character_host(tmp_path, "opt", dropout=0.5, ffn_dim=16, word_embed_proj_dim=16)
    with isolated(own) as model:
        adapted = get_peft_model(model, lora(2, 1.0))
        adapted.train()
        one, two = (adapted(input_ids=torch.arange(3, 11)[None]).logits for _ in range(2))
        assert adapted.training and torch.equal(one, two)


def test_out_of_memory_cuts_the_batch_smaller_and_says_so(
    host: Any, train_items: list[Item], whole: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    parts = sft.micro_batches(CONFIG.batch_rows)

    def full(rows: Any, inputs: Any) -> None:
        if rows > CONFIG.batch_rows // parts // 2:
            torch.empty(2**60)  # more than any machine has

    with probe("examples", full):
        small = train(host, train_items, tmp_path / "small")
    assert f"out of memory: going on with batches in {2 * parts} parts" in caplog.text
    assert [row["loss"] for row in small.steps] == pytest.approx([row["loss"] for row in whole.steps], rel=1e-4)
    assert small.meter.total() == whole.meter.total()


def test_training_can_go_on_from_another_adapter(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    first = train(host, train_items, tmp_path / "first", steps=4.5)
    after = train(host, train_items, tmp_path / "after", steps=1.5, rate=1e-9, start=first.adapter_folder)
    fresh = train(host, train_items, tmp_path / "fresh", steps=1.5, rate=1e-9)
    distances = [
        max((weights(first)[name] - given[name]).abs().max().item() for name in given)
        for given in (weights(after), weights(fresh))
    ]
    assert distances[0] < 1e-6 < 1e-3 < distances[1]
    assert after.steps[0]["loss"] < fresh.steps[0]["loss"]
