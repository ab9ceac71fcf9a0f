"""`evolora attention measure`: how the loss of programs falls with size, beside known mechanisms."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.searches.attention.commands.asked import MeasureSettings, Way, admit, at_an_end, tuned
from evolora_core.searches.attention.commands.predicting import predict
from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.curves import Curve, losses_of, ratios
from evolora_core.searches.attention.judging.sealed import texts_needed
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.measuring import measure_all, refusals
from evolora_core.searches.attention.panel import select
from evolora_core.searches.attention.scaling.fits import paired_curve
from evolora_core.searches.attention.scaling.intervals import finite
from evolora_core.searches.attention.seeds import selection_seeds

ERROR = 0.02  # nats: the standard error of a gain for which texts are counted


def measure_programs(programs: Sequence[Named], asked: MeasureSettings, report: Progress) -> list[dict[str, Any]]:
    """A row for each program and size, and what they predict where there are three sizes. The baseline comes first
    among the programs; its rates are everybody's. ConfigError for a program that is refused. A training that ends
    without a model counts as one that knows nothing, and is named.
    """
    corpus, rates = select(asked.corpus(), "selection"), dict[str, float]()
    seeds = selection_seeds(asked.run_seed, asked.seeds)
    curves: dict[str, Curve] = {}
    with asked.panel(corpus, programs, rates) as panel:
        admit(panel, programs, asked.sizes)
        way = Way(asked, corpus, tuned=1, measured=len(programs), report=report)
        rates.update(tuned(panel, programs[0], asked, way).rates)
        for own in programs:
            part = way.part(asked.seeds, own.name)
            curves[own.name] = measure_all(
                panel, own.name, own.source, asked.sizes, seeds, Meter(), "selection", part, Curve()
            )
    return rows_of(curves, rates, asked.sizes, seeds, asked.training.rates)


def rows_of(
    curves: dict[str, Curve],
    rates: Mapping[str, float],
    sizes: Sequence[str],
    seeds: Sequence[int],
    tried: Sequence[float],
) -> list[dict[str, Any]]:
    """The table of these curves, the baseline's among them, with the rate of each size. A note of the baseline says
    where that is the last one of those that were tried.
    """
    controls = [name for name in curves if name != BASELINE and not (name in KNOWN and KNOWN[name].negative)]
    predicted = predict(curves, BASELINE, controls, sizes, seeds)
    rows: list[dict[str, Any]] = []
    for name in curves:
        rows += _measured(name, curves, rates, sizes, seeds, tried)
        if name in predicted:
            rows.append(dict.fromkeys(rows[0]) | {"program": name} | predicted[name])
    return rows


def _measured(
    name: str,
    curves: Mapping[str, Curve],
    rates: Mapping[str, float],
    sizes: Sequence[str],
    seeds: Sequence[int],
    tried: Sequence[float],
) -> Iterator[dict[str, Any]]:
    curve, baseline, itself = curves[name], curves[BASELINE], name == BASELINE
    worse = paired_curve(losses_of(curves, sizes, seeds, with_texts=True), name, BASELINE)
    flops = ratios(curve, baseline)
    for size in sizes:
        notes = [*refusals({name: curve}, size)]
        if itself:
            notes.append(at_an_end([name], [rates[size]], tried))
        elif size == sizes[-1]:
            notes.append(_texts(curve, baseline, size, seeds))
        yield {
            "program": name,
            "size": size,
            "parameters": curve.n[size],
            "rate": rates[size],
            "loss": float(np.mean([curve.mean(size, seed) for seed in seeds])),
            "gain": None if itself else 0.0 - worse[size].value,
            "lo": None if itself else finite(0.0 - worse[size].hi),
            "hi": None if itself else finite(0.0 - worse[size].lo),
            "FLOPs": flops[size],
            "seconds": _seconds(curve, size) / _seconds(baseline, size),
            "note": "; ".join(filter(None, notes)),
        }


def _texts(curve: Curve, baseline: Curve, size: str, seeds: Sequence[int]) -> str:
    """How many texts a gain needs at a size, as far as texts decide: seeds are in its interval."""
    gaps = [baseline.texts[size, seed].astype(np.float64) - curve.texts[size, seed] for seed in seeds]
    deviation = float(np.mean([gap.std(ddof=1) for gap in gaps]))
    needed = texts_needed(deviation, ERROR)
    return (
        f"{len(gaps[0])} texts; {needed} leave a standard error of {ERROR} (a text's gain deviates by {deviation:.2f})"
    )


def _seconds(curve: Curve, size: str) -> float:
    """Processor seconds at a size, the mean over seeds."""
    return float(np.mean([own for (at, _), own in curve.seconds.items() if at == size]))
