"""The columns of a row that a setting names: one, or those of a template such as `{title}: {question}`."""

import string
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field


def columns_of(setting: str) -> list[str]:
    """The columns that a row has to have. ValueError where a template is none."""
    if "{" not in setting:
        return [setting]
    return [name for _, name, _, _ in string.Formatter().parse(setting) if name is not None]


def filled(setting: str, row: Mapping[str, Any]) -> Any:
    """The cell of the column, or the template with the cells of a row in it."""
    return setting.format_map(row) if "{" in setting else row[setting]


def _sound(setting: str) -> str:
    columns_of(setting)
    return setting


Template = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_sound)]
