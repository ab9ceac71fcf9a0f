"""Settings of solved examples in the prompt, the rival that trains nothing."""

from typing import Annotated, Literal

from pydantic import Field

from evolora_core.engine.strict import Strict


class ExamplesConfig(Strict):
    """The bare host with solved examples in its prompt (few-shot prompting). For each bucket of a router, the selection
    split chooses how many examples, and which, or none. Nothing is tuned beyond that.
    """

    labels: int | None = Field(
        None, ge=1, le=10_000_000, description="gold answers of each family, from which the examples are; null: all"
    )
    label_error: float = Field(
        0.0, ge=0, lt=1, description="share of the gold answers that are replaced by another item's"
    )
    shown: list[Annotated[int, Field(ge=1, le=64)]] = Field(
        [2, 4, 8], min_length=1, max_length=20, description="numbers of examples that are tried"
    )
    chosen: list[Literal["nearest", "same"]] = Field(
        ["nearest"],
        min_length=1,
        max_length=2,
        description="which are tried: `nearest`: those whose prompts are most like the item's, by the host's "
        "embeddings, the most alike last; `same`: the same before every item, drawn by seed",
    )
