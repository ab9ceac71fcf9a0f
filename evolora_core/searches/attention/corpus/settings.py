"""The section of a suite that says what its models learn from."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evolora_core.engine.strict import Strict
from evolora_core.searches.attention.corpus.synthetic import SHORTEST

Kind = Literal["text", "recall", "copying", "markov"]


class CorpusSettings(Strict):
    """Which kinds of text, how much of each, and how many."""

    shares: dict[Kind, Annotated[float, Field(gt=0, le=1)]] = Field(
        {"text": 0.75, "recall": 0.25},
        min_length=1,
        description="share of each kind among the rows, together 1; `copying` takes more steps than small suites have",
    )
    source: str = Field(
        "python",
        min_length=1,
        max_length=500,
        description="where the kind `text` comes from: `python` (its documentation and standard library, no download), "
        "`tinystories` from the hub, another data set of the hub, or a folder of text files",
    )
    train: int = Field(20_000, ge=2, le=10_000_000, description="rows to train on")
    held_out: int = Field(
        4_096, ge=1, le=1_000_000, description="texts to be judged by, of each of which a prefix is shown"
    )
    context: int = Field(32, ge=SHORTEST, le=4_096, description="tokens that a model sees at once")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if abs(sum(self.shares.values()) - 1) > 1e-6:
            raise ValueError(f"shares: they make {sum(self.shares.values()):g} together; they have to make 1")
        if self.source != "python" and "text" not in self.shares:
            raise ValueError("source: has no effect without `text` in `shares`; take it out, or give `text` a share")
        return self

    def counts(self, rows: int) -> dict[str, int]:
        """How many of `rows` are of each kind: rounded so that they make `rows` together."""
        parts: dict[str, int] = {}
        done, share = 0, 0.0
        for kind in sorted(self.shares):
            share += self.shares[kind]
            parts[kind] = round(rows * min(share, 1.0)) - done
            done += parts[kind]
        return parts
