"""Measuring programs at many sizes and seeds, where a refusal is an error, or counts as a model that knows nothing."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.errors import StageError
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.host.flops import cost_of_step
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.judging.loading import load_program
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.panel import Panel, Task, add, mend

KNOWS_NOTHING = "counts as a model that knows nothing"


def measure_all(
    panel: Panel,
    name: str,
    source: str,
    sizes: Sequence[str],
    seeds: Sequence[int],
    meter: Meter,
    purpose: str,
    report: Progress,
    instead: Curve | None = None,
) -> Curve:
    """The curve of a program; `measure_programs` says what comes of a refusal."""
    return measure_programs(panel, {name: source}, sizes, seeds, meter, purpose, report, instead)[name]


def measure_programs(
    panel: Panel,
    sources: Mapping[str, str],
    sizes: Sequence[str],
    seeds: Sequence[int],
    meter: Meter,
    purpose: str,
    report: Progress,
    instead: Curve | None = None,
) -> dict[str, Curve]:
    """The curves of several programs, as many measured at a time as the panel does.

    instead  None: a program that is refused while it trains is a StageError. A curve: such a training counts as a model
             that knows nothing, with a loss of ln V nats on every text. Else a program that fails now and then would
             lose its seed and not its rank. Of a program that fails with every seed of a size, parameters and
             operations are those of this curve, or of the baseline where it has none.
    """
    asked = [(name, size, seed) for name in sources for size in sizes for seed in seeds]
    tasks = [Task(sources[name], size, seed) for name, size, seed in asked]
    curves = {name: Curve() for name in sources}
    failed = []
    for number, ((name, size, seed), found) in enumerate(zip(asked, panel.map(panel.measure, tasks), strict=True)):
        if found.rejection:
            why = f"{found.rejection.stage}: {found.rejection.why}"
            refused = f"{name}: refused at size {size} with seed {seed}: {why}"
            if instead is None:
                raise StageError(f"{refused}; {mend(found.rejection)}, or leave it out")
            failed.append((name, size, seed, found))
            curves[name].refused[size, seed] = why
            report(number + 1, len(tasks), f"{refused}; {KNOWS_NOTHING}")
            continue
        add(curves[name], size, seed, found)
        meter.add(purpose, panel.flops(found, size, {}), 0, found.cpu_seconds)
        report(number + 1, len(tasks), f"size {size}, loss {curves[name].mean(size, seed):.3f}")
    for name, size, seed, found in failed:
        own = curves[name]
        if size not in own.n:
            assert instead is not None
            other = instead if size in instead.n else _baseline(panel, size)
            own.n[size], own.flops[size] = other.n[size], other.flops[size]
        own.texts[size, seed] = np.full(len(panel.corpus.texts), math.log(panel.corpus.vocab), np.float32)
        own.seconds[size, seed] = found.cpu_seconds
        meter.add(purpose, panel.flops(found, size, own.flops), 0, found.cpu_seconds)
    return curves


def _baseline(panel: Panel, size: str) -> Curve:
    """The baseline's parameters and operations at a size."""
    corpus, program = panel.corpus, load_program(KNOWN[BASELINE].source)
    cost = cost_of_step(program, SIZES[size], corpus.vocab, panel.training.batch, corpus.context)
    return Curve({size: cost.parameters}, {size: cost.flops})


def refusals(curves: Mapping[str, Curve], size: str) -> Iterator[str]:
    """A remark for each training at a size that counts as a model that knows nothing."""
    for name, curve in curves.items():
        for (at, seed), why in curve.refused.items():
            if at == size:
                yield f"{name}, seed {seed}: {why}; {KNOWS_NOTHING}"


def loss_rows(program: str, curve: Curve, split: str) -> list[dict[str, Any]]:
    """Rows of the table `attention_losses`."""
    return [
        {
            "program": program,
            "size": size,
            "train_seed": seed,
            "split": split,
            "parameters": curve.n[size],
            "flops": curve.flops[size],
            "texts": len(own),
            "loss": curve.mean(size, seed),
            "seconds": curve.seconds[size, seed],
        }
        for (size, seed), own in curve.texts.items()
    ]
