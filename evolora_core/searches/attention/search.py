"""The search among attention programs, as the house sees it."""

from collections.abc import Mapping, Sequence

from evolora_core.engine.stage import StageResult, Step, Suite
from evolora_core.searches.attention.experiment import AttentionExperiment, check
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.names import SEARCHES
from evolora_core.searches.attention.plan import plan
from evolora_core.searches.attention.stages.compare import compare_step
from evolora_core.searches.attention.stages.mechanism import MEASURE
from evolora_core.searches.attention.stages.search import SEARCH as SEARCHING
from evolora_core.searches.base import Arm, HostChoice, Search
from evolora_core.searches.packing import pack_step


def host(config: AttentionExperiment) -> HostChoice | None:
    """None: its models are made from nothing."""
    return None


def closing(
    suite: Suite[AttentionExperiment], seeds: Sequence[int], steps: Sequence[Step], results: Mapping[str, StageResult]
) -> list[Step]:
    """Fits and declared contrasts, and the pack."""
    compared = compare_step(suite, seeds, steps)
    return [compared, pack_step(suite, seeds, results, compared)]


SEARCH = Search(
    name="attention",
    experiment=AttentionExperiment,
    check=check,
    host=host,
    plan=plan,
    closing=closing,
    sections="evolora_core.searches.attention.pack.sections",
    arms={
        **{name: Arm(name, MEASURE) for name in KNOWN},
        **{name: Arm(name, SEARCHING) for name in SEARCHES},
    },
    estimator="evolora_core.searches.attention.estimating",
    calibration=("corpus", "rates"),
    calibrated="attention_calibration",
)
