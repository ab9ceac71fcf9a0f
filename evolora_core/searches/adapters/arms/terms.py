"""What a stage that trains a rival gives to the function that does it, and what it leaves afterwards."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolora_core.engine.meter import Meter
from evolora_core.engine.stage import Made, Work
from evolora_core.engine.tables import write_table
from evolora_core.language.datasets import read_items
from evolora_core.language.hosts.kept import stage_host
from evolora_core.lora.answering.pricing import Prices
from evolora_core.searches.adapters.arms.base import Facts, Training
from evolora_core.searches.adapters.rivals.terms import Terms


def terms_of(work: Work[Training]) -> Terms:
    """Host, items, prices, budget and the rest. They are read here, in the process that trains."""
    assert work.config.budget_flops is not None
    return Terms(
        host=stage_host(work),
        items=read_items(work.inputs["datasets"] / "train.jsonl"),
        selection=read_items(work.inputs["datasets"] / "selection.jsonl"),
        prices=Prices.load(work.inputs["prices"] / "calibration.json"),
        decoding=work.config.decoding,
        routings=work.config.routings,
        seed=work.seed,
        budget_flops=work.config.budget_flops,
        progress=work.report,
    )


def made(folder: Path, meter: Meter, facts: Facts, **tables: Sequence[dict[str, Any]]) -> Made[Facts]:
    """Write the tables of a training, but for one without rows, and its table `compute`; what its stage hands on."""
    for name, rows in tables.items():
        if rows:
            write_table(folder, name, rows)
    write_table(folder, "compute", meter.rows())
    return Made(meter.total(), facts)
