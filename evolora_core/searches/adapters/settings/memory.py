"""Settings of what organelles are shown of what they remember."""

from typing import Annotated, Literal

from pydantic import Field

from evolora_core.engine.strict import LATER, Strict


class MemoryConfig(Strict):
    """Solved examples in prompts: verified answers that an organelle found or bought."""

    shown: int = Field(
        0,
        ge=0,
        le=64,
        description="examples before an item that an organelle has not solved unaided, in the place of those that the "
        "host's template has; 0: none. Their tokens are paid for. What it finds with them it rehearses without them. "
        "With the rule `search` alone",
    )
    labels: int = Field(
        0,
        ge=0,
        le=1_000_000,
        json_schema_extra=LATER,
        description="gold answers of each family that its founders remember from the beginning, the same ones that "
        "arms with so many `labels` see; they are shown and rehearsed as what is found is",
    )
    chosen: Literal["nearest", "drawn"] = Field(
        "nearest",
        description="which answers to other items of the family: `nearest`: those to the prompts most like the item's, "
        "by the host's embeddings, the most alike last; `drawn`: any",
    )
    answering: list[Annotated[int, Field(ge=1, le=64)]] = Field(
        [],
        max_length=20,
        json_schema_extra=LATER,
        description="numbers of its memories that are tried before an item where routes are chosen, the nearest of the "
        "family, or of all for the router `single`: beside every candidate, the same one with so many examples. "
        "[]: none. The sum of learners shows none",
    )
