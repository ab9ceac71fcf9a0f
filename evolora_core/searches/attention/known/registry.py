"""The known mechanisms by name, the baseline first. Whoever adds one enters it here and puts its file into `programs`.

Each draws `value`, `out`, `query` and `key` first and in this order, as the templates of the frameworks do, so that
from one seed they start with the same projections. Not so `gqa`, whose `value` is smaller, and `mla`, which has neither
`value` nor `key` and draws `out` first; `gated-deltanet`, without biases, shares `value` alone. The two that must lose
have no queries and keys. Rotary, ALiBi, forgetting and recurrent mechanisms leave the host's sinusoidal positions out,
as published; the others have them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from evolora_core.errors import ConfigError
from evolora_core.foreign.nearest import nearest_or_all

BASELINE = "mha"

_FOLDER = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Known:
    """A mechanism that people know, as a program file.

    says      what it does, in a few words for a table
    negative  whether it must lose: an evaluator that ranks it high is broken
    """

    name: str
    path: Path
    says: str
    negative: bool = False

    @property
    def source(self) -> str:
        """The text of the program."""
        return self.path.read_text(encoding="utf-8")


def _known(name: str, says: str, *, negative: bool = False) -> Known:
    return Known(name, _FOLDER / f"{name.replace('-', '_')}.py", says, negative)


KNOWN: Mapping[str, Known] = MappingProxyType(
    {
        known.name: known
        for known in (
            _known(BASELINE, "softmax attention"),
            _known("gqa", "a head of keys and values for each two of queries"),
            _known("mla", "keys and values from a small latent, rotary part apart"),
            _known("sliding-window", "softmax over the last 16 tokens"),
            _known("linear", "kernel of features elu + 1"),
            _known("alibi", "scores fall with the distance"),
            _known("rope", "queries and keys are rotated by angles that grow with the position"),
            _known("nope", "no positions at all"),
            _known("qk-norm", "queries and keys normalised"),
            _known("gated", "sigmoid gate on what the heads return"),
            _known("differential", "difference of two softmaxes"),
            _known("gated-deltanet", "fading memory with the delta rule"),
            _known("primer", "convolution of 3 over queries, keys and values"),
            _known("retention", "products of rotated queries and keys that fade, no softmax"),
            _known("forgetting", "forget gates in the scores"),
            _known("softmax1", "a head may attend to nothing"),
            _known("composite", "RoPE, QK-norm, output gate and token shift"),
            _known("uniform", "mean of all past values", negative=True),
            _known("window-1", "every token sees itself alone", negative=True),
        )
    }
)


def get_known(name: str) -> Known:
    """The mechanism of that name. ConfigError names the nearest one."""
    if name not in KNOWN:
        raise ConfigError(f"mechanism {name[:60]!r} is unknown; {nearest_or_all(name, KNOWN)}")
    return KNOWN[name]
