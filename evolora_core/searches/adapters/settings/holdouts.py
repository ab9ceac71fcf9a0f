"""Settings of the holdout files that a suite names."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from evolora_core.engine.strict import Seed, Strict
from evolora_core.language.splits import SPLITS


class HoldoutFile(Strict):
    """A holdout file, which is a split of its own. A path that stands alone is a file of which all items are asked."""

    file: str = Field(min_length=1, max_length=1000, description="JSON Lines in either published form")
    items: int | None = Field(None, ge=1, le=1_000_000, description="how many of its items are asked; by default all")
    seed: Seed = Field(0, description="which items these are; the same for every seed of the suite")

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        return {"file": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _named(self) -> "HoldoutFile":
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", self.name) or self.name in SPLITS:
            raise ValueError(
                f"{self.name!r} cannot name a split, and its file's name does; give the file another name, of letters, "
                f"digits, - and _, that is none of {', '.join(SPLITS)}"
            )
        if self.seed and self.items is None:
            raise ValueError("seed: it says which items are asked, and all are; add `items`, or take it out")
        return self

    @property
    def name(self) -> str:
        """What its split is called."""
        return Path(self.file).stem
