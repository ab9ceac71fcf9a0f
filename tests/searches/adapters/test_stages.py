"""The small parts of the stages that compute something themselves."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import StageResult, Suite
from evolora_core.language.families.base import Item
from evolora_core.searches.adapters.arms.base import common
from evolora_core.searches.adapters.arms.evolved import Evolution, asked
from evolora_core.searches.adapters.arms.registry import TRAINED, Trained
from evolora_core.searches.adapters.arms.short_runs import shortened
from evolora_core.searches.adapters.evaluation.trial import leaders
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.searches.adapters.routing.routes import Routes
from evolora_core.searches.adapters.stages.datasets import split_rows
from evolora_core.searches.adapters.stages.tune import choose, request_trial
from evolora_core.searches.adapters.trials import Spent, trial_budget
from flows._publish import publish

JUDGED = {"arm": "ecology", "trial": 0, "changes": "{}", "holdout_acc": 0.5}
ROOT = Path(__file__).resolve().parents[3]


def by(config: SuiteConfig, arm: str) -> Trained:
    """How a condition is trained."""
    return TRAINED[config.kind(arm).name]


def item(family: str, number: int) -> Item:
    return Item(f"question {number}", number, family, "short", f"{family}-{number}")


def test_contests_of_a_shorter_run_end_at_the_same_part_of_it() -> None:
    whole = asked(load_suite(ROOT / "configs" / "suites" / "luck.yaml"), "ecology", None)
    assert (whole.ecology.contest.every, whole.ecology.contest.ends) == (2, 4)
    contests = [whole.shortened(share).ecology.contest for share in (1.0, 0.5, 0.1)]
    assert [(own.every, own.ends) for own in contests] == [(2, 4), (1, 2), (1, 1)]


def test_a_short_run_has_an_answer_for_each_contender_on_the_slowest_machine() -> None:
    whole = asked(load_suite(ROOT / "configs" / "suites" / "untuned.yaml"), "halving", None)
    own = whole.ecology.model_copy(update={"population": 2})
    assert own.contest.contenders > own.population
    slow: Any = SimpleNamespace(prices=SimpleNamespace(answers_per_second=1e-3))
    short = shortened(whole.model_copy(update={"ecology": own}), slow)
    assert isinstance(short, Evolution) and short.ecology.episodes == own.contest.contenders * own.samples


def test_split_rows_count_and_hash_every_cell() -> None:
    splits = {"train": [item("math", 1), item("math", 2), item("word.count", 3)], "selection": [item("math", 1)]}
    rows = split_rows(splits)
    assert [(row["split"], row["family"], row["n"]) for row in rows] == [
        ("train", "math", 2),
        ("train", "word.count", 1),
        ("selection", "math", 1),
    ]
    assert len({row["sha256"] for row in rows}) == 3
    assert split_rows(splits) == rows


def test_the_leader_of_a_bucket_answers_though_not_proven_better() -> None:
    items = [item("math", 1), item("word.count", 2), item("math", 3)]
    table, accuracy = (
        {"math": -1, "word.count": -1},
        {"math": {"-1": 0.1, "2": 0.4}, "word.count": {"-1": 0.8, "2": 0.2}},
    )
    assert leaders(items, Routes("family", table, accuracy=accuracy)) == [2, -1, 2]
    assert leaders(items, Routes("single", {"": 3}, accuracy={"": {"-1": 0.1, "3": 0.4, "4": 0.4}})) == [3, 3, 3]
    tied = {"": {"-1": 0.1, "21": 0.4, "5": 0.4}}  # as JSON sorts them
    assert leaders(items, Routes("single", {"": 5}, accuracy=tied)) == [5, 5, 5]
    assert leaders(items, Routes("family", {}, accuracy={"math": {"-1": 0.4, "2": 0.4}})) == [-1, -1, -1]


def test_the_best_trial_of_each_arm_is_chosen_and_a_tie_goes_to_the_earlier() -> None:
    from types import SimpleNamespace

    def trial(arm: str, number: int, rate: float, acc: float) -> StageResult:
        facts = {
            "arm": arm,
            "trial": number,
            "changes": f'{{"learning_rate": {rate}}}',
            "holdout_acc": acc,
            "flops": 5,
            "fixed_flops": 0,
            "extinct": False,
        }
        given = {"condition": "tuning", "seed": 0, "folder": "", "identity": "", "seconds": 0.0, "flops": 5}
        return StageResult(stage="tune", summary=facts, **given)

    trials = [
        trial("sft", 0, 0.001, 0.5), trial("sft", 1, 0.002, 0.5), trial("ecology", 0, 0.001, 0.1),
        trial("ecology", 1, 0.002, 0.3),
    ]  # fmt: skip
    work: Any = SimpleNamespace(results={str(i): row for i, row in enumerate(trials)})
    assert choose(work).facts.trials == {"sft": 0, "ecology": 1}


@pytest.mark.parametrize(
    "arm, fraction, fixed, flops",
    [("sft", 0.25, 60, 120), ("sft-quarter", 0.25, 0, 100), ("sft-quarter", 0.25, 60, 65)]
    + [("single-half", 0.25, 60, 120), ("ecology-fourfold", 0.25, 60, 480), ("sft-quarter", 0.5, 0, 60)]
    + [("sft-quarter", 0.5, 60, 45), ("single-half", 1, 60, 60), ("sft-double", 1, 60, 240)],
)
def test_a_trial_is_no_shorter_than_the_ecologys_and_never_longer_than_its_arm(
    arm: Any, fraction: Any, fixed: Any, flops: Any
) -> None:
    config = load_suite(ROOT / "configs" / "suites" / "curves.yaml", [f"tuning.fraction={fraction}"])
    suite = Suite(config, SuiteId("curves", "0"))

    def result(stage: str, flops: int) -> StageResult:
        facts = {"condition": "tuning", "seed": 1000, "folder": stage, "identity": stage, "seconds": 1.0}
        died = stage == "try-ecology-2"
        summary = {"flops": flops, "fixed_flops": fixed, "extinct": died} | JUDGED
        return StageResult(stage=stage, flops=flops, summary=summary, **facts)

    data = result("datasets", 0)
    tried = [result("try-ecology-0", 100), result("try-ecology-1", 140), result("try-ecology-2", 60)]
    request: Any = request_trial(suite, arm, 0, 1000, by(config, arm), datasets=data, prices=data, lead_trials=tried)
    assert request.config.training.budget_flops == flops


@pytest.mark.parametrize("fraction, generations", [(0.25, 3), (0.5, 5), (1, 10)])
def test_a_trial_cools_as_far_as_the_whole_run(fraction: float, generations: int) -> None:
    config = load_suite(ROOT / "configs" / "suites" / "curves.yaml", [f"tuning.fraction={fraction}"])
    suite = Suite(config, SuiteId("curves", "0"))
    facts = {"condition": "tuning", "seed": 1000, "folder": "x", "identity": "x", "seconds": 1.0, "flops": 0}
    data = StageResult(stage="datasets", summary={"flops": 100, "fixed_flops": 0, "extinct": False} | JUDGED, **facts)
    for arm, budgets in (("ecology", 1), ("single", 1), ("ecology-fourfold", 4)):
        given: dict[str, Any] = {"datasets": data, "prices": data, "lead_trials": [data]}
        request: Any = request_trial(suite, arm, 0, 1000, by(config, arm), **given)
        trial = request.config.training
        tried = trial.generations or trial.budget_flops / (100 / generations)
        share = trial.ecology.plasticity.half_life / asked(config, arm, 0).ecology.plasticity.half_life
        assert share == pytest.approx(tried / (10 * budgets), abs=1e-6), arm


def test_what_no_length_changes_does_not_count_in_how_far_a_trial_cools() -> None:
    """Prices and the choice of routes cost as much in a trial as in a run."""
    lead = [Spent(flops=100, fixed=40, extinct=False)]
    for budget in (1.0, 2.0):
        flops, share = trial_budget(lead, budget, generations=10, tried=5)
        whole = budget * (40 + 60 * 2)
        assert share == pytest.approx((flops - 40) / (whole - 40))
    assert trial_budget(lead, 1.0, generations=10, tried=5) == (100, 0.5)  # the lead's own


def test_a_run_with_twice_the_budget_cools_half_as_fast() -> None:
    config = load_suite(ROOT / "configs" / "suites" / "curves.yaml")
    found = {
        arm: asked(config, arm, 0).ecology.plasticity.half_life
        for arm in ("ecology-quarter", "single-half", "ecology", "ecology-fourfold")
    }
    assert found == {"ecology-quarter": 4, "single-half": 8, "ecology": 16, "ecology-fourfold": 64}


def test_families_arrive_by_the_names_that_items_have() -> None:
    tiny = ROOT / "configs" / "suites" / "tiny.yaml"
    changes = ["data.train_families=[regex, math]", "data.arrivals=true", "conditions=[frozen, ecology]"]
    changes += ["evaluation.comparisons=[]", "ecology.assimilation={}"]
    config = load_suite(tiny, changes)
    assert common(config)["arrivals"] == ["regex.synthesis", "math"]


def test_publishing_replaces_a_pack_and_leaves_an_equal_one_alone(tmp_path: Path) -> None:
    from types import SimpleNamespace

    source = tmp_path / "stage" / "pack" / "plots"
    source.mkdir(parents=True)
    (source.parent / "provenance.json").write_text("{}")
    (source / "curve.csv").write_text("1")
    result: Any = SimpleNamespace(path=tmp_path / "stage")
    out = publish(result, tmp_path / "packs" / "x", SECTIONS)
    assert (out / "plots" / "curve.csv").read_text() == "1"
    stamp = out.stat().st_ino
    (out / "paper_table.tex").write_text("exported")
    assert publish(result, out, SECTIONS).stat().st_ino == stamp
    (source / "curve.csv").write_text("2")
    (out / "tuning.csv").write_text("")
    publish(result, out, SECTIONS)
    assert [path.name for path in out.rglob("*.csv")] == ["curve.csv"]
    assert [path.name for path in out.parent.iterdir()] == ["x"]


def test_every_arm_may_spend_its_multiple_of_what_the_ecology_spent() -> None:
    config = load_suite(ROOT / "configs" / "suites" / "curves.yaml")
    suite = Suite(config, SuiteId("curves", "0"))
    given: dict[str, Any] = {"seed": 0, "condition": "ecology", "folder": "x", "identity": "x", "seconds": 1.0}
    lead, found = StageResult(stage="evolve", flops=1000, summary={}, **given), {}
    for arm in config.trained:
        if arm != config.budget_of:
            request: Any = by(config, arm).stage.request(suite, arm, 0, datasets=lead, prices=lead, budget=lead)
            found[arm] = request.config.budget_flops
    assert found == {arm: round(1000 * config.budget(arm)) for arm in found}
    assert {250, 1000, 4000} < {*found.values()}
