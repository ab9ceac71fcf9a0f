"""What an estimate of an adapter suite counts of an evaluation."""

from pathlib import Path

import pytest

from evolora_core.engine.meter import Meter
from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import Suite
from evolora_core.engine.tables import read_table
from evolora_core.language.datasets import build_splits
from evolora_core.language.families.base import Item
from evolora_core.language.holdouts import read_holdout
from evolora_core.language.hosts.host import load_host
from evolora_core.language.splits import HOLDOUTS
from evolora_core.lora.answering.grading import answer_items
from evolora_core.searches.adapters.arms import short_runs
from evolora_core.searches.adapters.arms.estimating import Answers, Foretold, alike, estimate
from evolora_core.searches.adapters.arms.evolved import Evolution
from evolora_core.searches.adapters.arms.registry import TRAINED
from evolora_core.searches.adapters.arms.short_runs import set_up, train_shortly
from evolora_core.searches.adapters.evaluation.variants import ask_variants
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite
from evolora_core.searches.adapters.plan import plan
from flows._preflight import use_host

ROOT = Path(__file__).parents[3]
FILE = ROOT / "tests" / "data" / "holdout_grid.jsonl"
FROZEN = (
    "seeds=[0]", "conditions=[frozen]", "evaluation.comparisons=[]", "data.holdout_items=16", "data.train_items=64",
    "data.selection_items=16", f"evaluation.holdouts=[{FILE}]",
)  # fmt: skip


@pytest.fixture(scope="module")
def config() -> SuiteConfig:
    """A suite that lets the bare host answer three holdouts of 16 items, and a file."""
    return load_suite(ROOT / "configs" / "suites" / "tiny.yaml", FROZEN)


def test_an_evaluation_counts_the_holdouts_and_the_items_of_files(config: SuiteConfig) -> None:
    suite = Suite(config, SuiteId("tiny", "0" * 8), use_host(config))
    found = {name: own.flops for name, own in estimate(suite, plan(suite), lambda *_: None).items()}
    assert found["shared.s0.holdouts"] == 0
    splits, host = build_splits(config.data, 0), load_host("nano")

    def asked(items: list[Item]) -> int:
        outcomes = answer_items(host, None, items, [-1] * len(items), decoding=config.decoding)
        return sum(outcome.flops for outcome in outcomes)

    known = sum(asked(splits[split]) for split in HOLDOUTS)
    assert found["frozen.s0.evaluate"] - known == pytest.approx(asked(read_holdout(FILE)), rel=0.2)


def test_an_evaluation_counts_the_other_forms_of_prompts(config: SuiteConfig) -> None:
    def foretold(asked: SuiteConfig) -> float:
        suite = Suite(asked, SuiteId("tiny", "0" * 8), use_host(asked))
        return estimate(suite, plan(suite), lambda *_: None)["frozen.s0.evaluate"].flops

    varied = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", [*FROZEN, "evaluation.variants=true"])
    host, meter = load_host("nano"), Meter()
    items = build_splits(config.data, 0)["holdout_id"]
    plain = answer_items(host, None, items, [-1] * len(items), decoding=config.decoding)
    ask_variants(host, None, plain, None, None, meter, decoding=config.decoding)
    assert foretold(varied) - foretold(config) == pytest.approx(meter.total(), rel=0.2)


def lead_alone(*changes: str) -> Suite[SuiteConfig]:
    """A suite of one ecology without trials, whose generations have more episodes than a short run's."""
    own = (
        "seeds=[0]", "conditions=[frozen, ecology]", "evaluation.comparisons=[]", "ecology.trials=[]", "sft.trials=[]",
        "ecology.episodes=256", "data.train_items=64", "data.selection_items=16", "data.holdout_items=16",
    )  # fmt: skip
    config = load_suite(ROOT / "configs" / "suites" / "tiny.yaml", [*own, *changes])
    return Suite(config, SuiteId("tiny", "0" * 8), use_host(config))


def test_learning_by_answers_is_as_much_with_fewer_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What evolution strategies learn by is charged as rollouts, as the answers of practice are."""
    monkeypatch.setattr(short_runs, "SECONDS", 0.1)  # on a fast machine too, fewer episodes than the suite has
    suite = lead_alone("ecology.plasticity={rule: es, steps: 1, batch_rows: 24, pairs: 4}")
    bench = set_up(suite, tmp_path)
    short = train_shortly(bench, "ecology")
    assert isinstance(short.training, Evolution) and short.training.ecology.episodes < 128
    training = short.training.model_copy(update={"ecology": suite.config.lead})
    work = bench.work(training, "whole")
    whole = TRAINED["ecology"].train(work, work.folder)
    made = sum(row["flops"] for row in read_table(work.folder, "compute") if row["purpose"] == "rollout")
    assert whole.flops > made > 0
    foretold = Foretold(bench, {"ecology": short}, Answers({}, 0.0, 0.0, 0.0)).led(suite.config.lead.generations)
    others = sum(own.flops for name, own in short.accounts.items() if name == "routing") * bench.share("selection")
    assert foretold.flops - others == pytest.approx(made, rel=0.15)


@pytest.mark.parametrize(("named", "cools"), [("grpo", False), ("reinforce", True)])
def test_a_calibration_counts_all_learning_of_a_rule_without_a_cooldown(
    tmp_path: Path, named: str, cools: bool
) -> None:
    cooldown = ", cooldown: 1.0" if cools else ""
    suite = lead_alone(f"ecology.plasticity={{rule: {named}, steps: 8{cooldown}}}", "ecology.episodes=32")
    bench = set_up(suite, tmp_path)
    short = train_shortly(bench, "ecology")
    foretold = Foretold(bench, {"ecology": short}, Answers({}, 0.0, 0.0, 0.0))
    learned = short.accounts["update"].flops / (2 if cools else 1)  # as many steps in the cooldown as before it
    first = suite.config.calibration.generations / suite.config.lead.generations
    rollout = foretold.led(suite.config.lead.generations).flops - short.accounts["update"].flops
    rollout -= short.accounts["routing"].flops * bench.share("selection")
    assert foretold.calibration("ecology").flops == pytest.approx(first * (rollout + learned), rel=0.01)


def test_conditions_that_differ_in_their_learning_rates_alone_are_measured_once() -> None:
    rates = "arms={fast: {like: ecology, changes: {plasticity: {learning_rate: 0.1}}}}"
    config = lead_alone(rates, "conditions=[frozen, ecology, fast]").config
    assert alike(config, "fast") == alike(config, "ecology")
    other = lead_alone(rates.replace("learning_rate", "batch_rows").replace("0.1", "8"), "conditions=[ecology, fast]")
    assert alike(other.config, "fast") != alike(other.config, "ecology")
