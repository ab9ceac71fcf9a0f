"""Settings of what founders inherit where families come one after another."""

from typing import Literal

from pydantic import Field

from evolora_core.engine.strict import Strict


class InheritanceConfig(Strict):
    """What the founders of a family that arrives begin with, where families come one after another."""

    donor: Literal["host", "best", "random"] = Field(
        "host",
        description="whose weights the founders of a family that arrives begin with. `host`: the bare host's; `best`: "
        "those of whoever answers most of some of its items: the host, a learner of an earlier family, or their sum; "
        "`random`: one of these drawn, the host aside",
    )
    items: int = Field(
        64,
        ge=1,
        le=1_000_000,
        description="with `best`: training items of the family that every possible donor answers; charged",
    )
