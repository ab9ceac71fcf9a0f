"""Settings of what organelles are shown of what they remember."""

from typing import Literal

from pydantic import Field

from evolora_core.engine.strict import Strict


class MemoryConfig(Strict):
    """Solved examples in the prompts of practice: verified answers that an organelle found or bought."""

    shown: int = Field(
        0,
        ge=0,
        le=64,
        description="examples before an item that an organelle has not solved unaided, in the place of those that the "
        "host's template has; 0: none. Their tokens are paid for. What it finds with them it rehearses without them. "
        "With the rule `search` alone",
    )
    chosen: Literal["nearest", "drawn"] = Field(
        "nearest",
        description="which answers to other items of the family: `nearest`: those to the prompts most like the item's, "
        "by the host's embeddings, the most alike last; `drawn`: any",
    )
