"""What an estimate of an adapter suite counts of an evaluation."""

from pathlib import Path

import pytest

from evolora_core.engine.meter import Meter
from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import Suite
from evolora_core.language.datasets import build_splits
from evolora_core.language.families.base import Item
from evolora_core.language.holdouts import read_holdout
from evolora_core.language.hosts.host import load_host
from evolora_core.language.splits import HOLDOUTS
from evolora_core.lora.answering.grading import answer_items
from evolora_core.searches.adapters.arms.estimating import estimate
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
