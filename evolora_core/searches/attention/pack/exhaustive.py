"""The exhaustive table in a pack: its best programs, what cheaper measurements say of them, and replayed runs.

The declared effect: after `read_at` programs, evolution has at most a tenth of the gain from the baseline to the
optimum left in a larger share of its runs than random has. Runs of one run seed begin with the same programs, so the
difference is paired. Its interval is about chance in the strategies: all of them walk one table.
"""

import json
from typing import Any

import numpy as np
import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, percent, rows_of, words
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.grammar.vary import describe
from evolora_core.searches.attention.scaling.ranks import spearman

DECLARED, RIVAL = "evolution", "random"
BEST = 10  # programs that are shown
QUANTILE = 1.959964  # of the normal distribution, for 95 %

_REPLAYS = """
    WITH gains AS (
        SELECT suite, seed, max(score) AS gain, max(truth) FILTER (score IS NOT NULL) AS truth_gain
        FROM attention_table_score GROUP BY ALL
    ), rivals AS (
        SELECT suite, seed, run, near FROM attention_replay WHERE strategy = $rival
    ), paired AS (
        SELECT own.*, own.near::INTEGER - rivals.near::INTEGER AS ahead
        FROM attention_replay AS own LEFT JOIN rivals USING (suite, seed, run)
    ), means AS (
        SELECT suite, seed, strategy, read_at AS programs, avg(ahead) AS ahead,
            stddev_samp(ahead) / sqrt(count(ahead)) AS se, avg(measured) AS measured, avg(score) AS score,
            avg(truth) AS truth, median(coalesce(until, 'infinity'::DOUBLE)) AS until
        FROM paired GROUP BY ALL
    )
    SELECT seed, strategy, runs, programs, gain, within, within_lo, within_hi, ahead, se, regret, regret_lo, regret_hi,
        CASE WHEN isfinite(until) THEN until END AS until, measured, score, truth, truth_gain, truth_within,
        truth_within_lo, truth_within_hi
    FROM means JOIN attention_regret USING (suite, seed, strategy, programs) JOIN gains USING (suite, seed)
    JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite ORDER BY seed, list_position($strategies::VARCHAR[], strategy), strategy
"""
_PROGRAMS = """
    SELECT seed, program, genome, score, truth, reason FROM attention_table_score
    JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ORDER BY seed, score DESC NULLS LAST, program
"""
_LOSSES = """
    SELECT seed, program, size, -loss AS value
    FROM attention_table_program JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite
    QUALIFY train_seed = min(train_seed) OVER (PARTITION BY seed)
    ORDER BY seed, program, parameters
"""


