import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import StopStringCriteria

from evolora_core.engine import rng
from evolora_core.engine.meter import Meter
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import MemoryPlan
from evolora_core.lora.answering.grading import answer_items, charge
from evolora_core.lora.answering.outcome import Manner
from evolora_core.lora.answering.stopping import spoken, stop_at
from evolora_core.lora.population.stack import Population

DECODING = DecodingConfig(max_new_tokens=8, batch_rows=4)


@pytest.fixture(scope="module")
def population(host: Any) -> Any:
    made = Population.empty(host, 2, 4)
    for slot, rank in enumerate((2, 4)):
        made.init_slot(slot, rank, np.random.default_rng(slot))
        for B in made.B.values():
            B[slot, :, :rank] = 0.1 * (slot + 1)
    return made


def test_stop_strings_end_an_answer_and_are_cut_off(host: Any, population: Any, items: list[Item]) -> None:
    slots = [0, 1] * 8
    whole = answer_items(host, population, items, slots, decoding=DECODING)
    letters = Counter("".join(outcome.answer for outcome in whole))
    pairs = Counter(o.answer[i : i + 2] for o in whole for i in range(len(o.answer) - 1))
    stops = [letters.most_common(2)[1][0], pairs.most_common(1)[0][0]]
    stopping = DECODING.model_copy(update={"stop_strings": stops})
    stopped = answer_items(host, population, items, slots, decoding=stopping)
    assert sum(o.answer_tokens for o in stopped) < sum(o.answer_tokens for o in whole)
    for before, after in zip(whole, stopped, strict=True):
        places = [place for stop in stops if (place := before.answer.find(stop)) >= 0]
        assert after.answer == before.answer[: min(places, default=None)]
        assert after.finished == (bool(places) or before.finished)
    prefixes = [outcome.tokens[:3] for outcome in whole]
    for own in stopped:  # what is remembered ends with the answer, but for letters that share a token with it
        tokens = spoken(host, own.tokens, own.answer)
        assert tokens == tuple(own.tokens[: len(tokens)]) and host.decode(list(tokens)).startswith(own.answer)
        assert not tokens or len(host.decode(list(tokens[:-1]))) < len(own.answer)
    assert any(len(spoken(host, own.tokens, own.answer)) < len(own.tokens) for own in stopped)
    assert all(spoken(host, own.tokens, own.answer) == tuple(own.tokens) for own in whole)
    begun = answer_items(host, population, items, slots, Manner(prefixes=prefixes), decoding=stopping)
    assert [outcome.answer for outcome in begun] == [outcome.answer for outcome in stopped]


