"""What an evaluation depends on."""

from evolora_core.engine.strict import Strict
from evolora_core.language.decoding import DecodingConfig


class Frontier(Strict):
    """At which strengths of ΔW the one adapter answers, and how many items of each split."""

    strengths: list[float]
    items: int


class Evaluation(Strict):
    """What is asked of a condition. The bare host has no routers. `variants`: under the first router, the items in
    distribution are asked in other forms too.
    """

    condition: str
    routings: list[str]
    decoding: DecodingConfig
    frontier: Frontier | None
    variants: bool
