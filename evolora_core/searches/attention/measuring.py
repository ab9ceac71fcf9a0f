"""Measuring programs at many sizes and seeds, where a refusal is an error and no result."""

from collections.abc import Mapping, Sequence
from typing import Any

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress
from evolora_core.errors import StageError
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.panel import Panel, Task, add


def measure_all(
    panel: Panel,
    name: str,
    source: str,
    sizes: Sequence[str],
    seeds: Sequence[int],
    meter: Meter,
    purpose: str,
    report: Progress,
) -> Curve:
    """The curve of a program. StageError where it is refused while it trains."""
    return measure_programs(panel, {name: source}, sizes, seeds, meter, purpose, report)[name]


def measure_programs(
    panel: Panel,
    sources: Mapping[str, str],
    sizes: Sequence[str],
    seeds: Sequence[int],
    meter: Meter,
    purpose: str,
    report: Progress,
) -> dict[str, Curve]:
    """The curves of several programs, as many measured at a time as the panel does. StageError where one is refused."""
    asked = [(name, size, seed) for name in sources for size in sizes for seed in seeds]
    tasks = [Task(sources[name], size, seed) for name, size, seed in asked]
    curves = {name: Curve() for name in sources}
    for number, ((name, size, seed), found) in enumerate(zip(asked, panel.map(panel.measure, tasks), strict=True)):
        if found.rejection:
            why = f"{found.rejection.stage}: {found.rejection.reason} {found.rejection.place}".strip()
            raise StageError(f"{name}: refused at size {size} with seed {seed}: {why}")
        add(curves[name], size, seed, found)
        meter.add(purpose, panel.flops(found, size, {}), 0, found.cpu_seconds)
        report(number + 1, len(tasks), f"size {size}, loss {curves[name].mean(size, seed):.3f}")
    return curves


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
