"""Checks and provenance of an attention suite's pack."""

from typing import Any

from evolora_core.report.stored import StoredSuite
from evolora_core.searches.attention.known.registry import KNOWN

_CHECKS = """
    SELECT
        (SELECT count(*) FROM attention_table WHERE suite = $suite AND list_contains($negatives, arm)) AS negatives,
        (SELECT count(*) FROM attention_table AS bad JOIN attention_table AS good USING (suite)
            WHERE suite = $suite AND list_contains($negatives, bad.arm) AND NOT list_contains($negatives, good.arm)
            AND bad.measured >= good.measured) AS negatives_ahead,
        (SELECT count(*) FROM candidate JOIN complete_seeds USING (suite, seed)
            WHERE suite = $suite AND status = 'failed' AND score IS NOT NULL) AS failed_with_score
"""


def checks(stored: StoredSuite) -> dict[str, Any]:
    """What must hold: what must lose stands behind everything else, and no program that failed has a score."""
    names = [name for name, known in KNOWN.items() if known.negative]
    (row,) = stored.frame(_CHECKS, negatives=names).to_dict("records")
    return {
        "mechanisms_that_must_lose": int(row["negatives"]),
        "times_that_one_of_them_is_ahead_of_another_arm": int(row["negatives_ahead"]),
        "failed_programs_with_a_score": int(row["failed_with_score"]),
    }
