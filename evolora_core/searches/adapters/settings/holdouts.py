"""Settings of the holdout files that a suite names."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Seed, Strict
from evolora_core.language.splits import SPLITS


class HoldoutFile(Strict):
    """A holdout file, or those of its rows that a column tells apart: a split of its own. A path that stands alone is a
    file of which all items are asked.
    """

    file: str = Field(
        min_length=1,
        max_length=1000,
        description="JSON Lines with prompt, target, family and depth, or in the regex form",
    )
    items: int | None = Field(None, ge=1, le=1_000_000, description="how many of its items are asked; by default all")
    seed: Seed = Field(0, description="which items these are; the same for every seed of the suite")
    where: dict[str, str | None] | None = Field(
        None,
        min_length=1,
        max_length=20,
        json_schema_extra=LATER,
        description="only rows whose columns have these values, such as `holdout_type: operator`; null: no value",
    )
    split: str | None = Field(
        None, json_schema_extra=LATER, description="what its split is called; by default like the file"
    )

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return {"file": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _named(self) -> "HoldoutFile":
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", self.name) or self.name in SPLITS:
            chosen = "" if self.split is not None else ", and its file's name does; set `split`"
            raise ValueError(
                f"{self.name!r} cannot name a split{chosen}: letters, digits, - and _, and none of {', '.join(SPLITS)}"
            )
        if self.seed and self.items is None:
            raise ValueError("seed: it says which items are asked, and all are; add `items`, or take it out")
        return self

    @property
    def name(self) -> str:
        """What its split is called."""
        return self.split if self.split is not None else Path(self.file).stem
