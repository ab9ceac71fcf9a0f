"""What a condition chose: its program, what the selection measured of it, and how it came about. Kept as files."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evolora_core.searches.attention.curves import Curve, load_curve, save_curve

PROGRAM, FACTS, CURVE, FINALISTS = "program.py", "chosen.json", "curve", "finalists.json"


@dataclass(frozen=True)
class Chosen:
    """A program and its selection curve. framework: "" for a mechanism that is free; genome: None where it has none."""

    source: str
    curve: Curve
    framework: str
    genome: Mapping[str, str] | None


def leave(folder: Path, source: str, curve: Curve, framework: str, genome: Mapping[str, str] | None) -> None:
    """Write it into a stage's folder."""
    (folder / PROGRAM).write_text(source, encoding="utf-8")
    facts = {"framework": framework, "genome": dict(genome) if genome is not None else None}
    (folder / FACTS).write_text(json.dumps(facts), encoding="utf-8")
    save_curve(curve, folder / CURVE)


def read_chosen(folder: Path) -> Chosen:
    """What `leave` wrote."""
    facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    source = (folder / PROGRAM).read_text(encoding="utf-8")
    return Chosen(source, load_curve(folder / CURVE), facts["framework"], facts["genome"])


def leave_finalists(folder: Path, sources: Sequence[str]) -> None:
    """Write the programs of the finalists, the chosen one first."""
    (folder / FINALISTS).write_text(json.dumps(list(sources)), encoding="utf-8")


def read_finalists(folder: Path) -> list[str]:
    """What `leave_finalists` wrote."""
    found: list[str] = json.loads((folder / FINALISTS).read_text(encoding="utf-8"))
    return found
