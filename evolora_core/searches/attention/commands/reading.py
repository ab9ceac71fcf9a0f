"""`evolora attention check`: what it shows, and what it can say of a program without running it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.programs.reading import Step, read
from evolora_core.searches.attention.programs.rejection import LADDER, Rejection


@dataclass(frozen=True)
class Climbed:
    """A row for each stage, and why the program is refused; "" if it is not."""

    rows: list[dict[str, Any]]
    refused: str


def read_program(program: Named, framework: str | None) -> Climbed:
    """How far a program comes by its text alone, as a member of a framework or as a whole file of its own."""
    steps = read(program.source, None if framework is None else get_framework(framework))
    last = steps[-1] if steps else None
    return climbed(steps, Rejection(last.stage, last.reason, last.place) if last and not last.passed else None)


def climbed(steps: Sequence[Step], why: Rejection | None) -> Climbed:
    """What the stages and the rejection, if there is one, look like."""
    return Climbed(_rows(steps, why), f"refused at stage {why}" if why else "")


def _rows(steps: Sequence[Step], why: Rejection | None) -> list[dict[str, Any]]:
    rows = []
    for number, stage in enumerate(LADDER):
        result, says, place, seconds = "not reached", "", "", None
        if number < len(steps):
            step = steps[number]
            result, says, place = "passed" if step.passed else "failed", step.reason, step.place
            seconds = round(step.seconds, 3)
        elif why and number == len(steps) and all(step.passed for step in steps):
            result, says = "failed", why.reason  # its process was ended here
        rows.append({"stage": stage, "result": result, "found": says, "place": place, "seconds": seconds})
    return rows
