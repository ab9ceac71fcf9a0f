"""The tables of an attention suite's pack. Gains are nats of a held-out token, over softmax attention."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number
from evolora_core.searches.attention.known.registry import KNOWN

_TABLE = """
    SELECT arm, framework, programs, seeds, score, lo, hi, predicted, measured, size, step_time, parameters, flops,
        slope, r2, coalesce(guards, '') AS guards
    FROM attention_table WHERE suite = $suite ORDER BY measured DESC NULLS LAST, score DESC NULLS LAST, arm
"""
_CONTRASTS = """
    SELECT a, b, size, seeds, gain, lo, hi, p, p_holm, cohens_d, verdict, coalesce(note, '') AS note
    FROM attention_contrast WHERE suite = $suite ORDER BY a, b
"""
_PREDICTIONS = """
    WITH fresh AS (
        SELECT condition AS arm, run_seed AS seed, size, avg(loss) AS measured, count(*) AS runs
        FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
        WHERE l.suite = $suite AND stage = 'evaluate' GROUP BY ALL
    )
    SELECT p.arm, p.seed, p.size, p.parameters, p.loss AS predicted, p.loss_lo AS lo, p.loss_hi AS hi, fresh.measured,
        fresh.measured BETWEEN p.loss_lo AND p.loss_hi AS inside
    FROM attention_prediction AS p JOIN fresh USING (arm, seed, size) WHERE p.suite = $suite
    ORDER BY p.seed, fresh.measured, p.arm
"""
_ABLATIONS = """
    SELECT arm, seed, gene, choice, size, seeds, loss, lo, hi
    FROM attention_ablation JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ORDER BY arm, seed, size, loss DESC, gene
"""
_CANDIDATES = """
    WITH runs AS (
        SELECT condition AS arm, seed, count(*) AS proposed, count(*) FILTER (fresh) AS measured,
            count(*) FILTER (fresh AND score IS NULL) AS failed, max(score) AS best,
            first(reason ORDER BY candidate) FILTER (fresh AND score IS NULL) AS first_reason
        FROM candidate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite GROUP BY ALL
    )
    SELECT arm, count(*) AS seeds, avg(proposed) AS proposed, avg(measured) AS measured, avg(failed) AS failed,
        avg(best) AS best,
        coalesce(first(first_reason ORDER BY seed) FILTER (first_reason IS NOT NULL), '') AS first_reason
    FROM runs GROUP BY arm ORDER BY arm
"""
_RATES = """
    SELECT size, rate, avg(loss) AS loss, count(*) AS seeds, count(*) FILTER (chosen) AS chosen
    FROM attention_rate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    GROUP BY size, rate ORDER BY list_position($sizes::VARCHAR[], size), rate
"""


def arm_rows(stored: StoredSuite) -> pd.DataFrame:
    """The view `attention_table`."""
    return stored.frame(_TABLE)


def arm_table(suite: str, data: pd.DataFrame) -> Table:
    """What each arm gains."""
    size = str(data["size"].iloc[0]) if len(data) else ""
    columns = [
        Column("arm", lambda r: r["arm"], left=True),
        Column("what it is", _says, left=True),
        Column("programs", lambda r: f"{r['programs']:.0f}" if r["programs"] else NONE),
        Column("seeds", number("seeds", "{:.0f}")),
        Column(f"gain at {size}, measured", number("measured", "{:+.4f}")),
        Column(f"gain at {size}, predicted", number("predicted", "{:+.4f}")),
        Column("gain predicted at 3 N", _interval("score", "{:+.4f}")),
        Column("seconds, relative", number("step_time", "{:.2f}")),
        Column("FLOPs, relative", number("flops", "{:.2f}")),
        Column("parameters", number("parameters", "{:,.0f}")),
        Column("-slope", lambda r: NONE if r["slope"] is None else f"{-r['slope']:.4f}"),
        Column("fails", lambda r: r["guards"] or NONE, left=True),
    ]
    return Table(
        "attention_table", f"{suite}: every arm; gains over softmax attention in nats, 95 % intervals", data, columns
    )


def contrast_rows(stored: StoredSuite) -> pd.DataFrame:
    """The view `attention_contrast`."""
    return stored.frame(_CONTRASTS)


def contrast_table(suite: str, data: pd.DataFrame) -> Table:
    """The declared contrasts."""
    columns = [
        Column("a", lambda r: r["a"], left=True),
        Column("b", lambda r: r["b"], left=True),
        Column("size", lambda r: r["size"], left=True),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("a is ahead by, nats", _interval("gain", "{:+.4f}")),
        Column("p", number("p", "{:.3g}")),
        Column("Holm p", number("p_holm", "{:.3g}")),
        Column("Cohen's d", number("cohens_d", "{:.2f}")),
        Column("verdict", lambda r: r["verdict"], left=True),
        Column("note", lambda r: r["note"] or NONE, left=True),
    ]
    return Table("contrasts", f"{suite}: declared contrasts at the largest size, 95 % intervals", data, columns)


def prediction_rows(stored: StoredSuite) -> pd.DataFrame:
    """Predictions, told before the size was measured, and what came."""
    return stored.frame(_PREDICTIONS)


def prediction_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per arm, run seed and size."""
    columns = [
        Column("arm", lambda r: r["arm"], left=True),
        Column("seed", number("seed", "{:.0f}")),
        Column("size", lambda r: r["size"], left=True),
        Column("predicted loss, nats", _interval("predicted", "{:.4f}")),
        Column("measured", number("measured", "{:.4f}")),
        Column("inside", lambda r: NONE if r["inside"] is None else "yes" if r["inside"] else "no", left=True),
    ]
    return Table("predictions", f"{suite}: predicted before it was measured, 95 % intervals", data, columns)


