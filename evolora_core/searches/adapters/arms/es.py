"""The arm `es`: evolution strategies or random search on one adapter, with what the budget's arm spent, routing
included.
"""

from functools import partial
from pathlib import Path

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, stage_within_budget, training_of
from evolora_core.searches.adapters.settings.es import EsSettings


class EsTraining(Training):
    """What evolution strategies depend on."""

    es: EsSettings


class EsTrained(BaseModel):
    """How they ended."""

    steps: int


asked = partial(training_of, EsTraining)


def train(work: Work[EsTraining], folder: Path) -> Made[EsTrained]:
    """Train into `folder`, then choose between adapter and host on the selection split, all within the budget.
    It leaves an adapter in PEFT's format, candidates.json, routes, and the tables `es_steps` and `compute`.
    """
    from evolora_core.searches.adapters.arms.terms import made, terms_of
    from evolora_core.searches.adapters.rivals.es import train_es
    from evolora_core.searches.adapters.rivals.rewarded import train_and_route

    result = train_and_route(train_es, work.config.es, terms_of(work), folder)
    return made(folder, result.meter, EsTrained(steps=len(result.steps)), es_steps=result.steps)


TRAIN = stage_within_budget("es", __name__, asked, train)
