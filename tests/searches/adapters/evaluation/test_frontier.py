"""Adapters scaled after training: what is asked, what is not asked again, and what it costs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolora_core.engine.meter import Meter
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.evaluation.frontier import at_strengths, spread, trace_frontier

DECODING = DecodingConfig(max_new_tokens=4, batch_rows=16)


@pytest.fixture(scope="module")
def population(host: Any) -> Any:
    """Slot 1 holds an adapter that changes what the host says."""
    made = Population.empty(host, 2, 4)
    made.init_slot(1, 2, np.random.default_rng(0))
    for B in made.B.values():
        B[1, :, :2] = 0.3
    return made


@pytest.fixture(scope="module")
def answered(host: Any, population: Any) -> Any:
    """Both splits as the adapter answers them. Half of the targets are its own answers, half the host's."""
    answers = {}
    for split in ("holdout_id", "retention"):
        asked = [Item(f"say {split} {i}", "?", "code.format", "short", f"{split}-{i}") for i in range(12)]
        said = answer_items(host, population, asked * 2, [1] * 12 + [HOST] * 12, decoding=DECODING)
        items = [
            Item(item.prompt, said[i + 12 * (i % 2)].answer.strip(), "code.format", "short", item.task_id)
            for i, item in enumerate(asked)
        ]
        answers[split] = answer_items(host, population, items, [1] * 12, decoding=DECODING)
    return answers


def test_items_are_spread_over_the_whole_split() -> None:
    assert spread(12, 4).tolist() == [0, 3, 6, 9]
    assert spread(3, 512).tolist() == [0, 1, 2]
    assert np.bincount(spread(1000, 300) // 100).tolist() == [30] * 10
    assert spread(0, 5).size == 0


def test_strengths_scale_the_update_and_nothing_else(host: Any, population: Any) -> None:
    adapter = population.get(1)
    scaled = at_strengths(host, adapter, [0.5, 1.0, 2.0])
    assert scaled.delta_norms().tolist() == pytest.approx([factor * adapter.norm() for factor in (0.5, 1.0, 2.0)])
    assert population.get(1).norm() == adapter.norm()


def test_every_other_strength_answers_the_same_items_and_is_charged(host: Any, population: Any, answered: Any) -> None:
    meter = Meter()
    rows = trace_frontier(host, population.get(1), answered, [1e-6, 0.5, 1.0], 6, meter, decoding=DECODING)
    assert [(row["strength"], row["split"]) for row in rows] == [
        (strength, split) for strength in (1e-6, 0.5, 1.0) for split in ("holdout_id", "retention")
    ]
    assert {row["n"] for row in rows} == {6}
    correct = {(row["strength"], row["split"]): row["correct"] for row in rows}
    flops = 0
    for split, outcomes in answered.items():
        chosen = [outcomes[i] for i in (0, 2, 4, 6, 8, 10)]
        assert correct[1.0, split] == sum(outcome.grade.correct for outcome in chosen)
        items = [outcome.item for outcome in chosen]
        alone = answer_items(host, None, items, [HOST] * 6, decoding=DECODING)
        assert correct[1e-6, split] == sum(outcome.grade.correct for outcome in alone)  # next to no update is the host
        half = Population.empty(host, 1, 2, scale=population.scale / 2)
        half.ranks[0] = 2
        half.weights.copy_(at_strengths(host, population.get(1), [1.0]).weights)
        both = [answer_items(host, half, items, [0] * 6, decoding=DECODING)]
        both += [answer_items(host, at_strengths(host, population.get(1), [1e-6]), items, [0] * 6, decoding=DECODING)]
        assert correct[0.5, split] == sum(outcome.grade.correct for outcome in both[0])
        flops += sum(outcome.flops for outcomes in both for outcome in outcomes)
    assert [(row["purpose"], row["flops"]) for row in meter.rows()] == [("evaluation", flops)]
    assert len({correct[strength, "holdout_id"] for strength in (1e-6, 1.0)}) == 2  # the targets tell them apart


def test_without_an_adapter_nothing_is_asked(host: Any, answered: Any) -> None:
    meter = Meter()
    rows = trace_frontier(host, None, answered, [0.5, 1.0, 1.5], 512, meter, decoding=DECODING)
    expected = {split: sum(outcome.grade.correct for outcome in outcomes) for split, outcomes in answered.items()}
    assert [row["correct"] for row in rows] == [expected[split] for _ in range(3) for split in expected]
    assert {row["n"] for row in rows} == {12} and meter.total() == 0


def test_answers_that_were_kept_are_not_asked_again(host: Any, population: Any, answered: Any, tmp_path: Path) -> None:
    def traced() -> tuple[list[Any], list[tuple[int, int]]]:
        meter = Meter()
        calls: list[tuple[int, int]] = []
        rows = trace_frontier(
            host,
            population.get(1),
            answered,
            [0.5, 2.0],
            8,
            meter,
            decoding=DECODING,
            progress=lambda done, total, text="": calls.append((done, total)),
            folder=tmp_path,
        )
        return [rows, [{**row, "seconds": 0} for row in meter.rows()]], calls

    first, asked = traced()
    again, nothing = traced()
    assert again == first and asked[-1] == (32, 32) and nothing == []
