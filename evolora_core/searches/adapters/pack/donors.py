"""Where founders inherit: whose weights those of each family began with."""

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, percent, words

# A donor that is an organelle goes by the family that it has learned, which is the same in every seed.
_DONORS = """
    WITH asked AS (
        SELECT i.condition, i.seed, i.niche AS family, i.generation, coalesce(o.niche, i.donor) AS donor,
            i.items, i.correct, i.chosen
        FROM inheritance AS i JOIN complete_seeds USING (suite, seed)
        LEFT JOIN organelles AS o ON o.run_id = i.run_id AND o.organelle = TRY_CAST(i.donor AS BIGINT)
        WHERE i.suite = $suite AND i.condition <> 'tuning'
    )
    SELECT condition, family, donor, count(*) AS seeds, sum(chosen::INT) AS chosen, avg(items) AS items,
        CASE WHEN sum(items) > 0 THEN sum(correct) / sum(items) END AS right
    FROM asked JOIN suites ON suites.suite = $suite
    GROUP BY condition, family, donor, conditions
    ORDER BY list_position(conditions, condition), avg(generation), family,
        CASE donor WHEN 'host' THEN 0 WHEN 'sum' THEN 2 ELSE 1 END, donor
"""


def donor_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition, family that arrived, and possible donor: `host`, `sum`, or the family of an earlier
    learner; in how many of the `seeds` it was `chosen`, and the share of the `items` that it answered `right` (none
    where donors are drawn). Over the complete seeds; empty where nothing is inherited.
    """
    return stored.frame(_DONORS)


def donor_table(suite: str, donors: pd.DataFrame) -> Table:
    """The donors as a table."""
    columns = [
        words("condition"),
        words("family"),
        words("donor"),
        Column("chosen, of seeds", lambda r: f"{r['chosen']:.0f} of {r['seeds']}"),
        Column("items asked", number("items", "{:.0f}")),
        Column("right %", lambda r: percent(r["right"])),
    ]
    return Table("donors", f"{suite}: whose weights the founders of a family began with", donors, columns)
