"""The landscape in a pack: the models that it knows, and how the declared hypothesis reads on replayed runs.

The hypothesis: after `read_at` evaluations a strategy has at most a tenth of the gain from the best parent to the
optimum left in 80 % of its runs, and random search needs twice as many evaluations for that.
"""

from typing import Any

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, percent, rows_of, words

RUNS = 0.8  # share of the runs that the hypothesis speaks of
TIMES = 2.0  # so many times as many evaluations random search needs, by the hypothesis
RIVAL = "random"
OPTIMA = ("optimum of search", "optimum of test")  # what is marked beside the parents

_GAINS = """
    SELECT seed, max(search_score) FILTER (what = 'optimum of search')
        - max(search_score) FILTER (NOT list_contains($optima, what)) AS gain
    FROM landscape_mark WHERE suite = $suite GROUP BY seed
"""
# The interval of `until`: shares rise with the evaluations, so Wilson's bounds of the share give those of the place.
_REGRET = f"""
    WITH own AS (SELECT regret.* FROM regret JOIN complete_seeds USING (suite, seed) WHERE suite = $suite),
    reached AS (
        SELECT seed, strategy, max(evaluations) AS replayed,
            min(evaluations) FILTER (within >= $share) AS until,
            min(evaluations) FILTER (within_hi >= $share) AS until_lo,
            min(evaluations) FILTER (within_lo >= $share) AS until_hi
        FROM own GROUP BY ALL
    ), gains AS ({_GAINS})
    SELECT seed, strategy, runs, evaluations AS read_at, replayed, gain, within, within_lo, within_hi,
        CASE WHEN isfinite(regret) THEN regret END AS regret,
        CASE WHEN isfinite(regret_lo) THEN regret_lo END AS regret_lo,
        CASE WHEN isfinite(regret_hi) THEN regret_hi END AS regret_hi,
        until, until_lo, until_hi
    FROM own JOIN reached USING (seed, strategy) LEFT JOIN gains USING (seed)
    WHERE evaluations = least($read_at, replayed)
    ORDER BY seed, list_position($strategies::VARCHAR[], strategy), strategy
"""
_MARKS = """
    SELECT seed, what, model, genes, search_score, test_score, test_solved
    FROM landscape_mark JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ORDER BY seed, list_contains($optima, what), what
"""


def regret_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per seed and strategy: runs, evaluations at which the hypothesis is read, evaluations replayed, gain from
    the best parent to the optimum (nats), share of the runs within a tenth of it with Wilson's interval, mean regret
    with the 10th and 90th percentile of the runs (nats), evaluations until the share is 80 % with their interval (none:
    more than were replayed), and random search's relative to those (`ratio`).

    `share_reads` and `ratio_reads` are what a half of the hypothesis comes to: yes, no or undecided.
    """
    settings = stored.config.get("landscape") or {}
    rows = stored.frame(
        _REGRET,
        share=RUNS,
        read_at=settings.get("read_at", 0),
        strategies=settings.get("strategies", []),
        optima=list(OPTIMA),
    )
    rivals = {row["seed"]: row for row in rows_of(rows) if row["strategy"] == RIVAL}
    found = [_read(row, rivals.get(row["seed"])) for row in rows_of(rows)]
    names = ("ratio", "ratio_lo", "ratio_hi", "share_reads", "ratio_reads")
    return rows.assign(**{name: pd.Series([row[name] for row in found], rows.index) for name in names})


def _read(own: dict[str, Any], rival: dict[str, Any] | None) -> dict[str, Any]:
    """How much longer random search takes, and what both halves of the hypothesis come to.

    The bounds of the ratio are those of both numbers at their far ends. A number beyond the replayed evaluations is
    more than these: that is a bound, too.
    """
    share = _verdict(own["within_lo"], own["within_hi"], RUNS)
    nothing: dict[str, Any] = {"ratio": None, "ratio_lo": None, "ratio_hi": None, "share_reads": share}
    if rival is None or rival is own or own["strategy"] == RIVAL:
        return nothing | {"ratio_reads": ""}
    low = (rival["until_lo"] or rival["replayed"]) / own["until_hi"] if own["until_hi"] else None
    high = rival["until_hi"] / (own["until_lo"] or own["replayed"]) if rival["until_hi"] else None
    exact = rival["until"] / own["until"] if rival["until"] and own["until"] else None
    return nothing | {"ratio": exact, "ratio_lo": low, "ratio_hi": high, "ratio_reads": _verdict(low, high, TIMES)}


def _verdict(low: float | None, high: float | None, asked: float) -> str:
    """Whether an interval is clear of what is asked; a bound that is not known clears nothing."""
    if low is not None and low >= asked:
        return "yes"
    return "no" if high is not None and high < asked else "undecided"


def regret_table(suite: str, data: pd.DataFrame) -> Table:
    """How many of the replayed runs are near the optimum, and what that took."""
    read_at = int(data["read_at"].max())
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        words("strategy"),
        Column("runs", number("runs", "{:.0f}")),
        Column("within a tenth %", lambda r: percent(r["within"], r["within_lo"], r["within_hi"])),
        Column("regret, nats [10th, 90th percentile]", _regret),
        Column(f"evaluations until {100 * RUNS:.0f} %", _until),
        Column(f"{RIVAL} needs so many times as many", _ratio),
        words(f"{100 * RUNS:.0f} % at {read_at}?", "share_reads"),
        Column(f"{RIVAL} {TIMES:.0f} times?", lambda r: r["ratio_reads"] or NONE, left=True),
    ]
    return Table("regret", f"{suite}: replayed runs after {read_at} evaluations, 95 % intervals", data, columns)


def _regret(row: dict[str, Any]) -> str:
    """`0.0312 [0.0000, 0.0871]`; a dash for infinite bounds."""
    mean, low, high = (
        NONE if row[name] is None else f"{row[name]:.4f}" for name in ("regret", "regret_lo", "regret_hi")
    )
    return NONE if mean == NONE else f"{mean} [{low}, {high}]"


def _until(row: dict[str, Any]) -> str:
    """`152 [140, 163]`; what was not reached is more than was replayed."""
    cells = [
        f"> {row['replayed']:.0f}" if row[name] is None else f"{row[name]:.0f}"
        for name in ("until", "until_lo", "until_hi")
    ]
    return cells[0] if len(set(cells)) == 1 else f"{cells[0]} [{cells[1]}, {cells[2]}]"


def _ratio(row: dict[str, Any]) -> str:
    """`2.7 [2.3, 3.1]`, or the bound that is known: `> 5.9`."""
    low, high = (NONE if row[name] is None else f"{row[name]:.1f}" for name in ("ratio_lo", "ratio_hi"))
    if row["ratio"] is not None:
        return f"{row['ratio']:.1f} [{low}, {high}]"
    return f"> {low}" if low != NONE else f"< {high}" if high != NONE else NONE


def mark_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per seed and mark, parents first: number of the model, genes, scores (nats), share of the test items that
    it solves.
    """
    return stored.frame(_MARKS, optima=list(OPTIMA))


def mark_table(suite: str, data: pd.DataFrame) -> Table:
    """What the landscape holds: its parents and its best models."""
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        words("model", "what"),
        words("layers", "genes"),
        Column("search, nats", number("search_score", "{:.4f}")),
        Column("test, nats", number("test_score", "{:.4f}")),
        Column("test solved %", lambda r: percent(r["test_solved"])),
    ]
    return Table("landscape_marks", f"{suite}: parents and optima of the landscape", data, columns)
