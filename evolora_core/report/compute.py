"""Where the compute of a suite went."""

import pandas as pd

from evolora_core.report.sections import PackTable
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, words

_ROWS = """
    WITH spent AS (
        SELECT * FROM compute WHERE suite = $suite AND (
            seed IN (SELECT seed FROM complete_seeds WHERE suite = $suite)
            OR condition NOT IN (SELECT unnest(conditions) FROM suites WHERE suite = $suite)
        )
    ),
    counted AS (SELECT condition, count(DISTINCT run_id) AS runs FROM spent GROUP BY ALL)
    SELECT condition, purpose, any_value(runs) AS runs, sum(flops) / any_value(runs) AS flops,
        sum(seconds) / any_value(runs) AS seconds
    FROM spent JOIN counted USING (condition) GROUP BY ALL ORDER BY ALL
"""


def compute_rows(stored: StoredSuite) -> pd.DataFrame:
    """Budget FLOPs by condition and purpose: means over the runs of a condition, those without the purpose too. Of the
    suite's conditions, the complete seeds; what conditions share has all.
    """
    return stored.frame(_ROWS)


def compute_table(suite: str, data: pd.DataFrame) -> Table:
    """Compute by condition and purpose."""
    columns = [
        words("condition"),
        words("purpose"),
        Column("runs", lambda r: str(r["runs"])),
        Column("budget FLOPs / run", number("flops", "{:.3g}")),
        Column("seconds / run", number("seconds", "{:.1f}")),
    ]
    return Table("compute", f"{suite}: where the compute went", data, columns)


COMPUTE = PackTable(compute_rows, (compute_table,))
