"""The tables of an attention suite's pack. Gains are nats of a held-out token, over softmax attention.

CSV has every row; what people see is drawn together where a suite with many run seeds would fill pages.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, p_equals, p_value, rows_of, words
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.pack.best import best_of
from evolora_core.searches.attention.pack.plotted import judged
from evolora_core.statistics.inference import UNDECIDED

_TABLE = """
    SELECT arm, framework, programs, seeds, score, lo, hi, at_3n, predicted, measured, size, step_time, parameters,
        flops, slope, r2, coalesce(guards, '') AS guards
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
    ORDER BY list_position($sizes::VARCHAR[], p.size), p.seed, fresh.measured, p.arm
"""
_ABLATIONS = """
    SELECT arm, seed, gene, choice, size, seeds, loss, lo, hi
    FROM attention_ablation JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ORDER BY arm, seed, size, loss DESC, gene
"""
_RATES = """
    SELECT size, rate, avg(loss) AS loss, count(*) AS seeds, count(*) FILTER (chosen) AS chosen, count(loss) AS ended
    FROM attention_rate JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    GROUP BY size, rate ORDER BY list_position($sizes::VARCHAR[], size), rate
"""


def arm_rows(stored: StoredSuite) -> pd.DataFrame:
    """The view `attention_table`, with the interval of the measured gain."""
    ends = judged(stored)[["arm", "lo", "hi"]].rename(columns={"lo": "measured_lo", "hi": "measured_hi"})
    return stored.frame(_TABLE).merge(ends, on="arm", how="left")


def arm_table(suite: str, data: pd.DataFrame) -> Table:
    """What each arm gains."""
    columns = [
        words("arm"),
        Column("what it is", _says, left=True),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("measured gain", interval("measured", "measured_lo", "measured_hi")),
        *([Column("predicted", number("predicted", "{:+.3f}"))] if data["predicted"].notna().any() else []),
        Column("score", interval("score", "lo", "hi")),
        Column("predicted at 3 N", number("at_3n", "{:+.3f}")),
        Column("fails", lambda r: r["guards"] or NONE, left=True),
    ]
    size = f" at size {data['size'].iloc[0]}" if len(data) else ""
    return Table("attention_table", f"{suite}: gains over softmax attention{size}, nats", data, columns)


def cost_table(suite: str, data: pd.DataFrame) -> Table:
    """What each arm costs."""
    columns = [
        words("arm"),
        Column("programs tried", lambda r: f"{r['programs']:.0f}" if r["programs"] else NONE),
        Column("FLOPs, relative", number("flops", "{:.2f}")),
        Column("seconds, relative", number("step_time", "{:.2f}")),
        Column("parameters", number("parameters", "{:,.0f}")),
        Column("−slope", lambda r: NONE if r["slope"] is None else f"{-r['slope']:+.3f}"),
        Column("R² of the line", number("r2", "{:.2f}")),
    ]
    size = f" at size {data['size'].iloc[0]}" if len(data) else ""
    return Table("attention_costs", f"{suite}: what each arm costs{size}", data, columns)


def contrast_rows(stored: StoredSuite) -> pd.DataFrame:
    """The view `attention_contrast`."""
    return stored.frame(_CONTRASTS)


def contrast_table(suite: str, data: pd.DataFrame) -> Table:
    """The declared contrasts."""
    columns = [
        words("a"),
        words("b"),
        words("size"),
        Column("seeds", number("seeds", "{:.0f}")),
        Column("a is ahead by, nats", interval("gain", "lo", "hi")),
        Column("p", lambda r: p_value(r["p"])),
        Column("Holm p", lambda r: p_value(r["p_holm"])),
        Column("Cohen's d", number("cohens_d", "{:+.2f}")),
        words("verdict"),
        Column("note", lambda r: r["note"] or NONE, left=True),
    ]
    return Table("contrasts", f"{suite}: declared contrasts at the largest size, 95 % intervals", data, columns)


def takeaway(row: Mapping[str, Any]) -> str:
    """A Markdown sentence about a declared contrast, never stronger than its verdict."""
    a, b = row["a"], row["b"]
    shift = f"{interval('gain', 'lo', 'hi')(dict(row))} nats ({b} − {a})"
    seeds = f"{row['seeds']} run seed{'s' if row['seeds'] > 1 else ''}"
    holm = f"Holm {p_equals(row['p_holm'])}"
    note = f" ({row['note']})" if row["note"] else ""
    if row["verdict"] == UNDECIDED:
        return f"**{a} against {b}, loss at size {row['size']}: undecided.** {shift}, {seeds}, {holm}{note}."
    worse = b if row["verdict"] == a else a
    return f"**{row['verdict']} has a lower loss than {worse} at size {row['size']}.** {shift}, {seeds}, {holm}{note}."


def prediction_rows(stored: StoredSuite) -> pd.DataFrame:
    """Predictions, told before the size was measured, and what came."""
    return stored.frame(_PREDICTIONS, sizes=list(SIZES))


def prediction_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per arm and size: means over the run seeds, and how many predictions held."""
    means = data.groupby(["arm", "size"])[["predicted", "lo", "hi", "measured"]].mean()
    held = data.groupby(["arm", "size"])["inside"].agg(["sum", "count"])

    def mean(name: str) -> Callable[[dict[str, Any]], str]:
        return lambda r: f"{means.loc[(r['arm'], r['size']), name]:.3f}"

    def inside(row: dict[str, Any]) -> str:
        own = held.loc[(row["arm"], row["size"])]
        return f"{int(own['sum'])} of {int(own['count'])}"

    def predicted(row: dict[str, Any]) -> str:
        known = held.loc[(row["arm"], row["size"]), "count"] > 0  # the ends of its interval
        return mean("predicted")(row) + (f" [{mean('lo')(row)}, {mean('hi')(row)}]" if known else "")

    columns = [
        words("arm"),
        words("size"),
        Column("predicted loss", predicted),
        Column("measured loss", mean("measured")),
        Column("inside", inside, left=True),
    ]
    caption = (
        f"{suite}: losses, predicted before they were measured (nats, means over run seeds; in brackets the mean "
        "ends of the run seeds' own 95 % intervals)"
    )
    return Table("predictions", caption, data, columns, key=("arm", "size"))


