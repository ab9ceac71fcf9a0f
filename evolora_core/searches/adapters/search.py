"""The search among LoRA adapters, as the house sees it."""

from collections.abc import Mapping, Sequence

from evolora_core.engine.stage import StageResult, Step, Suite
from evolora_core.language.splits import SPLITS
from evolora_core.searches.adapters.arms.registry import ARMS
from evolora_core.searches.adapters.experiment import SuiteConfig, check
from evolora_core.searches.adapters.plan import plan
from evolora_core.searches.base import HostChoice, Search
from evolora_core.searches.comparing import compare_step
from evolora_core.searches.packing import pack_step


def host(config: SuiteConfig) -> HostChoice:
    """The host of a suite."""
    return HostChoice(config.host, config.device, config.dtype)


def closing(
    suite: Suite[SuiteConfig], seeds: Sequence[int], steps: Sequence[Step], results: Mapping[str, StageResult]
) -> list[Step]:
    """The declared comparisons, and the pack."""
    evaluation = suite.config.evaluation
    compared = compare_step(suite, seeds, steps, evaluation.comparisons, evaluation.bootstrap)
    return [compared, pack_step(suite, seeds, results, compared)]


SEARCH = Search(
    name="adapters",
    experiment=SuiteConfig,
    check=check,
    host=host,
    plan=plan,
    closing=closing,
    sections="evolora_core.searches.adapters.pack.sections",
    arms=ARMS,
    generations="generation_summary",
    page="evolora_core.searches.adapters.scope.page",
    splits=SPLITS,
    calibration=("datasets", "holdouts", "price", "tune", "calibrate"),
    calibrated="calibration_found",
    estimator="evolora_core.searches.adapters.arms.estimating",
)
