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
    """The cell of the column, or the template with the cells of a row in it. What is in braces is a name and nothing
    else: Python's formats would also look inside of cells.
    """
    if "{" not in setting:
        return row[setting]
    parts = string.Formatter().parse(setting)
    return "".join(text + ("" if name is None else str(row[name])) for text, name, _, _ in parts)


def _sound(setting: str) -> str:
    if "{" in setting:
        try:
            parts = list(string.Formatter().parse(setting))
        except ValueError as error:
            raise ValueError(f"{error}; {_TWICE}") from None
        if any(name == "" or form or conversion for _, name, form, conversion in parts):
            raise ValueError(f"in braces stands the name of a column alone; {_TWICE}")
    return setting


_TWICE = "write braces that are text twice: {{ }}"
Template = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_sound)]
