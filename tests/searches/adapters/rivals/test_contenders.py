"""Fine-tuning whose rate is drawn, and rates that compete within one budget."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from random_host import draw_items
from small_runs import PRACTICE

from evolora_core.errors import Unaffordable
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.pricing import price
from evolora_core.searches.adapters.rivals import contenders
from evolora_core.searches.adapters.rivals.supervised import FineTuned, fine_tune_and_route
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.settings.sft import SftSettings

PRIOR = {"learning_rate": [1e-4, 1e-1]}
FEW = {"rank": 2, "batch_rows": 8, "checkpoints": 2, "prior": PRIOR}
BUDGET = 5 * 10**9


@pytest.fixture(scope="module")
def terms(host: Host) -> Terms:
    """Of a host that answers nothing: where all are equal, the first contender wins."""
    decoding = DecodingConfig(max_new_tokens=4, batch_rows=64)
    items, selection = draw_items("string.sort", 60, 0), draw_items("string.sort", 12, 1)
    prices = price(host, items, PRACTICE, decoding, 0)
    return Terms(host, items, selection, prices, decoding, ["single"], 0, 0, lambda *_: None)


def tune(terms: Terms, folder: Path, budget: int, **settings: Any) -> FineTuned:
    """Fine-tuning of a few dozen steps."""
    config = SftSettings.model_validate(FEW | settings)
    return fine_tune_and_route(config, replace(terms, budget_flops=budget), folder)


def rates(tuned: FineTuned) -> dict[str, float]:
    """The highest rate of each training."""
    found: dict[str, float] = {}
    for row in tuned.steps:
        found[str(row["adapter"])] = max(found.get(str(row["adapter"]), 0.0), float(row["learning_rate"]))
    return found


def test_the_best_of_the_drawn_rates_trains_anew_within_the_budget(terms: Terms, tmp_path: Path) -> None:
    tuned = tune(terms, tmp_path, BUDGET, contenders=3)
    assert 0.8 * BUDGET < tuned.meter.total() <= BUDGET
    drawn = [SftSettings.model_validate(FEW).prior.rate(0, number) for number in range(3)]
    found = rates(tuned)
    first, second = ([name for name in found if name.startswith(f"round-{number}-")] for number in (1, 2))
    assert [found[name] for name in first] == pytest.approx(drawn, rel=0.2)
    assert len(first) == 3 and len(second) == 2  # three, two, one
    assert {name.split("-", 2)[2] for name in second} < {name.split("-", 2)[2] for name in first}
    assert any(found["all"] == pytest.approx(found[name], rel=0.2) for name in second)
    spent = {name: sum(float(row["flops"]) for row in tuned.steps if row["adapter"] == name) for name in found}
    for tries in ([spent[name] for name in first], [spent[name] for name in second]):
        assert max(tries) < 1.1 * min(tries) and 0.35 < sum(tries) / spent["all"] < 0.5
    assert tuned.meter.flops("update") == sum(spent.values())
    again = tune(terms, tmp_path, BUDGET, contenders=3)
    assert again.steps == tuned.steps and again.meter.rows()[0]["flops"] == tuned.meter.rows()[0]["flops"]


def test_a_rate_that_diverged_does_not_win(terms: Terms, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What diverged left the bare host, which may answer more than a rate that harms it."""
    train = vars(contenders)["train_sft"]

    def broken(*arguments: Any, folder: Path, **given: Any) -> Any:
        return replace(train(*arguments, folder=folder, **given), diverged=folder.name != "contender-2")

    monkeypatch.setattr(contenders, "train_sft", broken)
    sound = SftSettings.model_validate(FEW).prior.rate(0, 2)
    tuned = tune(terms, tmp_path, BUDGET, contenders=3)
    found = rates(tuned)
    assert found["all"] == pytest.approx(sound, rel=0.2)
    assert not any(name.startswith("round-2-") for name in found)  # one is left, and needs no second round


def test_a_run_alone_draws_what_the_first_contender_draws(terms: Terms, tmp_path: Path) -> None:
    tuned = tune(terms, tmp_path, BUDGET // 2)
    assert rates(tuned)["all"] == pytest.approx(SftSettings.model_validate(FEW).prior.rate(0, 0), rel=0.2)


def test_contenders_that_could_not_be_told_apart_are_not_trained(terms: Terms, tmp_path: Path) -> None:
    """With a choice by a few answers the number of a contender would decide."""
    with pytest.raises(Unaffordable, match="do not pay for 12 of each .* or lower sft.contenders"):
        tune(terms, tmp_path, 2 * 10**9, contenders=3)
    assert not list(tmp_path.iterdir())


def test_who_spent_more_than_there_was_is_told(terms: Terms, caplog: pytest.LogCaptureFixture) -> None:
    own = replace(terms, budget_flops=1000)
    own.tell_overspent(1000)
    assert not caplog.messages
    own.tell_overspent(1020)
    assert caplog.messages == ["choosing routes took more than was set aside: 2 % above the budget"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"contenders": 2, "prior": {}}, "set it"),
        ({"contenders": 2, "specialists": True}, "leave out specialists"),
    ],
)
def test_what_cannot_compete_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SftSettings.model_validate(FEW | settings)
