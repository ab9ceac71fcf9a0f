"""What parent and child say to each other: files in the child's folder, JSON and safetensors, never pickle.

    program.py            the program                                          (parent)
    job.json              a MeasureJob or a LadderJob                          (parent)
    train.safetensors     `train` [N, context + 1]                             (parent, to measure)
    prefixes.safetensors  `prefixes` [M, context], `lengths` [M]               (parent, to measure)
    result.json           how it went, or the steps of the ladder              (child)
    state.safetensors     a long training so far                               (child)
    logits.safetensors    `logits` [M, vocab] float32                          (child, where it was measured)

Whatever a child wrote may be anything; `measure.py` reads it with that in mind.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from evolora_core.searches.attention.host.flops import Cost
from evolora_core.searches.attention.host.sizes import Size
from evolora_core.searches.attention.host.training import TrainSpec

PROGRAM_FILE, JOB, RESULT = "program.py", "job.json", "result.json"
TRAIN, PREFIXES, LOGITS = "train.safetensors", "prefixes.safetensors", "logits.safetensors"
STATE = "state.safetensors"


@dataclass(frozen=True)
class MeasureJob:
    """Train a program at a size with a seed, and answer the prefixes."""

    size: Size
    spec: TrainSpec
    vocab: int
    seed: int

    @classmethod
    def read(cls, folder: Path) -> "MeasureJob":
        """The job that `write` left in the folder."""
        found = _read(folder)
        return cls(Size(**found["size"]), TrainSpec(**found["spec"]), found["vocab"], found["seed"])


@dataclass(frozen=True)
class LadderJob:
    """Examine a program.

    baseline  what the baseline costs by the name of a size
    """

    framework: str | None
    sizes: tuple[Size, ...]
    context: int
    vocab: int
    baseline: Mapping[str, Cost]

    @classmethod
    def read(cls, folder: Path) -> "LadderJob":
        """The job that `write` left in the folder."""
        found = _read(folder)
        return cls(
            found["framework"],
            tuple(Size(**size) for size in found["sizes"]),
            found["context"],
            found["vocab"],
            {name: Cost(**cost) for name, cost in found["baseline"].items()},
        )


def write(job: MeasureJob | LadderJob, source: str, folder: Path) -> None:
    """The program and what is to be done with it."""
    (folder / PROGRAM_FILE).write_text(source, encoding="utf-8", newline="")
    (folder / JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")


def source_of(folder: Path) -> str:
    """The program's text."""
    return (folder / PROGRAM_FILE).read_bytes().decode("utf-8")


def _read(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / JOB).read_text(encoding="utf-8"))
    return found
