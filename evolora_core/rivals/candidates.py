"""The adapters that a supervised rival leaves, each at several strengths, as slots of a population."""

import json
from collections.abc import Sequence
from pathlib import Path

from evolora_core.hosts import Host
from evolora_core.population.peft_io import import_peft
from evolora_core.population.stack import Population

FILE = "candidates.json"


def write_candidates(folder: Path, names: Sequence[str], strengths: Sequence[float]) -> list[dict]:
    """Say which slot is which: every adapter `folder/NAME/adapter` with its ΔW times each strength. Returns the rows
    {slot, adapter, strength}.
    """
    pairs = [(name, strength) for name in names for strength in strengths]
    rows = [{"slot": i, "adapter": name, "strength": strength} for i, (name, strength) in enumerate(pairs)]
    (folder / FILE).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def load_candidates(host: Host, folder: Path) -> Population:
    """The population of a folder that `write_candidates` described."""
    rows = json.loads((folder / FILE).read_text(encoding="utf-8"))
    adapters = {name: import_peft(folder / name / "adapter", host) for name in {row["adapter"] for row in rows}}
    first = next(iter(adapters.values()))
    population = Population.empty(host, len(rows), max(a.rank for a in adapters.values()), scale=first.scale)
    for row in rows:
        population.put(row["slot"], adapters[row["adapter"]].scaled(row["strength"]))
    return population
