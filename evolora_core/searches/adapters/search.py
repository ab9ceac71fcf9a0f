"""The search among LoRA adapters, as the house sees it."""

from evolora_core.language.splits import SPLITS
from evolora_core.searches.adapters.arms.registry import ARMS
from evolora_core.searches.adapters.experiment import SuiteConfig, check
from evolora_core.searches.adapters.plan import plan
from evolora_core.searches.base import HostChoice, Search
from evolora_core.searches.closing import closing


def host(config: SuiteConfig) -> HostChoice:
    """The host of a suite."""
    return HostChoice(config.host, config.device, config.dtype)


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
