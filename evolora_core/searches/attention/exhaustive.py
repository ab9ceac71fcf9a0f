"""The exhaustive table: its programs by number, and what each is worth by what was measured of it.

Training seeds have two roles. The *score* comes from the first one alone, as a search would see it: the gain over the
baseline at the largest size, from `evolution.scored`. The *truth* is the same gain from the other seeds, which
selection did not see; it is a measurement too, with noise of its own, and no guard is asked for it. A program that is
refused at any size with any seed has neither. One that fails a guard has a truth alone, and is never chosen.

A real search measures a program at the largest size alone. The smaller sizes are here to show what they tell of it.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.errors import StageError
from evolora_core.searches.attention.candidates import Candidate
from evolora_core.searches.attention.curves import Curve, losses_of, ratios
from evolora_core.searches.attention.evolution import NAME, Run, scored
from evolora_core.searches.attention.grammar.genes import Genome
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.scaling.score import score
from evolora_core.searches.attention.settings import Budget

BASELINE = 0  # the number of the baseline: every gene's first choice


@dataclass(frozen=True)
class Worth:
    """What the table says of a program. reason: why it has no score."""

    program: int
    score: float | None
    truth: float | None
    reason: str


@cache
def genomes() -> tuple[dict[str, str], ...]:
    """Every genome of the table by its number: the first gene's choice changes last."""
    names = [gene.name for gene in TABLE.genes]
    choices = (gene.choices for gene in TABLE.genes)
    return tuple(dict(zip(names, own, strict=True)) for own in itertools.product(*choices))


@cache
def _source(number: int) -> str:
    return TABLE.program(genomes()[number])


@cache
def _numbers() -> dict[tuple[str, ...], int]:
    return {tuple(genome.values()): number for number, genome in enumerate(genomes())}


def number_of(genome: Genome) -> int:
    """The number of a genome."""
    return _numbers()[tuple(genome[gene.name] for gene in TABLE.genes)]


def stretch(shard: int, shards: int) -> range:
    """The numbers of a shard's programs."""
    count = len(genomes())
    return range(shard * count // shards, (shard + 1) * count // shards)


def worths(rows: Iterable[Mapping[str, Any]], sizes: Sequence[str], seeds: Sequence[int]) -> list[Worth]:
    """What each program is worth, by number. The first of the seeds is that of the score.

    rows  of the table `attention_table_programs`, one for each program, size and seed

    StageError where the baseline was refused, or measurements are missing.
    """
    curves = [Curve() for _ in genomes()]
    reasons: dict[int, str] = {}
    asked = {(size, seed) for size in sizes for seed in seeds}
    found = set()
    for row in rows:
        number, size, seed = row["program"], row["size"], row["train_seed"]
        if (size, seed) not in asked:
            continue
        found.add((number, size, seed))
        if row["loss"] is None:
            reasons.setdefault(number, row["reason"])
            continue
        curves[number].n[size], curves[number].flops[size] = row["parameters"], row["flops"]
        curves[number].texts[size, seed] = np.array([row["loss"]])
    if missing := len(curves) * len(asked) - len(found):
        raise StageError(f"{missing} of {len(curves) * len(asked)} measurements of the table are missing")
    if BASELINE in reasons:
        raise StageError(f"the baseline of the table was refused: {reasons[BASELINE]}")
    run = Run(TABLE.framework, "", curves[BASELINE], sizes, seeds[:1], Budget(), 0, Meter())
    return [_worth(number, curves[number], run, seeds, reasons.get(number, "")) for number in range(len(curves))]


def _worth(number: int, curve: Curve, run: Run, seeds: Sequence[int], reason: str) -> Worth:
    if reason:
        return Worth(number, None, None, reason)
    seen = scored(candidate(number, 0, 0, number, (), curve=curve), run, seeds[:1])
    fresh = losses_of({NAME: run.baseline, str(number): curve}, run.sizes, seeds[1:])
    truth = score(fresh, str(number), NAME, ratios(curve, run.baseline)).score
    return Worth(number, seen.score, truth, seen.rejection.reason if seen.rejection else "")


def candidate(
    place: int, generation: int, slot: int, number: int, parents: tuple[int, ...], *, curve: Curve | None = None
) -> Candidate:
    """A program of the table as a candidate: its number stands for its identity."""
    return Candidate(
        place, generation, slot, str(number), _source(number), genomes()[number], "", parents, "proposed", None,
        None, None, None, curve or Curve(), None, 0,
    )  # fmt: skip
