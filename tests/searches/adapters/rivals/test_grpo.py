"""Group relative policy optimisation by TRL on a tiny real host."""

import copy
import dataclasses
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_host import draw_items
from safetensors.torch import load_file
from tiny_models import odd_model, tiny_model
from torch.utils.flop_counter import FlopCounterMode
from trl import GRPOTrainer

from evolora_core.engine.probes import probe
from evolora_core.errors import DataError, StageError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.searches.adapters.rivals import grpo, resume
from evolora_core.searches.adapters.rivals.groups import Groups, group_flops, informative
from evolora_core.searches.adapters.rivals.positions import count_positions
from evolora_core.searches.adapters.settings.grpo import GrpoConfig

torch.set_num_threads(1)
CONFIG = GrpoConfig(rank=2, groups=4, samples=3, learning_rate=0.02)
DECODING = DecodingConfig(max_new_tokens=4, batch_rows=64)


@pytest.fixture(scope="module")
def items() -> Any:
    return draw_items("logic.bool", 12, 0)


def budget_of(host: Any, items: list[Item], steps: Any, config: Any = CONFIG, decoding: Any = DECODING) -> int:
    """FLOPs of about so many of the dearest steps."""
    lengths = np.array([len(ids) for ids in host.encode_prompts([item.prompt for item in items])])
    dearest = group_flops(
        FlopModel.from_model(host.model),
        lengths,
        decoding.max_new_tokens,
        samples=config.samples,
        rank=config.rank,
        reference=config.beta > 0,
    )
    return int(dearest.mean() * config.groups * steps)


def train(
    host: Any,
    items: list[Item],
    folder: Path,
    *,
    steps: float = 5.0,
    seed: int = 1,
    config: Any = CONFIG,
    decoding: Any = DECODING,
    **more: Any,
) -> Any:
    budget = budget_of(host, items, steps, config, decoding)
    return grpo.train_grpo(
        host, items, config, budget_flops=budget, seed=seed, folder=folder, decoding=decoding, **more
    )


def weights(result: Any) -> Any:
    return load_file(result.adapter_folder / "adapter_model.safetensors")


def equal(a: Any, b: Any) -> Any:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def facts(result: Any) -> Any:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in result.steps]


def counts(result: Any) -> Any:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in result.meter.rows()]


