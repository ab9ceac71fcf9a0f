"""Conditions that a budget did not pay for: which, with which seeds, and why."""

import pandas as pd

from evolora_core.report.sections import PackTable
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Table, words

_ROWS = """
    SELECT condition, string_agg(seed, ', ' ORDER BY seed) AS not_run, arg_min(reason, seed) AS reason
    FROM not_run JOIN complete_seeds USING (suite, seed) JOIN suites USING (suite) WHERE suite = $suite
    GROUP BY condition, conditions ORDER BY list_position(conditions, condition)
"""


def not_run_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row for each condition whose budget is too small: `not_run`, with which seeds, and the reason of the
    first.
    """
    return stored.frame(_ROWS)


def not_run_table(suite: str, data: pd.DataFrame) -> Table:
    """What was not run, and why."""
    columns = [words("condition"), words("seeds", "not_run"), words("reason")]
    return Table("not_run", f"{suite}: not run, as the budget is too small", data, columns)


NOT_RUN = PackTable(not_run_rows, (not_run_table,), texts=("not_run", "reason"), optional=True)
