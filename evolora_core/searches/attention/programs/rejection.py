"""Why a program was refused: the stage, the reason and the place. No score stands for a failure."""

from dataclasses import dataclass

STAGES = (
    "syntax",  # the text parses and names nothing that a program has no business with
    "markers",  # nothing outside of the block differs from the framework
    "signature",  # the classes and their functions are called as they must be
    "build",  # it can be built at every size, with few enough parameters
    "shapes",  # it returns [B, T, D], finite, the same each time, each row of a batch on its own
    "causality",  # no token sees what comes after it
    "gradients",  # they are finite and reach every parameter
    "membership",  # it is what its framework says
    "cost",  # few enough floating-point operations
    "smoke",  # the loss of the smallest model falls
    "train",  # it failed while it trained
    "timeout",  # it took longer than it may
    "memory",  # it took more memory than it may
)
LADDER = STAGES[: STAGES.index("smoke") + 1]  # what a program has to pass before it is trained


@dataclass(frozen=True)
class Rejection:
    """A refusal as it is stored and shown to whoever wrote the program.

    place  a line, a position, a shape or a step; empty where there is none
    """

    stage: str
    reason: str
    place: str = ""

    @property
    def why(self) -> str:
        """The reason and the place in one line."""
        return f"{self.reason} {self.place}".strip()

    def __str__(self) -> str:
        return f"{self.stage}: {self.reason}" + (f" ({self.place})" if self.place else "")


class Rejected(Exception):
    """A program cannot be used. Not a fault of ours, and expected: proposals fail often."""

    def __init__(self, stage: str, reason: str, place: str = "") -> None:
        if stage not in STAGES:
            raise ValueError(f"stage {stage!r} is none of {', '.join(STAGES)}")
        super().__init__(stage, reason, place)
        self.stage, self.reason, self.place = stage, reason, place

    @property
    def rejection(self) -> Rejection:
        """The same as a value."""
        return Rejection(self.stage, self.reason, self.place)

    def __str__(self) -> str:
        return str(self.rejection)
