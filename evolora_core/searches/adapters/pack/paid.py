"""Who wins where choosing settings has to be paid: tuning's FLOPs on top of those of the run."""

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table, number, percent, words

EQUAL = 1e-12  # means that differ by less differ in the order of their terms
SLACK = 1.05  # arms on a budget end up to 5 % below it, and the arm whose budget it is does not
_PAID = """
    WITH tried AS (
        SELECT arm AS condition, count(DISTINCT trial) AS trials FROM tuning WHERE suite = $suite GROUP BY arm
    ), evolving AS (
        SELECT DISTINCT condition FROM compute
        WHERE suite = $suite AND purpose = 'calibration' AND condition NOT IN ('shared', 'tuning')
    ), price AS (
        SELECT stage, seed, sum(flops) AS flops FROM compute
        WHERE suite = $suite AND condition = 'shared' AND (stage = 'price' OR starts_with(stage, 'price-')) GROUP BY ALL
    ), trial AS (
        SELECT regexp_extract(stage, '^try-(.*)-[0-9]+$', 1) AS condition, seed, stage, sum(flops) AS flops
        FROM compute WHERE suite = $suite AND condition = 'tuning' GROUP BY ALL
    ), spent AS ( -- answers are priced once a tuning seed; each trial that evolves is charged for it, as each run is
        SELECT trial.condition, sum(
            trial.flops + CASE WHEN evolving.condition IS NULL THEN 0 ELSE coalesce(own.flops, common.flops, 0) END
        ) AS tuning_flops
        FROM trial LEFT JOIN evolving USING (condition)
            LEFT JOIN price AS own ON own.seed = trial.seed AND own.stage = 'price-' || trial.condition
            LEFT JOIN price AS common ON common.seed = trial.seed AND common.stage = 'price'
        GROUP BY ALL
    )
    SELECT condition, holdout_id_acc AS accuracy, coalesce(trials, 0) AS trials, coalesce(total_flops, 0) AS run_flops,
        coalesce(tuning_flops, 0) AS tuning_flops
    FROM paper_table LEFT JOIN tried USING (condition) LEFT JOIN spent USING (condition)
    WHERE suite = $suite AND holdout_id_acc IS NOT NULL
"""

_RUNS = """
    SELECT condition, seed, holdout_id AS accuracy, coalesce(total_flops, 0) AS flops
    FROM run_summary JOIN complete_seeds USING (suite, seed) WHERE suite = $suite AND holdout_id IS NOT NULL
"""


def paid_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition in the order of the suite; empty where nothing was tuned.

    Columns: condition, accuracy in distribution (mean over seeds), trials, run_flops (mean of a run), tuning_flops (all
    trials on all tuning seeds, each with the answers that judge it and, where it evolves, the pricing of answers, as in
    run_flops), paid_flops (one run that pays them all), and as texts `ahead` and `ahead_paid`: the conditions whose
    mean accuracy is higher for at most SLACK times the FLOPs, without and with tuning, over the seeds of both.
    """
    rows = stored.frame(_PAID)
    if not rows["trials"].any():
        return pd.DataFrame()
    rows = stored.by_condition(rows)
    rows["paid_flops"] = rows["run_flops"] + rows["tuning_flops"]
    runs = stored.frame(_RUNS).set_index(["condition", "seed"])
    tuning = dict(zip(rows["condition"], rows["tuning_flops"], strict=True))
    for column, more in (("ahead", dict.fromkeys(tuning, 0.0)), ("ahead_paid", tuning)):
        rows[column] = [", ".join(_better(runs, more, own)) for own in tuning]
    return rows


def _better(runs: pd.DataFrame, tuning: dict[str, float], own: str) -> list[str]:
    found = []
    for other in tuning:
        both = runs.loc[other].merge(runs.loc[own], on="seed", suffixes=("", "_own")).mean()
        better = both["accuracy"] > both["accuracy_own"] + EQUAL
        if better and both["flops"] + tuning[other] <= SLACK * (both["flops_own"] + tuning[own]):
            found.append(other)
    return found


def paid_table(suite: str, data: pd.DataFrame) -> Table:
    """The costs as a table."""
    columns = [
        words("condition"),
        Column("in distribution %", lambda r: percent(r["accuracy"])),
        Column("FLOPs of a run", number("run_flops", "{:.3g}")),
        Column("trials", number("trials", "{:.0f}")),
        Column("FLOPs of tuning", number("tuning_flops", "{:.3g}")),
        Column("one run with tuning", number("paid_flops", "{:.3g}")),
        words("ahead for at most 5 % more FLOPs", "ahead"),
        words("the same, tuning paid", "ahead_paid"),
    ]
    return Table("tuning_paid", f"{suite}: accuracy and FLOPs, without and with those of tuning", data, columns)
