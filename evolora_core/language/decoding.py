"""Settings of decoding."""

from typing import Annotated

from pydantic import Field

from evolora_core.engine.strict import Strict


class DecodingConfig(Strict):
    """Decoding, the same for every arm."""

    max_new_tokens: int = Field(32, ge=1, le=65_536, description="token cap of an answer")
    batch_rows: int = Field(512, ge=1, le=65_536, description="answers decoded together")
    stop_strings: list[Annotated[str, Field(min_length=1, max_length=1000)]] = Field(
        [],
        max_length=100,
        description="strings that end an answer and are cut off, for hosts that do not end their answers themselves",
    )