def replay_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per seed and strategy, where the declared effect is read: gain from the baseline to the optimum (nats),
    share of the runs within a tenth of it with Wilson's interval, its difference to random's with the interval of the
    paired runs, what it comes to (`reads`, of evolution alone), mean regret with the 10th and 90th percentile, median
    of the programs until a run is within a tenth, programs until a run ended, score and truth of what runs chose, and
    the share that is within a tenth of the best truth.
    """
    settings = stored.config.get("table") or {}
    rows = stored.frame(_REPLAYS, rival=RIVAL, strategies=settings.get("strategies", []))
    half = QUANTILE * rows["se"]
    rows = rows.assign(ahead_lo=rows["ahead"] - half, ahead_hi=rows["ahead"] + half).drop(columns="se")
    rows.loc[rows["strategy"] == RIVAL, ["ahead", "ahead_lo", "ahead_hi"]] = np.nan
    return rows.assign(reads=pd.Series([_reads(row) for row in rows_of(rows)], rows.index, dtype=object))


def _reads(row: dict[str, Any]) -> str:
    """What the declared effect comes to."""
    if row["strategy"] != DECLARED or row["ahead"] is None:
        return ""
    return "ahead" if row["ahead_lo"] > 0 else "behind" if row["ahead_hi"] < 0 else "undecided"


def replay_table(suite: str, data: pd.DataFrame) -> Table:
    """How many of the replayed runs are near the optimum."""
    read_at = int(data["programs"].max())
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        words("strategy"),
        Column("runs", number("runs", "{:.0f}")),
        Column("within a tenth %", lambda r: percent(r["within"], r["within_lo"], r["within_hi"])),
        Column(f"ahead of {RIVAL}, points", _ahead),
        Column("declared: reads", lambda r: r["reads"] or NONE, left=True),
        Column("regret, nats [10th, 90th percentile]", _regret),
        Column("median programs until", lambda r: "not reached" if r["until"] is None else f"{r['until']:.0f}"),
        Column("score of the chosen", number("score", "{:+.4f}")),
        Column("its truth", number("truth", "{:+.4f}")),
        Column(
            "truth within a tenth %",
            lambda r: percent(r["truth_within"], r["truth_within_lo"], r["truth_within_hi"]),
        ),
    ]
    return Table("table_replays", f"{suite}: replayed runs after {read_at} programs, 95 % intervals", data, columns)


def _ahead(row: dict[str, Any]) -> str:
    """`+12.3 [+9.1, +15.5]` in percentage points."""
    if row["ahead"] is None:
        return NONE
    return "{:+.1f} [{:+.1f}, {:+.1f}]".format(*(100 * row[name] for name in ("ahead", "ahead_lo", "ahead_hi")))


def _regret(row: dict[str, Any]) -> str:
    return f"{row['regret']:.4f} [{row['regret_lo']:.4f}, {row['regret_hi']:.4f}]"


def program_rows(stored: StoredSuite) -> pd.DataFrame:
    """Every program with a score or a truth, the best score first: seed, program, what it changes of the baseline,
    score, truth and the reason why it has no score.
    """
    rows = stored.frame(_PROGRAMS)
    says = [describe(TABLE, json.loads(genome)) for genome in rows["genome"]]
    return rows.assign(says=pd.Series(says, rows.index, dtype=object)).drop(columns="genome")


def best_table(suite: str, data: pd.DataFrame) -> Table:
    """The best of each seed."""
    shown = data.groupby("seed").head(BEST)
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        Column("program", number("program", "{:.0f}")),
        words("what it changes", "says"),
        Column("score, nats", number("score", "{:+.4f}")),
        Column("truth, nats", number("truth", "{:+.4f}")),
    ]
    return Table("table_programs", f"{suite}: the {BEST} best scores of the table", shown, columns)


def rank_rows(stored: StoredSuite) -> pd.DataFrame:
    """How well a cheaper measurement ranks the programs as the truth does: one row per seed and measurement, with
    Spearman's correlation over all programs that have both. The loss at a size is of the first training seed.
    """
    programs, losses = stored.frame(_PROGRAMS), stored.frame(_LOSSES)
    found = []
    for seed, own in programs.groupby("seed"):
        truth = own.set_index("program")["truth"].astype(float)
        sizes = losses[losses["seed"] == seed]
        told = {
            f"loss at {size}": part.set_index("program")["value"] for size, part in sizes.groupby("size", sort=False)
        }
        told["score"] = own.set_index("program")["score"]
        for what, values in told.items():
            ranks = spearman(values.astype(float).reindex(truth.index).to_numpy(), truth.to_numpy())
            found.append({"seed": seed, "what": what, "programs": ranks.programs, "rank": ranks.value}
                         | {"lo": ranks.lo, "hi": ranks.hi})  # fmt: skip
    return pd.DataFrame(found, columns=["seed", "what", "programs", "rank", "lo", "hi"])


def rank_table(suite: str, data: pd.DataFrame) -> Table:
    """What one sees of the truth before it is known."""
    columns = [
        Column("seed", number("seed", "{:.0f}")),
        words("measurement", "what"),
        Column("programs", number("programs", "{:.0f}")),
        Column(
            "rank correlation with the truth",
            lambda r: NONE if r["rank"] is None else f"{r['rank']:.3f} [{r['lo']:.3f}, {r['hi']:.3f}]",
        ),
    ]
    return Table("table_ranks", f"{suite}: fidelities of the table, 95 % intervals over programs", data, columns)
