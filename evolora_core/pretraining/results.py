"""What a finished pretraining hands back."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CellAccuracy:
    """Greedy accuracy on reserved prompts of one cell."""

    family: str
    depth: str
    n: int
    correct: int
    chance: float
    share: float  # of the training rows

    @property
    def accuracy(self) -> float:
        return self.correct / self.n

    @property
    def corrected(self) -> float:
        """(accuracy - chance) / (1 - chance)."""
        return (self.accuracy - self.chance) / (1 - self.chance)


@dataclass(frozen=True)
class PretrainReport:
    """What a finished pretraining hands back; the model card says the same in words."""

    folder: Path
    weights_sha256: str
    parameters: int
    steps: int
    rows: int
    tokens: int
    flops: int
    seconds: float
    accuracy: tuple[CellAccuracy, ...]