@pytest.fixture
def easy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A verifier that a random host can please: an answer whose first token is even is right."""

    def rewards(task: Any, numbers: Any, answers: Any) -> Any:
        right = [ids[0] % 2 == 0 for ids in answers]
        return [float(r) for r in right], right

    monkeypatch.setattr(grpo._Task, "rewards", rewards)


def test_answers_that_teach_nothing_cost_no_learning_and_change_no_step(
    host: Any, items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, easy: None
) -> None:
    config = CONFIG.model_copy(update={"groups": 8, "samples": 2})
    few = train(host, items, tmp_path / "few", steps=1.1, config=config)
    with monkeypatch.context() as patch:
        patch.setattr(grpo, "informative", lambda batch, parts: batch)
        all_rows = train(host, items, tmp_path / "all", steps=1.1, config=config)
    assert len(few.steps) == len(all_rows.steps) == 1 and 0 < few.steps[0]["informative"] < 1
    assert few.steps[0]["informative"] == all_rows.steps[0]["informative"]
    assert few.meter.flops("rollout") == all_rows.meter.flops("rollout")
    assert few.meter.flops("update") < all_rows.meter.flops("update")
    one, other = weights(few), weights(all_rows)
    assert all(torch.allclose(one[name], other[name], atol=1e-4) for name in one)
    assert any(float(tensor.abs().max()) > 1e-3 for name, tensor in one.items() if "lora_B" in name)


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_rows_without_advantage_fill_up_the_parts(parts: int) -> None:
    batch = {"advantages": torch.tensor([0.0, 1, -1, 0, 0, 2, 0, 0]), "ids": torch.arange(8), "n": torch.tensor(30)}
    found = informative(batch, parts)
    ids = found["ids"].tolist()
    assert ids == sorted(ids) and {1, 2, 5} <= {*ids} and len(ids) == {1: 3, 2: 4, 4: 4}[parts] and found["n"] == 30
    assert len(informative({"advantages": torch.zeros(8)}, parts)["advantages"]) == parts


def test_equal_rewards_teach_nothing_though_their_mean_is_rounded() -> None:
    rewards = torch.tensor([[0.22] * 3, [0.22, 0.24, 0.22]])
    advantages = ((rewards - rewards.mean(dim=1, keepdim=True)) / (rewards.std(dim=1, keepdim=True) + 1e-4)).flatten()
    assert float(advantages[:3].abs().max()) > 0
    found = informative({"advantages": advantages, "ids": torch.arange(6)}, 1)
    assert found["ids"].tolist() == [3, 4, 5]


@pytest.mark.parametrize("architecture", ["gpt_neo", "qwen3"])
def test_rows_that_are_padded_on_the_left_are_read_at_their_own_positions(architecture: str) -> None:
    model = odd_model(architecture) if architecture == "gpt_neo" else tiny_model(architecture)
    ids = torch.tensor([[5, 9, 3, 7]])
    padded, mask = torch.cat([torch.zeros(1, 6, dtype=torch.long), ids], dim=1), torch.tensor([[0] * 6 + [1] * 4])
    with torch.no_grad():
        alone = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits
        count_positions(model.base_model)
        together = model(input_ids=padded, attention_mask=mask).logits[:, 6:]
    torch.testing.assert_close(together, alone, atol=1e-4, rtol=1e-4)


def test_it_learns_from_rewards_within_its_budget(
    items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host that knows the task's form learns to say what is rewarded: that all is true."""
    nano = load_host("nano")

    def rewards(task: Any, numbers: Any, answers: Any) -> Any:
        right = [nano.decode(ids).lower().startswith("t") for ids in answers]
        return [float(r) for r in right], right

    monkeypatch.setattr(grpo._Task, "rewards", rewards)
    config = CONFIG.model_copy(update={"samples": 6, "learning_rate": 5e-3})
    budget = budget_of(nano, items, 20, config)
    result = train(nano, items, tmp_path, steps=20, config=config)
    assert sum(row["flops"] for row in result.steps) == result.meter.total() <= budget
    assert result.meter.total() > 0.95 * budget
    assert np.mean([row["reward"] for row in result.steps[:3]]) < 0.7
    assert np.mean([row["reward"] for row in result.steps[-3:]]) > 0.9
    rates = [row["learning_rate"] for row in result.steps]
    spent = np.cumsum([0, *(row["flops"] for row in result.steps)])[:-1]
    assert rates == pytest.approx((config.learning_rate * (1 - spent / budget)).tolist())
    assert [row["step"] for row in result.steps] == list(range(1, len(rates) + 1))
    assert all(0 <= row["informative"] <= 1 and row["entropy"] > 0 for row in result.steps)
    adapter = import_peft(result.adapter_folder, nano)
    assert adapter.rank == CONFIG.rank and adapter.scale == CONFIG.scale and adapter.norm() > 0
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_every_pass_is_counted(
    host: Any, items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beta: float
) -> None:
    """Budget FLOPs by hand from what was asked and answered; executed ones by PyTorch's counter."""
    config, seen = CONFIG.model_copy(update={"beta": beta}), []
    original = grpo._Task.rewards

    def spy(task: Any, numbers: Any, answers: Any) -> Any:
        rewards, right = original(task, numbers, answers)
        seen.append((list(numbers), [list(ids) for ids in answers], rewards))
        return rewards, right

    monkeypatch.setattr(grpo._Task, "rewards", spy)
    host.model.set_attn_implementation("eager")  # whose matmuls are counted
    try:
        with FlopCounterMode(display=False) as counter:
            result = train(host, items, tmp_path, steps=2.5, config=config)
    finally:
        host.model.set_attn_implementation("sdpa")
    model, prompts = FlopModel.from_model(host.model), host.encode_prompts([item.prompt for item in items])
    rollout, update, tokens, read = 0, 0, 0, 0
    for numbers, answers, rewards in seen:
        spread = np.ptp(np.array(rewards).reshape(config.groups, -1), axis=1).repeat(config.samples)
        learned = spread > 0 if spread.any() and not beta else np.full(len(spread), beta > 0)
        learned[0] |= not learned.any()  # a batch has one row at least
        assert len(numbers) == config.groups * config.samples
        assert (np.array(numbers).reshape(config.groups, -1) == np.array(numbers)[:: config.samples, None]).all()
        for number, ids, teaches in zip(numbers, answers, learned, strict=True):
            asked, new = len(prompts[number]), len(ids)
            rollout += int(model.generate_flops(asked, new, config.rank))
            update += int(model.train_flops(asked + new, new, config.rank)) if teaches else 0
            update += int(model.score_flops(asked + new, new)) if beta else 0
            tokens += asked + new if teaches else 0
            read += asked + new
    rows = {row["purpose"]: row for row in result.meter.rows()}
    assert (rows["rollout"]["flops"], rows["update"]["flops"]) == (rollout, update)
    assert (rows["rollout"]["tokens"], rows["update"]["tokens"]) == (read, tokens)
    executed = sum(row["executed_flops"] for row in result.meter.rows())
    assert executed == pytest.approx(counter.get_total_flops(), rel=0.03)


