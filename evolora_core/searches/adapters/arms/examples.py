"""The arm `examples`: the bare host with solved examples in its prompt. It trains nothing; of its budget it spends what
choosing the examples takes.
"""

from functools import partial
from pathlib import Path

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, stage_within_budget, training_of
from evolora_core.searches.adapters.settings.examples import ExamplesConfig


class Showing(Training):
    """What showing examples depends on."""

    examples: ExamplesConfig


class ShownFacts(BaseModel):
    """What it had to choose among: gold answers, and ways of showing them."""

    labels: int
    ways: int


asked = partial(training_of, Showing)


def train(work: Work[Showing], folder: Path) -> Made[ShownFacts]:
    """Choose into `folder` which examples stand before the items of each bucket, if any. It leaves shots.json, routes
    and the tables `shots` and `compute`.
    """
    from evolora_core.searches.adapters.arms.terms import made, terms_of
    from evolora_core.searches.adapters.rivals.examples import choose_examples

    shown = choose_examples(work.config.examples, terms_of(work), folder)
    return made(folder, shown.meter, ShownFacts(labels=shown.labels, ways=shown.ways), shots=shown.rows)


TRAIN = stage_within_budget("examples", __name__, asked, train)
