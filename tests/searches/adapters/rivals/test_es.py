"""Evolution strategies on a real host."""

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_runs import short_words

from evolora_core.errors import DataError, StageError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Grade
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.mirrored import slope
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.searches.adapters.rivals import es
from evolora_core.searches.adapters.settings.es import EsConfig

torch.set_num_threads(1)
CONFIG = EsConfig(rank=2, pairs=4, items=6, sigma=0.05)
DECODING = DecodingConfig(max_new_tokens=8, batch_rows=64)
BUDGET = 20_000_000_000


@pytest.fixture(scope="module")
def sorting() -> Any:
    return short_words(64)


def train(nano: Any, sorting: Any, folder: Path, config: Any = CONFIG, **more: Any) -> Any:
    return es.train_es(nano, sorting, config, budget_flops=BUDGET, seed=1, folder=folder, decoding=DECODING, **more)


def facts(result: Any) -> Any:
    return [{k: v for k, v in row.items() if k != "seconds"} for row in result.steps]


def test_it_moves_the_adapter_and_stays_within_its_budget(nano: Any, sorting: Any, tmp_path: Path) -> None:
    result = train(nano, sorting, tmp_path)
    assert len(result.steps) > 3
    assert 0.9 * BUDGET < sum(row["flops"] for row in result.steps) == result.meter.total() <= BUDGET
    adapter = import_peft(result.adapter_folder, nano)
    assert adapter.rank == 2 and adapter.norm() > 0


def test_a_killed_run_ends_as_if_it_had_not_been(
    nano: Any, sorting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    whole = train(nano, sorting, tmp_path / "whole")
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")
    seen = []

    def killed(done: int, total: int) -> None:
        seen.append(done)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(nano, sorting, tmp_path / "killed", progress=killed)
    assert list((tmp_path / "killed" / ".work").iterdir())
    assert "resumed" not in caplog.text
    resumed = train(nano, sorting, tmp_path / "killed")
    assert "resumed at step 2" in caplog.text  # the third was not committed
    assert facts(resumed) == facts(whole)
    spent, wanted = ([{**row, "seconds": 0} for row in run.meter.rows()] for run in (resumed, whole))
    assert spent == wanted
    for name, A in import_peft(whole.adapter_folder, nano).A.items():
        assert torch.equal(A, import_peft(resumed.adapter_folder, nano).A[name])


def test_items_that_do_not_fit_the_host_are_not_asked(nano: Any, sorting: Any, tmp_path: Path) -> None:
    long = [replace(item, prompt="long " * 500) for item in sorting[:8]]
    assert facts(train(nano, [*sorting, *long], tmp_path / "beside")) == facts(train(nano, sorting, tmp_path / "alone"))
    with pytest.raises(DataError, match="es: none of 8 training items fits"):
        train(nano, long, tmp_path / "long")


def test_random_search_goes_to_what_is_better_and_else_stays(nano: Any, sorting: Any, tmp_path: Path) -> None:
    best = CONFIG.model_copy(update={"update": "best"})
    moved = train(nano, sorting, tmp_path / "moved", best)
    assert moved.meter.total() <= BUDGET
    assert import_peft(moved.adapter_folder, nano).norm() > 0
    still = train(nano, sorting, tmp_path / "still", best.model_copy(update={"sigma": 1e-12}))  # no answer changes
    assert import_peft(still.adapter_folder, nano).norm() == 0


def test_a_step_that_may_cost_more_than_is_left_is_not_begun(nano: Any, sorting: Any, tmp_path: Path) -> None:
    """One item a step, short or long: what the last one cost says nothing about the next."""
    one = CONFIG.model_copy(update={"items": 1, "pairs": 1})
    long = [replace(item, prompt=item.prompt + " and" * 150) for item in sorting[:8]]
    budget = 8 * 10**9
    for seed in (7, 13):  # with 13 there is room after the last short step, but not for the long one that is next
        given: dict[str, Any] = {
            "budget_flops": budget,
            "seed": seed,
            "folder": tmp_path / str(seed),
            "decoding": DECODING,
        }
        result = es.train_es(nano, sorting[8:16] + long, one, **given)
        assert result.meter.total() <= budget


def test_a_budget_that_pays_for_no_step_is_refused(nano: Any, sorting: Any, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="es: the budget .* does not pay for one step of 8 x 6 answers"):
        es.train_es(nano, sorting, CONFIG, budget_flops=10**9, seed=1, folder=tmp_path, decoding=DECODING)


def test_partial_credit_is_learned_from_only_if_asked_for(
    nano: Any, sorting: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no answer is right and some are nearly, scores differ and right answers do not."""
    asked = answer_items

    def nearly(*args: Any, **more: Any) -> Any:
        outcomes = asked(*args, **more)
        return [replace(o, grade=Grade(i / len(outcomes), False, "wrong")) for i, o in enumerate(outcomes)]

    monkeypatch.setattr(es, "answer_items", nearly)
    strict = train(nano, sorting, tmp_path / "strict")
    assert import_peft(strict.adapter_folder, nano).norm() == 0
    generous = train(nano, sorting, tmp_path / "generous", CONFIG.model_copy(update={"partial_credit": True}))
    assert import_peft(generous.adapter_folder, nano).norm() > 0


def test_the_slope_points_uphill() -> None:
    """On a plane, the estimate averages to the gradient; its cosine with it grows with the pairs."""
    torch.manual_seed(0)
    gradient = torch.randn(200)
    for pairs, least in ((40, 0.3), (2000, 0.9)):
        noise = torch.randn(pairs, 200)
        scores = torch.cat([noise @ gradient, -noise @ gradient]).numpy()
        found = slope(scores, noise)
        assert found is not None
        assert torch.cosine_similarity(found, gradient, dim=0) > least
    assert slope(np.full(8, 0.5, dtype=np.float32), torch.randn(4, 200)) is None