def test_prompts_and_grades_are_those_of_evaluation(host: Any, items: list[Item], tmp_path: Path) -> None:
    asked: list[list[int]] = []
    with probe("prompts", lambda ids: asked.extend(ids)):
        train(host, items, tmp_path, steps=2.5)
    known = host.encode_prompts([item.prompt for item in items])
    assert asked and all(ids in known for ids in asked)
    words = DecodingConfig(max_new_tokens=8, stop_strings=["\n"])
    numbers = draw_items("math", 1)
    task = grpo._Task(host, numbers, np.array([1]), words, False)
    right = host.encode_answers([str(numbers[0].target)])[0]
    assert right[-1] in host.eos_ids and grade(numbers[0], str(numbers[0].target)).correct
    more = host.encode_answers([f"{numbers[0].target}\n17"])[0]
    wrong = host.encode_answers(["no"])[0]
    assert task.rewards([0, 0, 0, 0], [right, right[:-1], more, wrong])[1] == [True, True, True, False]


def test_a_stop_string_ends_an_answer_and_its_bill(host: Any, items: list[Item], tmp_path: Path, easy: None) -> None:
    stops = list("GHIJKLMNOPQRSTUVW")  # letters that no special token's name has
    seen: list[list[int]] = []
    decoding = DecodingConfig(max_new_tokens=8, batch_rows=64, stop_strings=stops)
    with probe("answers", lambda ids: seen.extend(ids)):
        result = train(host, items, tmp_path, steps=8, decoding=decoding)
    stopped = 0
    for ids in seen:
        letters = [any(stop in host.decode([token]) for stop in stops) for token in ids]
        assert not any(letters[:-1])
        stopped += letters[-1]
        assert letters[-1] or ids[-1] in host.eos_ids or len(ids) == 8
    assert stopped and len({len(ids) for ids in seen}) > 2
    prompts = sum(row["tokens"] for row in result.meter.rows() if row["purpose"] == "rollout") - sum(map(len, seen))
    assert 0 < prompts < len(seen) * host.max_context