def ablation_rows(stored: StoredSuite) -> pd.DataFrame:
    """What each gene of a chosen program is worth."""
    return stored.frame(_ABLATIONS)


def ablation_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per arm, run seed, gene and size."""
    columns = [
        Column("arm", lambda r: r["arm"], left=True),
        Column("seed", number("seed", "{:.0f}")),
        Column("gene", lambda r: r["gene"], left=True),
        Column("choice", lambda r: r["choice"], left=True),
        Column("size", lambda r: r["size"], left=True),
        Column("loss without it, nats more", _interval("loss", "{:+.4f}")),
    ]
    return Table("ablations", f"{suite}: the chosen programs without each of their genes", data, columns)


def candidate_rows(stored: StoredSuite) -> pd.DataFrame:
    """How many programs each search tried."""
    return stored.frame(_CANDIDATES)


def candidate_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per search."""
    columns = [
        Column("arm", lambda r: r["arm"], left=True),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("proposed", number("proposed", "{:.1f}")),
        Column("measured", number("measured", "{:.1f}")),
        Column("refused, pruned or guarded", number("failed", "{:.1f}")),
        Column("best score in the search", number("best", "{:+.4f}")),
        Column("first reason", lambda r: r["first_reason"] or NONE, left=True),
    ]
    return Table("candidates", f"{suite}: programs that were tried, means over seeds", data, columns)


def rate_rows(stored: StoredSuite) -> pd.DataFrame:
    """Learning rates that were tried."""
    sizes = stored.config.get("sizes", {})
    return stored.frame(_RATES, sizes=[*sizes.get("measured", []), *sizes.get("predicted", [])])


def rate_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per size and rate."""
    columns = [
        Column("size", lambda r: r["size"], left=True),
        Column("rate", number("rate", "{:g}")),
        Column("loss of the baseline, nats", number("loss", "{:.4f}")),
        Column("chosen by", lambda r: f"{r['chosen']:.0f} of {r['seeds']:.0f} seeds", left=True),
    ]
    return Table("rates", f"{suite}: learning rates, chosen with the baseline for all", data, columns)


def _says(row: dict[str, Any]) -> str:
    if row["framework"]:
        return f"searched in {row['framework']}"
    known = KNOWN.get(row["arm"])
    return (f"{known.says}; must lose" if known.negative else known.says) if known else "a program of your own"


def _interval(name: str, form: str) -> Callable[[dict[str, Any]], str]:
    """`+0.0123 [+0.0050, +0.0196]`; the value alone where no interval is known."""

    def cell(row: dict[str, Any]) -> str:
        if row[name] is None:
            return NONE
        value = form.format(row[name])
        if row.get("lo") is None or row.get("hi") is None:
            return value
        return f"{value} [{form.format(row['lo'])}, {form.format(row['hi'])}]"

    return cell
