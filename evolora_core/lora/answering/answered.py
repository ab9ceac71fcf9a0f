"""Answers that are kept while an evaluation runs, so that a killed evaluation resumes.

A file holds one chunk of batches. Chunks are cut the same way every time, so what is read back is what would have been
answered.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.engine.artifacts import write_atomic
from evolora_core.language.families.base import Grade

if TYPE_CHECKING:
    from evolora_core.lora.answering.outcome import Outcome

log = logging.getLogger(__name__)

# What the question says already, and what an evaluation does not ask for.
LEFT_OUT = ("item", "alternatives", "sampled")


def keep(path: Path, outcomes: Mapping[int, "Outcome"]) -> None:
    """Write the outcomes of a chunk by row number; the file appears whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for row, outcome in outcomes.items():
        said = {name: value for name, value in vars(outcome).items() if name not in LEFT_OUT}
        lines.append(json.dumps([[row, outcome.item.task_id, outcome.slot], said | {"grade": asdict(outcome.grade)}]))
    write_atomic(path, "\n".join(lines) + "\n")


def kept(path: Path, questions: Sequence[tuple[int, str, int]]) -> list[dict[str, Any]] | None:
    """Arguments of the outcomes that `keep` wrote, items apart, in the order of `questions` (row, task id, slot).

    None if these were not answered yet, or what was written is damaged.
    """
    try:
        found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except FileNotFoundError:
        return None
    except ValueError:
        log.warning("%s is damaged: its questions are asked again", path.name)
        return None
    if [tuple(asked) for asked, _ in found] != list(questions):
        return None
    return [said | {"grade": Grade(**said["grade"])} for _, said in found]
