"""The measured losses of a run's programs, as arrays, and what of two programs can be compared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from evolora_core.errors import StageError


@dataclass(frozen=True)
class Losses:
    """Mean held-out losses of programs (nats a token) at sizes and seeds; NaN where nothing was measured.

    n         non-embedding parameters `[programs, sizes]` of the models that were built
    values    mean losses `[programs, sizes, seeds]`; equal seeds saw equal batches, so they are paired
    texts     where it is kept: the losses of single texts `[programs, sizes, seeds, texts]`, whose means are `values`;
              the same texts everywhere. Without them an interval speaks of these texts only
    """

    programs: list[str]
    sizes: list[str]
    seeds: list[int]
    n: np.ndarray
    values: np.ndarray
    texts: np.ndarray | None = None

    def __post_init__(self) -> None:
        shape = (len(self.programs), len(self.sizes), len(self.seeds))
        given = (self.n.shape, self.values.shape, shape if self.texts is None else self.texts.shape[:3])
        if given != (shape[:2], shape, shape):
            raise ValueError(
                f"losses: {shape[0]} programs, {shape[1]} sizes and {shape[2]} seeds, but n, values and texts are of "
                f"shapes {', '.join(map(str, given))}"
            )

    def place(self, program: str) -> int:
        """The row of a program. Raises StageError if it was not measured."""
        if program not in self.programs:
            raise StageError(f"program {program} has no losses; measured are {', '.join(self.programs)}")
        return self.programs.index(program)

    def common(self, programs: Sequence[str]) -> np.ndarray:
        """Where `[sizes, seeds]` every one of the programs was measured."""
        rows = [self.place(program) for program in programs]
        found: np.ndarray = np.isfinite(self.values[rows]).all(axis=0)
        return found


@dataclass(frozen=True)
class Cells:
    """What was measured of one program, flat: ln of its parameters `x`, mean losses `y`, indices `size` and `seed`, all
    `[cells]`, and, where they are kept, the losses of single texts `[texts, cells]`.
    """

    x: np.ndarray
    y: np.ndarray
    size: np.ndarray
    seed: np.ndarray
    texts: np.ndarray | None


def cells_of(losses: Losses, program: str, where: np.ndarray | None = None) -> Cells:
    """The cells of a program, or those among `where` `[sizes, seeds]`."""
    row = losses.place(program)
    size, seed = np.nonzero(losses.common([program]) if where is None else where & losses.common([program]))
    texts = None if losses.texts is None else losses.texts[row, size, seed].T
    return Cells(np.log(losses.n[row, size]), losses.values[row, size, seed], size, seed, texts)


def star(losses: Losses, baseline: str) -> float:
    """N*, the size that predictions are for: three times the largest measured one of the baseline."""
    return 3.0 * float(np.exp(cells_of(losses, baseline).x.max()))


def together(losses: np.ndarray) -> np.ndarray:
    """The loss of each text where the probabilities of models with the losses `[models, texts]` (nats) are averaged."""
    found: np.ndarray = np.log(len(losses)) - special.logsumexp(-losses.astype(np.float64), axis=0)
    return found