def ablation_rows(stored: StoredSuite) -> pd.DataFrame:
    """What each gene of a chosen program is worth; `best`: it is that of best_program.py."""
    rows, best = stored.frame(_ABLATIONS), best_of(stored)
    own = (rows["arm"] == best.arm) & (rows["seed"] == best.seed) if best else rows["arm"].isna()
    return rows.assign(best=own.astype(bool))


def ablation_table(suite: str, data: pd.DataFrame) -> Table:
    """The genes of the best program; the CSV has those of all."""
    columns = [
        words("gene"),
        words("choice"),
        words("size"),
        Column("training seeds", number("seeds", "{:.0f}")),
        Column("loss without it, nats more", interval("loss", "lo", "hi")),
    ]
    return Shown("ablations", f"{suite}: the best program without each of its genes", data, columns)


class Shown(Table):
    """A table of which people see the rows that are marked `best`."""

    def cells(self) -> list[list[str]]:
        """What people see, row by row."""
        return [[column.cell(row) for column in self.columns] for row in self.records() if row["best"]]


def rate_rows(stored: StoredSuite) -> pd.DataFrame:
    """Learning rates that were tried. `ended`: run seeds with a loss, where a rate diverged; else there is no such
    column, as in packs that were kept.
    """
    sizes = stored.config.get("sizes", {})
    rows = stored.frame(_RATES, sizes=[*sizes.get("measured", []), *sizes.get("predicted", [])])
    return rows if (rows["ended"] < rows["seeds"]).any() else rows.drop(columns="ended")


def rate_table(suite: str, data: pd.DataFrame) -> Table:
    """One row per size, one column per rate."""
    cells = {(row["size"], row["rate"]): row for row in rows_of(data)}

    def tried(rate: float) -> Callable[[dict[str, Any]], str]:
        def cell(row: dict[str, Any]) -> str:
            own = cells.get((row["size"], rate))
            if own is None:
                return NONE
            if own["loss"] is None:
                return "diverged"
            diverged = own["seeds"] - own.get("ended", own["seeds"])
            return f"{own['loss']:.3f} ({own['chosen']:.0f})" + (f", {diverged:.0f} diverged" if diverged else "")

        return cell

    columns = [
        words("size"),
        *(Column(f"rate {rate:g}", tried(rate)) for rate in sorted(set(data["rate"]))),
    ]
    caption = f"{suite}: loss of the baseline by learning rate, nats (run seeds that chose the rate)"
    return Table("rates", caption, data, columns, key=("size",))


def _says(row: dict[str, Any]) -> str:
    if row["framework"]:
        return f"searched in {row['framework']}"
    known = KNOWN.get(row["arm"])
    return (f"{known.says}; must lose" if known.negative else known.says) if known else "a program of your own"


def interval(name: str, low: str, high: str) -> Callable[[dict[str, Any]], str]:
    """`+0.012 [+0.005, +0.020]`; the value alone where no interval is known."""

    def cell(row: dict[str, Any]) -> str:
        if row[name] is None:
            return NONE
        value = f"{row[name]:+.3f}"
        if row.get(low) is None or row.get(high) is None or row[low] == row[high]:
            return value
        return f"{value} [{row[low]:+.3f}, {row[high]:+.3f}]"

    return cell
