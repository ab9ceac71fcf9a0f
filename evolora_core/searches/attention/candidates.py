"""A program that a search tried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.programs.rejection import Rejection


@dataclass(frozen=True, eq=False)
class Candidate:
    """A program of a run, and what became of it.

    number      its place among all candidates of the run, from 0
    parents     numbers of those that gave something; -1 is the baseline
    rejection   why it has no score
    score       gain over the baseline at the largest size of the search (nats); None: it was refused or failed a guard,
                and is never chosen
    lo, hi      the 95 % interval of the score; None with one training seed
    twin        number of an earlier candidate that is the same program, -1 for the baseline; None: it is new
    flops       what it was charged
    seconds     processor time of its examination and its trainings, refused ones too
    """

    number: int
    generation: int
    slot: int
    program_id: str
    source: str
    genome: Mapping[str, str] | None
    operator: str
    parents: tuple[int, ...]
    status: str  # ok, rejected, guard, twin
    rejection: Rejection | None
    score: float | None
    lo: float | None
    hi: float | None
    curve: Curve
    twin: int | None
    flops: int
    seconds: float = 0.0


def ranked(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Those with a score, the best first; of equal ones the earlier. A twin is not named again."""
    alive = [own for own in candidates if own.score is not None and own.twin is None]
    return sorted(alive, key=lambda own: (-(own.score or 0.0), own.number))
