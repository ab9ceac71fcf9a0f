import dataclasses
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evolora_core.engine.identity import import_closure
from evolora_core.engine.meter import Meter
from evolora_core.errors import StageError
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import MemoryPlan
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.answering.pricing import Prices, price
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.candidates import choose_among
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


@pytest.fixture
def tight(small: Any) -> Iterator[None]:
    """A machine on which 40 rows of answers and 120 tokens of training fit, by the real allocator's own error."""

    def allocate(module: Any, arguments: Any, options: Any) -> None:
        rows, tokens = options["input_ids"].shape
        if rows * tokens > 120 if torch.is_grad_enabled() else rows > 40:
            torch.empty(2**60)  # more than any machine has

    hook = small.host.model.register_forward_pre_hook(allocate, with_kwargs=True)
    yield
    hook.remove()


def test_the_plan_is_found_once_and_fits(
    small: Any, tight: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = dataclasses.replace(small.host, memory_plan=MemoryPlan())
    found = price(host, small.items, small.config.practice, small.decoding, seed=0)
    assert found.batch_rows in (16, 32) and 0 < found.pass_share < 1
    found.save(tmp_path / "calibration.json")
    caplog.clear()
    fresh = dataclasses.replace(small.host, memory_plan=MemoryPlan())
    Prices.load(tmp_path / "calibration.json").plan(fresh)
    again = price(fresh, small.items, small.config.practice, small.decoding, seed=0)
    assert not caplog.records
    assert (again.batch_rows, again.pass_share, again.accuracy) == (found.batch_rows, found.pass_share, found.accuracy)


def test_answers_that_do_not_fit_the_context_are_told(small: Any, caplog: pytest.LogCaptureFixture) -> None:
    longest, practice = small.host.max_context, small.config.practice
    lengths = sorted(len(ids) for ids in small.host.encode_prompts([item.prompt for item in small.items]))
    tight = small.decoding.model_copy(update={"max_new_tokens": longest - lengths[len(lengths) // 2]})
    for most, none in ((longest, "json_repair, math"), (longest - 20, "json_repair")):
        fault = (
            f"of the prompts of {none} none fits the host's {longest} tokens with an answer of {most}; lower decoding"
        )
        with pytest.raises(StageError, match=fault):
            price(small.host, small.items, practice, tight.model_copy(update={"max_new_tokens": most}), seed=0)
    assert not caplog.records
    price(small.host, small.items, practice, tight, seed=0)
    assert "and count as wrong; lower decoding.max_new_tokens" in caplog.text


def test_no_greedy_answer_is_priced_twice(small: Any) -> None:
    items = [item for item in small.items if item.family == "math"]
    few = [item for item in small.items if item.family == "json_repair"][:10]
    practice = small.config.practice
    found = price(small.host, items + few, practice, small.decoding, seed=0)
    assert found.per_cell == {"json_repair/short": 10, "math/short": 128}  # of ten and 150 items
    answers = _answers(small, few)
    assert found.accuracy["json_repair/short"] == np.mean([answer.grade.correct for answer in answers])
    dear, cheap = (np.mean([answer.flops for answer in own]) for own in (answers, _answers(small, items)))
    assert found.unit_flops == pytest.approx((dear + cheap) / 2, rel=0.01) and dear > 1.3 * cheap
    sampled = practice.model_copy(update={"temperature": 0.8})  # these differ each time
    assert set(price(small.host, items + few, sampled, small.decoding, seed=0).per_cell.values()) == {128}


def _answers(small: Any, items: Sequence[Item]) -> list[Outcome]:
    return answer_items(small.host, None, items, [HOST] * len(items), decoding=small.decoding)


def test_a_search_practises_greedily_and_others_at_their_temperature(small: Any) -> None:
    data = small.config.model_dump()
    found = {}
    for rule in ("search", "reinforce"):
        data["plasticity"]["rule"] = rule
        config = EcologyConfig.model_validate(data)
        assert config.practice_temperature == (0.0 if rule == "search" else config.temperature)
        found[rule] = price(small.host, small.items, config.practice, small.decoding, seed=0).accuracy
    assert found["search"] == small.prices.accuracy != found["reinforce"]


def test_choosing_costs_no_more_than_what_is_set_aside_whatever_the_rank(small: Any, tmp_path: Path) -> None:
    """Freshly founded adapters answer as the host does, and cost as much as their ranks say."""
    items = small.items[::4]  # of both families
    for rank in (1, 8, 64):
        population = Population.empty(small.host, 1, rank)
        population.init_slot(0, rank, np.random.default_rng(0))
        meter = Meter()
        choose_among(small.host, population, items, {"": [0]}, ["single"], tmp_path, meter, decoding=small.decoding)
        reserve = small.prices.routing_reserve(FlopModel.from_model(small.host.model), len(items), [rank])
        assert 0.7 * reserve < meter.total() < reserve


@pytest.mark.parametrize(
    "module",
    [f"evolora_core.{name}" for name in ("lora.answering.pricing", "lora.population.saved")]
    + [f"evolora_core.searches.adapters.{name}" for name in ("stages.price", "arms.es", "arms.sft", "stages.evaluate")],
)
def test_nothing_but_an_evolution_depends_on_the_code_of_one(module: str) -> None:
    ecology = "evolora_core.searches.adapters.ecology"
    assert not {name for name in import_closure(module) if name.startswith(ecology)}
