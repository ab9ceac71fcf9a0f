"""The stages that a program passes or fails by its text alone, the first of the ladder. They need no torch, which takes
seconds to import, and no sandbox: none of the program's code runs.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.programs.block import check_outside
from evolora_core.searches.attention.programs.rejection import Rejected
from evolora_core.searches.attention.programs.signature import check_signature
from evolora_core.searches.attention.programs.static import check_syntax

_LONGEST = 500  # characters of what is said of a program
Work = Callable[[], str | None]  # passes a stage, and returns what there is to say; raises Rejected where it does not


@dataclass(frozen=True)
class Step:
    """One stage: whether it was passed, what there is to say, and how long it took.

    place    which line, position, shape or size a refusal is about
    seconds  wall clock
    """

    stage: str
    passed: bool
    reason: str
    place: str
    seconds: float


def readings(source: str, framework: Framework | None) -> list[tuple[str, Work]]:
    """These stages with the work that passes them."""
    return [
        ("syntax", lambda: check_syntax(source)),
        ("markers", lambda: _check_markers(source, framework)),
        ("signature", lambda: check_signature(source, framework)),
    ]


def read(source: str, framework: Framework | None) -> list[Step]:
    """These stages in their order, up to the first that is not passed. A text that Python itself fails at ends them
    without a refusal: what is to be said of it, the child process says.
    """
    steps: list[Step] = []
    for stage, work in readings(source, framework):
        began = time.perf_counter()
        try:
            steps.append(Step(stage, True, work() or "", "", time.perf_counter() - began))
        except Rejected as error:
            spent = time.perf_counter() - began
            return [*steps, Step(error.stage, False, plain(error.reason), plain(error.place), spent)]
        except (MemoryError, RecursionError, ValueError):
            break
    return steps


def plain(value: Any) -> str:
    """One line of what was said of a program, or by it, as UTF-8 can hold it."""
    text = str(value if value is not None else "").encode("utf-8", "replace").decode()
    return " ".join(text.split())[:_LONGEST]


def _check_markers(source: str, framework: Framework | None) -> str:
    if framework is None:
        return "no framework: the whole file is the program"
    check_outside(source, framework)
    return ""