def test_a_vocabulary_is_looked_through_once_for_the_same_stop_strings(
    host: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    class Counted(StopStringCriteria):
        def __init__(self, tokenizer: Any, stop_strings: Any) -> None:
            looked.append(stop_strings)
            super().__init__(tokenizer, stop_strings)

    monkeypatch.setattr("transformers.StopStringCriteria", Counted)
    first, again, other = (stop_at(host, strings) for strings in (["12", "x"], ["12", "x"], ["3"]))
    assert looked == [["12", "x"], ["3"]]
    assert first and again and other
    tokens = torch.tensor([host.tokenizer.encode(text, add_special_tokens=False)[-2:] for text in ("12", "13")])
    assert first(tokens).tolist() == again(tokens).tolist() == [True, False] == (~other(tokens)).tolist()


def test_each_item_gets_its_own_graded_outcome_in_order(host: Any, population: Any, items: list[Item]) -> None:
    slots = [-1, 0, 1, 0] * 4
    outcomes = answer_items(host, population, items, slots, decoding=DECODING)
    assert [outcome.item for outcome in outcomes] == items
    assert [outcome.slot for outcome in outcomes] == slots
    for outcome in outcomes:
        assert outcome.grade == grade(outcome.item, outcome.answer)
        assert outcome.answer == host.decode(outcome.tokens)
        assert outcome.prompt_tokens == len(host.encode_prompts([outcome.item.prompt])[0])
        assert len(outcome.tokens) <= outcome.answer_tokens <= DECODING.max_new_tokens


def test_a_greedy_answer_does_not_depend_on_its_neighbours(host: Any, population: Any, items: list[Item]) -> None:
    together = answer_items(host, population, items, [0, 1] * 8, decoding=DECODING)
    for i in (0, 5, 15):
        (alone,) = answer_items(host, population, [items[i]], [i % 2], decoding=DECODING)
        assert alone.answer == together[i].answer
        assert alone.flops == together[i].flops


def test_flops_are_those_of_the_slot_s_own_rank(host: Any, population: Any, items: list[Item]) -> None:
    model = FlopModel.from_model(host.model)
    outcomes = answer_items(host, population, items[:3], [-1, 0, 1], decoding=DECODING)
    for outcome, rank in zip(outcomes, (0, 2, 4), strict=True):
        assert outcome.flops == model.generate_flops(outcome.prompt_tokens, outcome.answer_tokens, rank)
    assert all(isinstance(outcome.flops, int) for outcome in outcomes)


def test_a_prompt_that_does_not_fit_is_wrong_and_never_sent(host: Any, items: list[Item]) -> None:
    room = host.max_context - DECODING.max_new_tokens
    overhead = len(host.encode_prompts([""])[0])
    fitting = Item("x" * (room - overhead), 1, "math", "short", "fits")
    long = Item("x" * (room - overhead + 1), 1, "math", "short", "long")
    outcomes = answer_items(host, None, [items[0], long, fitting], [-1, -1, -1], decoding=DECODING)
    assert (outcomes[1].grade.reason, outcomes[1].grade.correct, outcomes[1].flops) == ("too long", False, 0)
    assert (outcomes[1].answer, outcomes[1].tokens, outcomes[1].answer_tokens) == ("", [], 0)
    assert outcomes[1].prompt_tokens == room + 1
    meter = Meter()
    charge(meter, "rollout", outcomes, 1.0)
    asked = [outcomes[0], outcomes[2]]
    assert meter.rows()[0]["tokens"] == sum(own.prompt_tokens + own.answer_tokens for own in asked)
    assert outcomes[2].grade.reason != "too long" and outcomes[2].flops > 0
    assert answer_items(host, None, [long], [-1], decoding=DECODING)[0].grade.reason == "too long"
    assert answer_items(host, None, [], [], decoding=DECODING) == []


def test_what_fits_is_asked_with_every_prefix(host: Any) -> None:
    """The last tokens of a context: a prefix takes none of the room that its own answer has."""
    cap = DECODING.max_new_tokens
    overhead = len(host.encode_prompts([""])[0])
    fitting = Item("x" * (host.max_context - cap - overhead), 1, "math", "short", "fits")
    whole = answer_items(host, None, [fitting], [-1], decoding=DECODING)[0]
    begun = [whole.tokens[:length] for length in range(len(whole.tokens))]
    manner = Manner(prefixes=begun)
    outcomes = answer_items(host, None, [fitting] * len(begun), [-1] * len(begun), manner, decoding=DECODING)
    assert len(begun) > 2 and [outcome.answer for outcome in outcomes] == [whole.answer] * len(begun)
    assert [outcome.tokens for outcome in outcomes] == [whole.tokens] * len(begun)


def test_samples_follow_the_rows_own_keys(host: Any, population: Any, items: list[Item]) -> None:
    rows = [items[0]] * 6
    keys = rng.row_keys(rng.key(0, 0, 0, "test"), 6)
    hot = Manner(temperatures=[1.5] * 6, keys=keys)
    first = answer_items(host, population, rows, [0] * 6, hot, decoding=DECODING)
    assert len({outcome.answer for outcome in first}) > 1
    order = [3, 1, 5, 0, 2, 4]
    again = answer_items(host, population, rows, [0] * 6, Manner(temperatures=1.5, keys=keys[order]), decoding=DECODING)
    assert [outcome.answer for outcome in again] == [first[i].answer for i in order]


def test_progress_counts_every_item(host: Any, items: list[Item]) -> None:
    seen = []
    long = Item("x" * 500, 1, "math", "short", "long")
    answer_items(
        host,
        None,
        [*items * 3, long],
        [-1] * 49,
        decoding=DECODING,
        progress=lambda done, total, text="": seen.append((done, total)),
    )
    assert [total for _, total in seen] == [49] * len(seen)
    assert seen[-1][0] == 49 and len(seen) == 2
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_items_and_slots_must_match(host: Any, items: list[Item]) -> None:
    with pytest.raises(ValueError, match="16 items but 2 slots"):
        answer_items(host, None, items, [-1, -1], decoding=DECODING)


def test_an_answer_continued_from_its_own_beginning_is_the_same_answer(
    host: Any, population: Any, items: list[Item]
) -> None:
    whole = answer_items(host, population, items, [0, 1] * 8, decoding=DECODING)
    prefixes = [outcome.tokens[:2] for outcome in whole]
    again = answer_items(host, population, items, [0, 1] * 8, Manner(prefixes=prefixes), decoding=DECODING)
    for first, second, prefix in zip(whole, again, prefixes, strict=True):
        assert second.tokens == first.tokens  # also where both are cut at the cap
        if first.finished:
            assert second.answer == first.answer and second.grade == first.grade
        assert second.prompt_tokens == first.prompt_tokens + len(prefix)
        assert second.flops > 0


def test_a_killed_evaluation_keeps_its_answers(host: Any, population: Any, items: list[Item], tmp_path: Path) -> None:
    many, slots = items * 4, [-1, 0, 1, 0] * 16  # two chunks
    whole = answer_items(host, population, many, slots, decoding=DECODING)

    def killed(done: float, total: float, text: str = "") -> None:
        if done > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        answer_items(host, population, many, slots, decoding=DECODING, progress=killed, folder=tmp_path)
    (chunk,) = tmp_path.iterdir()
    written = chunk.stat().st_mtime_ns
    resumed = answer_items(host, population, many, slots, decoding=DECODING, folder=tmp_path)
    assert resumed == whole
    assert chunk.stat().st_mtime_ns == written and len(list(tmp_path.iterdir())) == 2
    other = answer_items(host, population, many[1:], slots[1:], decoding=DECODING, folder=tmp_path)
    # What answered other questions is no answer.
    assert [(o.item, o.slot, o.answer) for o in other] == [(o.item, o.slot, o.answer) for o in whole[1:]]


@pytest.mark.parametrize(
    "error", [torch.OutOfMemoryError("CUDA"), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
)
def test_out_of_memory_halves_the_batch_and_says_so(
    host: Any, items: list[Item], caplog: pytest.LogCaptureFixture, error: Any
) -> None:
    host = dataclasses.replace(host, memory_plan=MemoryPlan())
    expected = answer_items(host, None, items, [-1] * 16, decoding=DECODING)

    def full(module: Any, arguments: Any, options: Any) -> None:
        if len(options["input_ids"] if "input_ids" in options else arguments[0]) > 2:
            raise error

    hook = host.model.register_forward_pre_hook(full, with_kwargs=True)
    try:
        found = answer_items(host, None, items, [-1] * 16, decoding=DECODING)
    finally:
        hook.remove()
    assert [outcome.answer for outcome in found] == [outcome.answer for outcome in expected]
    assert [record.message for record in caplog.records] == ["out of memory: going on with 2 answers together"]


def test_another_error_is_not_taken_for_want_of_memory(host: Any, items: list[Item]) -> None:
    def broken(module: Any, arguments: Any, options: Any) -> None:
        raise RuntimeError("shape mismatch")

    hook = host.model.register_forward_pre_hook(broken, with_kwargs=True)
    try:
        with pytest.raises(RuntimeError, match="shape mismatch"):
            answer_items(host, None, items[:2], [-1] * 2, decoding=DECODING)
    finally:
        hook.remove()
