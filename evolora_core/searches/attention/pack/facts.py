"""Checks of an attention suite's pack, and what is worked out for its README."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.pack.best import best_of
from evolora_core.searches.attention.pack.plotted import judged, paired
from evolora_core.searches.attention.pack.tables import prediction_rows
from evolora_core.searches.attention.scaling.intervals import of_crossed
from evolora_core.searches.attention.scaling.ranks import RankCorrelation, spearman

_CHECKS = """
    SELECT
        (SELECT count(*) FROM attention_table WHERE suite = $suite AND list_contains($negatives, arm)) AS negatives,
        (SELECT count(*) FROM attention_table AS bad JOIN attention_table AS good USING (suite)
            WHERE suite = $suite AND list_contains($negatives, bad.arm) AND NOT list_contains($negatives, good.arm)
            AND bad.measured >= good.measured) AS negatives_ahead,
        (SELECT count(*) FROM candidate JOIN complete_seeds USING (suite, seed)
            WHERE suite = $suite AND status = 'failed' AND score IS NOT NULL) AS failed_with_score
"""
# Gains at the largest size of the search, with its own seeds and texts.
_SELECTED = """
    WITH own AS (
        SELECT condition AS arm, run_seed, l.seed, loss
        FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
        LEFT JOIN attention_program AS p ON p.run_id = l.run_id AND p.program_id = l.program AND p.chosen
        WHERE l.suite = $suite AND split = 'selection' AND size = $size AND (stage = 'measure' OR p.chosen)
    )
    SELECT own.arm, avg(plain.loss - own.loss) AS selected FROM own JOIN own AS plain USING (run_seed, seed)
    WHERE plain.arm = $baseline AND own.arm <> $baseline GROUP BY own.arm
"""
_ABLATED = """
    SELECT arm, count(DISTINCT seed) AS run_seeds FROM attention_ablation JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite GROUP BY arm ORDER BY arm
"""
# Sizes whose best learning rate is the lowest or the highest that was tried.
_EDGES = """
    WITH tried AS (
        SELECT size, rate, chosen, min(rate) OVER grid AS lowest, max(rate) OVER grid AS highest
        FROM attention_rate JOIN complete_seeds USING (suite, seed)
        WHERE suite = $suite WINDOW grid AS (PARTITION BY size, seed)
    )
    SELECT size, if(rate = highest, 'highest', 'lowest') AS edge, count(*) AS run_seeds FROM tried
    WHERE chosen AND lowest < highest AND rate IN (lowest, highest)
    GROUP BY size, edge ORDER BY list_position($sizes::VARCHAR[], size), edge
"""


def checks(stored: StoredSuite) -> dict[str, Any]:
    """What must hold: what must lose stands behind everything else, and no program that failed has a score."""
    (row,) = stored.frame(_CHECKS, negatives=_known(negative=True)).to_dict("records")
    return {
        "mechanisms_that_must_lose": int(row["negatives"]),
        "times_that_one_of_them_is_ahead_of_another_arm": int(row["negatives_ahead"]),
        "failed_programs_with_a_score": int(row["failed_with_score"]),
    }


def context(stored: StoredSuite) -> dict[str, Any]:
    """The best program, how well the law predicted, and whether the evaluator ranks what is known."""
    rows = prediction_rows(stored)
    inside = rows["inside"].dropna()
    return {
        "best": best_of(stored),
        "inside": int(inside.sum()),
        "predictions": len(inside),
        "own_parameters": _own_parameters(rows),
        "foretold": _foretold(stored),
        "upsets": _upsets(stored),
        "ablated": list(stored.frame(_ABLATED).itertuples(index=False)),
        "edges": list(stored.frame(_EDGES, sizes=list(SIZES)).itertuples(index=False)),
    }


def _own_parameters(predictions: pd.DataFrame) -> bool:
    """Whether an arm's loss was predicted at another number of parameters than the baseline's. Older stores have the
    baseline's for all.
    """
    plain = predictions[predictions["arm"] == BASELINE].drop_duplicates("size").set_index("size")["parameters"]
    return bool((predictions["parameters"] != predictions["size"].map(plain)).any())


def _known(negative: bool) -> list[str]:
    return [name for name, known in KNOWN.items() if known.negative is negative]


@dataclass(frozen=True)
class Upset:
    """A mechanism that must lose is not behind one that people use, at the largest size. `sure`: ahead of it by more
    than the 95 % interval over run seeds; a single run seed is never sure.
    """

    bad: str
    good: str
    sure: bool


def _upsets(stored: StoredSuite) -> list[Upset]:
    """Where the evaluator does not rank what is known."""
    rows = paired(stored)
    if rows.empty:
        return []
    rows = rows[rows["parameters"] == rows["parameters"].max()]
    gains = rows.pivot_table(index="run_seed", columns="arm", values="gain").assign(**{BASELINE: 0.0})
    found = []
    for bad in gains.columns.intersection(_known(negative=True)):
        for good in gains.columns.intersection(_known(negative=False)):
            ahead = of_crossed((gains[bad] - gains[good]).to_numpy(float))
            if ahead.value >= 0:
                found.append(Upset(bad, good, len(gains) > 1 and ahead.lo > 0))
    return found


@dataclass(frozen=True)
class Foretold:
    """How near the gain at the largest size, measured at the end, is to what was known of it before.

    rank    rank correlation with it over the arms
    error   mean distance from it over the arms, nats
    """

    rank: RankCorrelation
    error: float


def _foretold(stored: StoredSuite) -> dict[str, Foretold] | None:
    """Of the law's prediction, and of its plain rival: that the gain stays what it is at the largest size of the
    search; over the arms that have both. None without predictions.
    """
    selected = stored.frame(_SELECTED, size=stored.config["sizes"]["measured"][-1], baseline=BASELINE)
    rows = judged(stored).merge(selected, on="arm")
    if rows.empty or (rows := rows.dropna(subset=["predicted"])).empty:
        return None
    measured = rows["gain"].to_numpy(float)
    known = {"law": rows["predicted"].to_numpy(float), "largest": rows["selected"].to_numpy(float)}
    return {
        name: Foretold(spearman(values, measured), float(np.mean(np.abs(values - measured))))
        for name, values in known.items()
    }
