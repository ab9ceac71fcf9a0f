"""One adapter from rewards alone, then the choice between it and the host, all within one budget."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from evolora_core.evaluation.outcome import Decoding
from evolora_core.families import Item
from evolora_core.flops import FlopModel
from evolora_core.hosts import Host
from evolora_core.meter import Meter
from evolora_core.pricing import Prices
from evolora_core.progress import Progress
from evolora_core.rivals.candidates import load_candidates, write_candidates
from evolora_core.routing import choose_among


class Trained(Protocol):
    """What the training of one adapter returns: its compute by purpose, and a row for each step."""

    @property
    def meter(self) -> Meter: ...
    @property
    def steps(self) -> list[dict[str, float]]: ...


Result = TypeVar("Result", bound=Trained)


def train_and_route(
    train: Callable[..., Result],
    host: Host,
    items: Sequence[Item],
    selection: Sequence[Item],
    config: Any,
    calibration: Prices,
    *,
    budget_flops: int,
    seed: int,
    folder: Path,
    decoding: Decoding,
    routings: Sequence[str],
    progress: Progress | None = None,
) -> Result:
    """Let `train` (`train_es` or `train_grpo`, with their `config`) make an adapter in `folder`/all of what the choice
    of routes leaves of the budget. Leaves candidates.json and routes; the result's meter has both.
    """
    reserve = calibration.routing_reserve(FlopModel.from_model(host.model), len(selection), [config.rank])
    result = train(
        host,
        items,
        config,
        budget_flops=budget_flops - reserve,
        seed=seed,
        folder=folder / "all",
        decoding=decoding,
        progress=progress,
    )
    rows = write_candidates(folder, ["all"], [1.0])
    choose_among(
        host,
        load_candidates(host, folder),
        selection,
        {"": [row["slot"] for row in rows]},
        routings,
        folder,
        result.meter,
        decoding=decoding,
    )
    return result
