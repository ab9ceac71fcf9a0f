"""The data of the plots."""

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.searches.merging.pack.looks import in_order
from evolora_core.searches.merging.pack.tables import domain_rows

_ARMS = """
    SELECT arm, seeds, test_score AS acc, test_lo AS lo, test_hi AS hi FROM merge_table
    WHERE suite = $suite AND test_score IS NOT NULL ORDER BY arm
"""
# Each run as a line over its measured candidates; a run that has ended keeps its best. Seeds may have bases of their
# own: lo and hi tell how they differ beyond the level of the seed's uniform mean. Levels: arms without candidates.
_PROGRESS = """
    WITH bases AS (
        SELECT seed, search_score AS level FROM merge_choice JOIN complete_seeds USING (suite, seed)
        WHERE suite = $suite AND condition = 'uniform' AND search_score IS NOT NULL
    ), counted AS (
        SELECT condition AS arm, seed, score, row_number() OVER own AS evaluations, sum(flops) OVER own AS flops,
            max(score) OVER own AS best
        FROM candidate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite AND fresh
        WINDOW own AS (PARTITION BY condition, seed ORDER BY candidate)
    ), ends AS (
        SELECT arm, seed, max(evaluations) AS last, max(max(evaluations)) OVER (PARTITION BY arm) AS longest
        FROM counted GROUP BY arm, seed
    ), shown AS (
        SELECT arm, seed, unnest(range(1, longest + 1)) AS evaluations, last FROM ends
    ), filled AS (
        SELECT s.arm, s.seed, s.evaluations, s.evaluations <= last AS running, flops, best
        FROM shown AS s JOIN counted AS c
            ON c.arm = s.arm AND c.seed = s.seed AND c.evaluations = least(s.evaluations, last)
    ), levelled AS (SELECT filled.*, coalesce(level, 0) AS level FROM filled LEFT JOIN bases USING (seed))
    SELECT arm, evaluations, count(*) AS seeds, count(*) FILTER (running) AS running, avg(flops) AS flops,
        avg(best) AS best, min(best - level) + avg(level) AS lo, max(best - level) + avg(level) AS hi
    FROM levelled GROUP BY arm, evaluations HAVING count(best) = count(*) ORDER BY arm, evaluations
"""
_LEVELS = """
    SELECT arm, search_score AS best FROM merge_table
    WHERE suite = $suite AND arm IN ('best-parent', 'uniform', 'adam') AND search_score IS NOT NULL
    ORDER BY arm
"""
_OVERFITTING = """
    SELECT condition AS arm, seed, search_score AS search, acc
    FROM merge_choice JOIN complete_seeds USING (suite, seed) JOIN (
        SELECT suite, condition, seed, acc FROM split_accuracy WHERE split = 'test'
    ) USING (suite, condition, seed)
    WHERE suite = $suite AND search_score IS NOT NULL ORDER BY arm, seed
"""
_DIVERSITY = """
    SELECT condition AS arm, generation, count(*) AS seeds, avg(evaluations) AS evaluations,
        avg(diversity) AS diversity, min(diversity) AS lo, max(diversity) AS hi
    FROM merge_generation JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite AND diversity IS NOT NULL GROUP BY ALL ORDER BY arm, generation
"""


def arm_points(stored: StoredSuite) -> pd.DataFrame:
    """Accuracy on the test: arm, kind, seeds, acc, lo, hi (shares)."""
    return in_order(stored.frame(_ARMS), stored.config)


def domain_points(stored: StoredSuite) -> pd.DataFrame:
    """The same by domain: arm, kind, domain, n, score, lo, hi."""
    return domain_rows(stored)


def progress_lines(stored: StoredSuite) -> pd.DataFrame:
    """Best search score after so many measured candidates: arm, kind, evaluations, seeds, running (seeds whose search
    has not ended), flops, best (means over seeds), lo, hi (lowest and highest seed, each less the level of its own
    uniform mean, where there is one, and more the mean level). Rows without evaluations are the levels of controls.
    """
    lines = stored.frame(_PROGRESS)
    if lines.empty:
        return lines
    return in_order(pd.concat([lines, stored.frame(_LEVELS)], ignore_index=True), stored.config)


def overfitting_points(stored: StoredSuite) -> pd.DataFrame:
    """Search score and test accuracy of what each run chose: arm, kind, seed, search (nats), acc (share)."""
    return in_order(stored.frame(_OVERFITTING), stored.config)


def diversity_lines(stored: StoredSuite) -> pd.DataFrame:
    """Diversity of the generations that every run of an arm has: arm, kind, generation, seeds, evaluations, diversity
    (means over seeds), lo, hi.
    """
    rows = stored.frame(_DIVERSITY)
    whole = rows["seeds"] == rows.groupby("arm")["seeds"].transform("max")
    return in_order(rows[whole], stored.config)
