"""What a proposer is: it makes a new program from those that were tried. It runs nothing and scores nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from evolora_core.searches.attention.programs.rejection import Rejected, Rejection


@dataclass(frozen=True)
class Scored:
    """A program that was tried, and what became of it: a score, or why it was refused.

    genome  None where it did not come from a grammar
    score   the gain in loss at the largest size (nats a token); more is better
    """

    program_id: str
    source: str
    genome: Mapping[str, str] | None = None
    score: float | None = None
    rejection: Rejection | None = None


@dataclass(frozen=True)
class Request:
    """What is asked for.

    parents   programs to start from; with two, both may give something
    failures  programs that were refused lately, for those who can learn from it
    rng_key   (seed, generation, slot) of the random stream
    """

    framework: str
    parents: tuple[Scored, ...]
    failures: tuple[Scored, ...]
    rng_key: tuple[int, int, int]


@dataclass(frozen=True)
class Call:
    """One question to a model and its answer, as it is stored and replayed.

    seconds       wall clock, with the tries that failed
    usd           by the prices that were set
    outcome       used; unusable: no program could be made of it
    request_hash  of all that was sent, the address and the key apart
    response      the answer's text
    """

    model: str
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    usd: float
    outcome: str
    request_hash: str
    response: str


@dataclass(frozen=True)
class Proposal:
    """A new program.

    operator  how it was made
    parents   ids of those that gave something
    call      the question to a model that it cost
    """

    source: str
    genome: Mapping[str, str] | None
    operator: str
    parents: tuple[str, ...]
    call: Call | None = None


class Unusable(Rejected):
    """An answer of which no program can be made. It cost a call all the same."""

    def __init__(self, rejection: Rejection, call: Call, parents: tuple[str, ...]) -> None:
        super().__init__(rejection.stage, rejection.reason, rejection.place)
        self.call, self.parents = call, parents


class Proposer(Protocol):
    """Makes programs, one at a time. Equal requests in an equal state give equal proposals."""

    def propose(self, request: Request) -> Proposal:
        """A new program. Rejected if none came of it: that is one proposal too."""
