"""What must hold in a pack of the merge search, and what its provenance and README say beside the tables."""

from typing import Any

import pandas as pd

from evolora_core.report.sections import leaks
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import rows_of

FAR = 0.5  # drift from which on models have no common base

_CHECKS = """
    WITH made AS (FROM merge_parent WHERE suite = $suite),
        won AS (FROM merge_choice WHERE suite = $suite),
        tried AS (FROM candidate WHERE suite = $suite),
        asked AS (
            SELECT condition, seed, task_id, count(*) AS times FROM evaluations
            WHERE suite = $suite AND split = 'test' GROUP BY ALL
        )
    SELECT
        (SELECT count(*) FROM asked WHERE times > 1) AS test_items_that_a_run_answered_twice,
        (SELECT count(*) FROM tried WHERE fresh) AS candidates_measured,
        (SELECT count(*) FROM tried WHERE fresh AND score IS NULL) AS candidates_that_failed,
        (SELECT count(*) FROM won JOIN tried USING (run_id, candidate)
            WHERE tried.score IS NULL OR NOT isfinite(tried.score)) AS failed_candidates_that_won,
        (SELECT count(*) FROM made WHERE drift >= $far) AS parents_that_drifted_half_of_the_base_or_more,
        (SELECT max(drift) FROM made) AS largest_drift_of_a_parent
"""
_MODELS = "SELECT seed, parent, weights_sha256 FROM merge_parent WHERE suite = $suite ORDER BY seed, parent"


def checks(stored: StoredSuite) -> dict[str, Any]:
    """Leaks, a test opened twice, failed candidates that won, parents that are no relatives."""
    (counts,) = rows_of(stored.frame(_CHECKS, far=FAR))
    drift = counts.pop("largest_drift_of_a_parent")
    return {
        **leaks(stored),
        **{name: int(value) for name, value in counts.items()},
        "largest_drift_of_a_parent": None if drift is None or pd.isna(drift) else round(float(drift), 4),
    }


def provenance(stored: StoredSuite) -> dict[str, Any]:
    """The weights that were merged."""
    models = rows_of(stored.frame(_MODELS))
    return {"parents": models} if models else {}
