"""The arm `es`: evolution strategies or random search on one adapter, with what the budget's arm spent, routing
included.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from evolora_core.engine.stage import Made, Work
from evolora_core.searches.adapters.arms.base import Training, chosen, common, stage_within_budget
from evolora_core.searches.adapters.settings.es import EsSettings

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


class EsTraining(Training):
    """What evolution strategies depend on."""

    es: EsSettings


class EsTrained(BaseModel):
    """How they ended."""

    steps: int


def asked(config: "SuiteConfig", arm: str, trial: int | None) -> EsTraining:
    """The training of a condition."""
    return EsTraining(es=chosen(EsSettings, config, arm, trial), **common(config))


def train(work: Work[EsTraining], folder: Path) -> Made[EsTrained]:
    """Train into `folder`, then choose between adapter and host on the selection split, all within the budget.
    It leaves an adapter in PEFT's format, candidates.json, routes, and the tables `es_steps` and `compute`.
    """
    from evolora_core.engine.tables import write_table
    from evolora_core.searches.adapters.arms.terms import terms_of
    from evolora_core.searches.adapters.rivals.es import train_es
    from evolora_core.searches.adapters.rivals.rewarded import train_and_route

    result = train_and_route(train_es, work.config.es, terms_of(work), folder)
    write_table(folder, "es_steps", result.steps)
    write_table(folder, "compute", result.meter.rows())
    return Made(result.meter.total(), EsTrained(steps=len(result.steps)))


TRAIN = stage_within_budget("es", __name__, asked, train)
