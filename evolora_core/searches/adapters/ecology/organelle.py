"""One adapter with its traits and lineage, and who learns for each niche."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evolora_core.searches.adapters.ecology.events import Row


@dataclass(frozen=True)
class Organelle:
    """One adapter with its traits, account (in the ledger, under its id) and lineage."""

    id: int
    slot: int
    rank: int
    origin: str  # founder, mutation, merge, copy
    born: int
    niche: str  # family that it mostly practises; "" = all families alike
    learning_rate: float  # relative to the run's
    temperature: float
    parents: tuple[int, ...] = ()
    strikes: int = 0
    learned: int = -1  # generation in which it last learned
    lessons: int = 0  # generations in which it learned; of a merged child, its parents' too
    died: int | None = None
    cause: str = ""

    @property
    def alive(self) -> bool:
        """Whether it takes part."""
        return self.died is None

    def row(self) -> Row:
        """Its fields as JSON values."""
        return {**vars(self), "parents": list(self.parents)}

    @classmethod
    def from_row(cls, row: Row) -> "Organelle":
        """The organelle whose fields `row()` gave."""
        return cls(**{**row, "parents": tuple(row["parents"])})


@dataclass(frozen=True)
class Traits:
    """What is inherited and mutated."""

    learning_rate: float
    temperature: float

    def varied(self, spread: float, draw: np.random.Generator) -> "Traits":
        """Other traits, whose logarithms differ by normal noise with the standard deviation `spread`."""
        return Traits(
            float(self.learning_rate * np.exp(spread * draw.standard_normal())),
            float(self.temperature * np.exp(spread * draw.standard_normal())),
        )


@dataclass(frozen=True)
class Birth:
    """How a child comes about.

    `parents` are (organelle, weight in the child's ΔW), the first one the elder, whose niche it has; the `payers` give
    `endowment` micro-energy in equal parts.
    """

    origin: str
    parents: tuple[tuple[Organelle, float], ...]
    payers: tuple[Organelle, ...]
    endowment: int
    traits: Traits


def incumbents(organelles: Iterable[Organelle]) -> dict[str, Organelle]:
    """The learner of each niche that has one: the organelle that has learned in most generations. Of equals, a merged
    child comes before its parent.

    No evidence of skill is asked for, so that a child by mutation, which was born later, never takes its place.
    """
    taught = [organelle for organelle in organelles if organelle.lessons]
    return {o.niche: o for o in sorted(taught, key=lambda o: (o.lessons, o.origin == "merge", -o.id))}


def contenders(organelles: Iterable[Organelle], most: int) -> dict[str, list[Organelle]]:
    """Who contends in each niche, `most` at most: those that learned in most generations, of equals a merged child
    before its parents; by id. Where one of them has learned, those that never did are left out, so that nobody takes
    the place of who retired.
    """
    niches: dict[str, list[Organelle]] = {}
    for organelle in sorted(organelles, key=lambda o: (-o.lessons, o.origin != "merge", o.id)):
        niches.setdefault(organelle.niche, []).append(organelle)
    found = {}
    for niche, own in sorted(niches.items()):
        taught = [organelle for organelle in own if organelle.lessons]
        found[niche] = sorted((taught or own)[:most], key=lambda o: o.id)
    return found


def latecomers(everybody: Sequence[Organelle], most: int) -> dict[str, list[Organelle]]:
    """The contenders of each niche that have learned nothing yet, where others of it have, and nobody was beaten:
    founders that found nothing to learn from. `everybody`: the dead, too. At most as many as seats are left.
    """
    beaten = {own.niche for own in everybody if own.cause == "beaten"}
    found = {}
    for niche in sorted({own.niche for own in everybody} - beaten):
        here = [own for own in everybody if own.niche == niche]
        taught = sum(own.alive and own.lessons > 0 for own in here)
        founders = [own for own in here if own.origin == "founder"][:most]
        waiting = [own for own in founders if own.alive and not own.lessons]
        found[niche] = waiting[: max(most - taught, 0)] if taught else []
    return found


@dataclass(frozen=True)
class Group:
    """One organelle's task: an item, to be answered several times."""

    organelle: Organelle
    item: int
