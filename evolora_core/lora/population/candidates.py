"""The adapters that a rival leaves, each at several strengths, as slots of a population."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.merge import add_up
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.lora.population.stack import Population

FILE = "candidates.json"


def write_candidates(folder: Path, names: Sequence[str], strengths: Sequence[float]) -> list[dict[str, Any]]:
    """Say which slot is which: every adapter `folder/NAME/adapter` with its ΔW times each strength. Returns the rows
    {slot, adapter, strength}.
    """
    pairs = [(name, strength) for name in names for strength in strengths]
    rows = [{"slot": i, "adapter": name, "strength": strength} for i, (name, strength) in enumerate(pairs)]
    _write(folder, rows)
    return rows


def add_candidate(host: Host, folder: Path, slots: Sequence[int], weight: float) -> Population:
    """One more, as the last: the sum of those in `slots`, each times `weight`. Returns all of them."""
    rows = _read(folder)
    _write(folder, [*rows, {"slot": len(rows), "sum": [*slots], "weight": weight}])
    return load_candidates(host, folder)


def has_candidates(folder: Path) -> bool:
    """Whether `write_candidates` described any adapter."""
    return bool(_read(folder))


def load_candidates(host: Host, folder: Path) -> Population:
    """The population of a folder that `write_candidates` described."""
    rows = _read(folder)
    single = [row for row in rows if "adapter" in row]
    names = dict.fromkeys(row["adapter"] for row in single)
    adapters = {name: import_peft(folder / name / "adapter", host) for name in names}
    first = next(iter(adapters.values()))
    population = Population.empty(host, len(single), max(a.rank for a in adapters.values()), scale=first.scale)
    for row in single:
        population.put(row["slot"], adapters[row["adapter"]].scaled(row["strength"]))
    for row in rows[len(single) :]:
        population = population.joined_by(host, add_up([population.get(slot) for slot in row["sum"]], row["weight"]))
    return population


def load_each(host: Host, folders: Sequence[Path]) -> Population:
    """The adapters in folders of PEFT's format, one in each slot."""
    adapters = [import_peft(folder, host) for folder in folders]
    rank = max(adapter.rank for adapter in adapters)
    population = Population.empty(host, len(adapters), rank, scale=adapters[0].scale)
    for slot, adapter in enumerate(adapters):
        population.put(slot, adapter)
    return population


def _read(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return rows


def _write(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    (folder / FILE).write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
