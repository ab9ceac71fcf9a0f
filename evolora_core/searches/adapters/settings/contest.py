"""Settings of the contest of an ecology."""

from typing import Literal

from pydantic import Field

from evolora_core.engine.strict import LATER, Strict


class ContestConfig(Strict):
    """Selection that reaches the weights: in each niche several contenders learn, and the better go on."""

    contenders: int = Field(
        1,
        ge=1,
        le=256,
        description="organelles of a niche that learn, each a part of its learning steps, one at least; 1: no contest. "
        "With `single`, organelles that practise everything",
    )
    every: int = Field(
        2,
        ge=1,
        le=1_000_000,
        description="generations between two contests. Where no contender has learned, none is held",
    )
    ends: int | None = Field(
        None,
        ge=2,  # in the first generation nobody has learned yet
        le=1_000_000,
        json_schema_extra=LATER,
        description="the generation whose contest, before its learning, leaves one contender of each niche, which goes "
        "on with all of its learning steps; none: that is decided before the cooldown",
    )
    items: int = Field(
        256,
        ge=1,
        le=1_000_000,
        description="training items that all contenders of a niche answer in a contest. Items that all of them "
        "practised in this generation count first. The others are asked for and charged; they are taken from items "
        "that no contender remembers, and, when these run out, from items that all of them remember",
    )
    practice: Literal["common", "own"] = Field(
        "common",
        json_schema_extra=LATER,
        description="`common`: contenders of a niche practise the same items, which count in a contest; `own`: each "
        "practises items of its own, so that together they find more, and a contest asks for all of its items",
    )
    loser: Literal["copies", "restarts", "retires"] = Field(
        "retires",
        description="what becomes of a contender that the best of its niche beats. `retires`: the worse half go, and "
        "leave their learning steps to the others (successive halving); `copies`: its slot takes the winner's weights, "
        "memories and optimizer state, and its traits, varied (population-based training); `restarts`: it begins anew "
        "with the winner's traits, varied",
    )
    judge: Literal["evidence", "chance"] = Field(
        "evidence",
        description="`evidence`: answers to the common items decide; `chance`: the order of contenders is drawn, and "
        "as many lose as by evidence would",
    )
    alpha: float = Field(
        0.05,
        gt=0,
        lt=1,
        description="the best beats a contender whose p value in the exact paired test is this or less; a threshold, "
        "and no level: the best was chosen by the same answers, and several losers are not adjusted for; `retires` "
        "needs no test",
    )
    spread: float = Field(
        0.5, ge=0, le=10, description="standard deviation of the log traits of a successor around the winner's"
    )