def test_answers_end_and_are_drawn_as_those_of_evaluation(
    host: Any, items: list[Item], tmp_path: Path, easy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every end that the host knows, by no stop string that begins in the prompt, from all tokens."""
    last = host.encode_prompts(["x"])[0][-1]
    edge = host.tokenizer.convert_ids_to_tokens(last)[-1]
    stops = [edge + chr(code) for code in range(33, 127)]
    monkeypatch.setattr(host.model.generation_config, "suppress_tokens", list(range(60, 128)))
    known = dataclasses.replace(host, eos_ids=(*host.eos_ids, *range(20, 60)))
    seen: list[list[int]] = []
    decoding = DecodingConfig(max_new_tokens=8, batch_rows=64, stop_strings=stops)
    with probe("answers", lambda ids: seen.extend(ids)):
        train(known, items, tmp_path, steps=3, decoding=decoding)
    assert not any(token in known.eos_ids for ids in seen for token in ids[:-1])
    stopped = [any(stop in host.decode(ids) for stop in stops) for ids in seen]
    assert all(own or len(ids) == 8 or ids[-1] in known.eos_ids for own, ids in zip(stopped, seen, strict=True))
    assert sum(60 <= token < 128 for ids in seen for token in ids) > len(seen) / 2


def test_a_killed_run_goes_on_as_if_nothing_had_been(
    host: Any, items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, easy: None
) -> None:
    whole = train(host, items, tmp_path / "whole", steps=9)
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")
    seen = []

    def killed(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) in (3, 7):
            raise KeyboardInterrupt

    def killed_or_faulty(*arguments: Any) -> None:
        killed(0, 0)
        seen.clear()
        raise ZeroDivisionError

    for _ in range(2):
        with suppress(KeyboardInterrupt):
            train(host, items, tmp_path / "killed", steps=9, progress=killed)
        assert list((tmp_path / "killed" / ".work").glob("checkpoint-*"))
    assert seen[3] >= seen[2] > seen[0]  # FLOPs after a step: the second run went on from the first one's
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):  # after its last step
        patch.setattr(resume, "keep_adapter", killed_or_faulty)
        with pytest.raises(ZeroDivisionError):
            train(host, items, tmp_path / "killed", steps=9)
    done: list[int] = []
    resumed = train(host, items, tmp_path / "killed", steps=9, progress=lambda step, total: done.append(step))
    assert equal(weights(whole), weights(resumed))
    assert facts(whole) == facts(resumed) and counts(whole) == counts(resumed)
    assert len(done) <= 1  # it had made all its steps


def test_seeds_differ_and_repeat(host: Any, items: list[Item], tmp_path: Path, easy: None) -> None:
    runs = [train(host, items, tmp_path / str(i), steps=3, seed=seed) for i, seed in enumerate((0, 0, 1))]
    assert equal(weights(runs[0]), weights(runs[1])) and facts(runs[0]) == facts(runs[1])
    assert not equal(weights(runs[0]), weights(runs[2]))


def test_the_host_stays_as_it_is(host: Any, items: list[Item], tmp_path: Path, easy: None) -> None:
    before = {name: tensor.clone() for name, tensor in host.model.state_dict().items()}
    config, generation = copy.deepcopy(host.model.config.to_dict()), host.model.generation_config.to_dict()
    pad, draws = host.tokenizer.pad_token, torch.random.get_rng_state()
    result = train(host, items, tmp_path, steps=3)
    assert equal(before, host.model.state_dict())
    assert not {"forward", "generate"} & set(vars(host.model)) and not host.model.training
    assert not any(parameter.requires_grad for parameter in host.model.parameters())
    assert (host.model.config.to_dict(), host.model.generation_config.to_dict()) == (config, generation)
    assert host.tokenizer.pad_token == pad and torch.equal(torch.random.get_rng_state(), draws)
    document = json.loads((result.adapter_folder / "adapter_config.json").read_text())
    assert document["base_model_name_or_path"] == host.name


def test_out_of_memory_cuts_the_batch_smaller_and_says_so(
    host: Any,
    items: list[Item],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    easy: None,
) -> None:
    whole = train(host, items, tmp_path / "whole", steps=1.2)
    compute_loss = GRPOTrainer.compute_loss

    def full(trainer: Any, model: Any, inputs: Any, *arguments: Any, **options: Any) -> Any:
        if len(inputs["prompt_ids"]) > 6:
            torch.empty(2**60)  # more than any machine has
        return compute_loss(trainer, model, inputs, *arguments, **options)

    monkeypatch.setattr(GRPOTrainer, "compute_loss", full)
    small = train(host, items, tmp_path / "small", steps=1.2)
    assert "out of memory: going on with batches in 2 parts" in caplog.text
    assert small.meter.total() == whole.meter.total()
    for name, tensor in weights(whole).items():
        assert torch.allclose(tensor, weights(small)[name], atol=1e-4)


def test_out_of_memory_in_sampling_samples_fewer_together(
    host: Any,
    items: list[Item],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    easy: None,
) -> None:
    sample = GRPOTrainer._generate_single_turn
    together: list[int] = []

    def full(trainer: Any, prompt_ids: Any, *arguments: Any, **options: Any) -> Any:
        if len(prompt_ids) > 5:
            torch.empty(2**60)
        together.append(len(prompt_ids))
        return sample(trainer, prompt_ids, *arguments, **options)  # type: ignore[no-untyped-call]

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", full)
    result = train(host, items, tmp_path, steps=1.2)
    assert "answers together" in caplog.text and "batches in" not in caplog.text
    assert sum(together) == CONFIG.groups * CONFIG.samples * len(result.steps) and max(together) <= 5


def test_a_tokenizer_without_an_end_token_is_given_the_host_s(
    host: Any, items: list[Item], tmp_path: Path, easy: None
) -> None:
    tokenizer = copy.deepcopy(host.tokenizer)
    tokenizer.eos_token = None
    assert tokenizer.eos_token_id is None
    silent = train(dataclasses.replace(host, tokenizer=tokenizer), items, tmp_path / "silent", steps=1.2)
    assert equal(weights(silent), weights(train(host, items, tmp_path / "plain", steps=1.2)))


def test_a_run_that_diverges_says_so_and_is_the_bare_host(
    host: Any, items: list[Item], tmp_path: Path, easy: None, caplog: pytest.LogCaptureFixture
) -> None:
    result = train(host, items, tmp_path, config=CONFIG.model_copy(update={"learning_rate": 1e30}))
    assert result.diverged and result.meter.total() > 0
    assert "training diverged at learning rate 1e+30" in caplog.text
    assert all(not tensor.any() for name, tensor in weights(result).items() if "lora_B" in name)


def test_what_does_not_fit_is_left_out_and_too_small_a_budget_refused(
    host: Any, items: list[Item], tmp_path: Path
) -> None:
    long = Item("x" * 300, 1, "math", "short", "long")
    assert train(host, [*items, long], tmp_path, steps=5).left_out == 1
    with pytest.raises(DataError, match="none of 1 training items fits"):
        train(host, [long], tmp_path)
    with pytest.raises(StageError, match="does not pay for one step of 4 groups of 3 answers"):
        train(host, items, tmp_path, steps=0.5)


def test_every_pass_over_the_items_asks_each_once() -> None:
    order = Groups(10, groups=4, samples=3, parts=2, steps=5, seed=7)
    asked = np.concatenate([order.chosen(step) for step in range(5)])
    assert sorted(asked[:10]) == sorted(asked[10:]) == list(range(10)) and list(asked[:10]) != list(asked[10:])
    rows = np.array(list(order)).reshape(5, 2, 4, 3)
    assert len(order) == rows.size
    assert all((order.chosen(step) == rows[step, part].T).all() for step in range(5) for part in range(2))
    few = Groups(3, groups=4, samples=2, parts=1, steps=2, seed=7)
    assert set(few.chosen(0)) == {0, 1, 2}
