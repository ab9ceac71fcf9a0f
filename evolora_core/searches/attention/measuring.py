"""Measuring one program at many sizes and seeds, where a refusal is an error and no result."""

from collections.abc import Sequence
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
    tasks = [Task(source, size, seed) for size in sizes for seed in seeds]
    curve = Curve()
    for number, (task, found) in enumerate(zip(tasks, panel.map(panel.measure, tasks), strict=True)):
        if found.rejection:
            why = f"{found.rejection.stage}: {found.rejection.reason} {found.rejection.place}".strip()
            raise StageError(f"{name}: refused at size {task.size} with seed {task.seed}: {why}")
        add(curve, task.size, task.seed, found)
        meter.add(purpose, panel.flops(found, task.size, {}), 0, found.cpu_seconds)
        report(number + 1, len(tasks), f"size {task.size}, loss {curve.mean(task.size, task.seed):.3f}")
    return curve


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
