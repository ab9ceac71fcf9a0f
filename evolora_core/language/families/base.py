"""What a task family is: it draws items, knows their gold answer, grades free text, and can solve its own prompts.

A family knows nothing of hosts, tokens or splits.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np

from evolora_core.language.families.canonical import canonical

DEPTHS = ("short", "medium", "long")


@dataclass(frozen=True)
class Item:
    """One task instance. `target` is a JSON value whose form the family defines."""

    prompt: str
    target: Any
    family: str
    depth: str
    task_id: str


def cells_of(items: Iterable[Item]) -> list[tuple[str, str]]:
    """The (family, depth) cells that occur, sorted."""
    return sorted({(item.family, item.depth) for item in items})


@dataclass(frozen=True)
class Grade:
    """`score` in [0, 1] may be partial credit; `correct` is strict; `reason` says why, for tables."""

    score: float
    correct: bool
    reason: str


CORRECT = Grade(1.0, True, "correct")
NO_ANSWER = Grade(0.0, False, "no answer")


def wrong(score: float = 0.0) -> Grade:
    """An answer of the right form and the wrong content."""
    return Grade(score, False, "wrong")


@dataclass(frozen=True)
class Family:
    """One kind of task, as plain functions.

    `draw(rng, depth)` gives (prompt, target); `solution(target)` the canonical answer; `verify(item, answer)` the
    grade; `solve(prompt)` an answer worked out from the text alone, by other means than `draw` (for the label audit);
    `complaint(target)` what is wrong with a target read from a file, or None. `chance` is the accuracy of blind
    guessing. `rows`: its items are rows of a user's data set, which are neither drawn nor solved, and whose depths are
    their own. `to_the_end`: its question is about all words that follow, so that words put behind a prompt would change
    the right answer.
    """

    name: str
    depths: tuple[str, ...]
    draw: Callable[[np.random.Generator, str], tuple[str, Any]]
    solution: Callable[[Any], str]
    verify: Callable[[Item, str], Grade]
    solve: Callable[[str], str]
    complaint: Callable[[Any], str | None]
    chance: float = 0.0
    rows: bool = False
    to_the_end: bool = False

    def make(self, rng: np.random.Generator, depth: str) -> Item:
        """Draw one item of a depth in `depths`."""
        prompt, target = self.draw(rng, depth)
        digest = blake2b(canonical(prompt).encode(), digest_size=6).hexdigest()
        return Item(prompt, target, self.name, depth, f"{self.name}:{depth}:{digest}")

    def gold(self, item: Item) -> str:
        """The canonical answer text, which supervised arms train on."""
        return self.solution(item.target)

    def grade(self, item: Item, answer: str) -> Grade:
        """Grade any text."""
        return self.verify(item, answer) if answer.strip() else NO_ANSWER
