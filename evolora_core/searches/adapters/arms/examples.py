"""The arm `examples`: the bare host with solved examples in its prompt. It trains nothing; of its budget it spends what
choosing the examples takes.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, chosen, common, stage_within_budget
from evolora_core.searches.adapters.settings.examples import ExamplesConfig

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


class Showing(Training):
    """What showing examples depends on."""

    examples: ExamplesConfig


class ShownFacts(BaseModel):
    """What it had to choose among: gold answers, and ways of showing them."""

    labels: int
    ways: int


def asked(config: "SuiteConfig", arm: str, trial: int | None) -> Showing:
    """What is asked for of a condition, which has no trials."""
    return Showing(examples=chosen(ExamplesConfig, config, arm, None), **common(config))


def train(work: Work[Showing], folder: Path) -> Made[ShownFacts]:
    """Choose into `folder` which examples stand before the items of each bucket, if any. It leaves shots.json, routes
    and the tables `shots` and `compute`.
    """
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.adapters.arms.terms import terms_of
    from evolora_core.searches.adapters.rivals.examples import choose_examples

    shown = choose_examples(work.config.examples, terms_of(work), folder)
    write_table(folder, "shots", shown.rows)
    write_table(folder, "compute", shown.meter.rows())
    return Made(shown.meter.total(), ShownFacts(labels=shown.labels, ways=shown.ways))


TRAIN = stage_within_budget("examples", __name__, asked, train)
