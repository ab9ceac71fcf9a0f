"""`evolora attention validate`: a program against another on training seeds that `measure` does not use and on texts
drawn anew, each with learning rates of its own. The texts come from one pool, so that about 3 % are those of `measure`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.searches.attention.commands.asked import MeasureSettings, Way, admit, at_an_end, tuned
from evolora_core.searches.attention.commands.predicting import predict
from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.curves import Curve, ratios
from evolora_core.searches.attention.measuring import measure_all, refusals
from evolora_core.searches.attention.panel import select
from evolora_core.searches.attention.scaling.intervals import finite
from evolora_core.searches.attention.scaling.validation import Paired, compare_losses, decide_family
from evolora_core.searches.attention.seeds import fresh_seeds

Rates = Mapping[str, float]  # by size


def validate_program(program: Named, against: Named, asked: MeasureSettings, report: Progress) -> list[dict[str, Any]]:
    """A row for each size, and with three sizes one for the gain that the fitted law predicts. ConfigError for a
    program that is refused. A training that ends without a model counts as one that knows nothing, and is named.
    """
    corpus, sides = asked.corpus(), [program, against]
    with asked.panel(select(corpus, "selection"), sides, {}) as panel:
        admit(panel, sides, asked.sizes)
        way = Way(asked, corpus, tuned=2, measured=2, report=report)
        rates = [tuned(panel, own, asked, way).rates for own in sides]
    test, seeds = select(corpus, "test"), fresh_seeds(asked.run_seed, asked.seeds)
    curves: dict[str, Curve] = {}
    for own, chosen in zip(sides, rates, strict=True):
        part = way.part(asked.seeds, own.name)
        with asked.panel(test, [own], chosen) as panel:
            curves[own.name] = measure_all(
                panel, own.name, own.source, asked.sizes, seeds, Meter(), "evaluation", part, Curve()
            )
    return rows_of(curves, rates, asked.sizes, seeds, asked.training.rates)


def rows_of(
    curves: dict[str, Curve],
    rates: Sequence[Rates],
    sizes: Sequence[str],
    seeds: Sequence[int],
    tried: Sequence[float],
) -> list[dict[str, Any]]:
    """The table of two curves, that of the program first. Holm's adjustment is over the sizes. A note says where a best
    rate is the last one of those that were tried.
    """
    (name, mine), (against, other) = curves.items()
    tests = decide_family(
        [compare_losses(name, against, _texts(mine, size, seeds), _texts(other, size, seeds)) for size in sizes]
    )
    flops = ratios(mine, other)
    rows = [
        _row(size, mine.n[size], own, flops[size], rates[0][size], rates[1][size])
        | {"note": _note(own.note, *refusals(curves, size), at_an_end(curves, [side[size] for side in rates], tried))}
        for size, own in zip(sizes, tests, strict=True)
    ]
    if predicted := predict(curves, against, [name], sizes, seeds).get(name):
        last = dict.fromkeys(rows[0]) | predicted | {"verdict": ""}
        rows.append({key: last[key] for key in rows[0]})
    return rows


def _row(size: str, parameters: int, own: Paired, flops: float, rate: float, rate_against: float) -> dict[str, Any]:
    return {
        "size": size,
        "parameters": parameters,
        "seeds": own.seeds,
        "rate": rate,
        "rate against": rate_against,
        "gain": own.gain,
        "lo": finite(own.lo),
        "hi": finite(own.hi),
        "p": own.p,
        "p Holm": own.p_holm,
        "d": finite(own.effect),
        "d lo": finite(own.effect_lo),
        "d hi": finite(own.effect_hi),
        "FLOPs": flops,
        "verdict": own.verdict,
        "note": own.note,
    }


def _note(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _texts(curve: Curve, size: str, seeds: Sequence[int]) -> dict[int, Any]:
    """The losses of single texts by seed."""
    return {seed: curve.texts[size, seed] for seed in seeds}
