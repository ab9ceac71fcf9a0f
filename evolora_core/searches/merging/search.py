"""The search among recipes that merge models, as the house sees it."""

from evolora_core.searches.base import Arm, HostChoice, Search
from evolora_core.searches.closing import closing
from evolora_core.searches.merging.experiment import MergeExperiment, check
from evolora_core.searches.merging.names import CONTROLS, STRATEGIES
from evolora_core.searches.merging.plan import plan
from evolora_core.searches.merging.settings import SPLITS
from evolora_core.searches.merging.stages.choosing import CONTROL
from evolora_core.searches.merging.stages.choosing import SEARCH as SEARCHING


def host(config: MergeExperiment) -> HostChoice:
    """The base of a suite."""
    return HostChoice(config.host, config.device)


SEARCH = Search(
    name="merging",
    experiment=MergeExperiment,
    check=check,
    host=host,
    plan=plan,
    closing=closing,
    sections="evolora_core.searches.merging.pack.sections",
    arms={
        **{name: Arm(name, CONTROL) for name in CONTROLS},
        **{name: Arm(name, SEARCHING) for name in STRATEGIES},
    },
    exporter="evolora_core.searches.merging.exporting",
    generations="merge_generation",
    estimator="evolora_core.searches.merging.estimating",
    splits=SPLITS,
    calibration=("datasets", "base", "parent"),
    calibrated="merge_calibration",
)
