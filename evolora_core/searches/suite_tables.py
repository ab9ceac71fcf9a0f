"""Views of the store, limited to one suite, as pandas tables."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evolora_core.engine.home import home_path
from evolora_core.engine.run_index import read_suite
from evolora_core.errors import ConfigError
from evolora_core.searches.registry import find_suite, search_of
from evolora_core.store import frame

if TYPE_CHECKING:
    import pandas as pd


def suite_tables(suite: str, search: str, views: Sequence[str]) -> "dict[str, pd.DataFrame]":
    """The rows of a suite in each of `views`, by its name. ConfigError if there is no such suite, or if it is of
    another search.
    """
    home = home_path()
    found = find_suite(home, suite)
    if (own := search_of(read_suite(home, found) or {}).name) != search:
        raise ConfigError(f"{suite}: a suite of the search '{own}'; name one of {search}")
    return {view: frame(home, f"SELECT * FROM {view} WHERE suite = ? ORDER BY ALL", [str(found)]) for view in views}
