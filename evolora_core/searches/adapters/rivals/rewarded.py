"""One adapter from rewards alone, then the choice between it and the host, all within one budget."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.population.candidates import load_candidates, write_candidates
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.candidates import choose_among


class Settings(Protocol):
    """What is read here of the settings of a training."""

    @property
    def rank(self) -> int: ...


class Trained(Protocol):
    """What the training of one adapter returns: its compute by purpose, and a row for each step."""

    @property
    def meter(self) -> Meter: ...
    @property
    def steps(self) -> Sequence[Mapping[str, Any]]: ...


Own = TypeVar("Own", bound=Settings, contravariant=True)
Result = TypeVar("Result", bound=Trained, covariant=True)


class Train(Protocol[Own, Result]):
    """`train_es`, `train_grpo` or `train_expert_iteration`: makes an adapter in `folder` for so many FLOPs."""

    def __call__(
        self,
        host: Host,
        items: Sequence[Item],
        config: Own,
        *,
        budget_flops: int,
        seed: int,
        folder: Path,
        decoding: Decoding,
        progress: Progress = silent,
    ) -> Result: ...


def train_and_route(train: Train[Own, Result], config: Own, terms: Terms, folder: Path) -> Result:
    """Let `train` make an adapter in `folder`/all of what the choice of routes leaves of the budget. Leaves
    candidates.json and routes; the result's meter has both.
    """
    result = train(
        terms.host,
        terms.items,
        config,
        budget_flops=terms.for_training([config.rank]),
        seed=terms.seed,
        folder=folder / "all",
        decoding=terms.decoding,
        progress=terms.progress,
    )
    rows = write_candidates(folder, ["all"], [1.0])
    choose_among(
        terms.host,
        load_candidates(terms.host, folder),
        terms.selection,
        {"": [row["slot"] for row in rows]},
        terms.routings,
        folder,
        result.meter,
        decoding=terms.decoding,
    )
    terms.tell_overspent(result.meter.total())
    return result
