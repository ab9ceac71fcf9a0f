"""How well cheap measurements rank programs as dear ones do.

Of mechanisms, what is measured before the end (sizes, seeds and texts of the selection) is held against their gain at
the largest size with fresh seeds and texts. Correlations are taken within a run seed. Candidates of a search are
measured at one size, so they say nothing here; the exhaustive table has small programs at every size.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, number, words
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.pack.plotted import paired
from evolora_core.searches.attention.scaling.intervals import of_crossed
from evolora_core.searches.attention.scaling.ranks import RankCorrelation, spearman

_CHEAP = """
    WITH own AS (
        SELECT condition AS arm, run_seed, l.seed, size, loss
        FROM attention_losses AS l JOIN complete_seeds AS done ON done.suite = l.suite AND done.seed = l.run_seed
        WHERE l.suite = $suite AND split = 'selection' AND stage = 'measure'
    )
    SELECT own.arm, run_seed, size, avg(plain.loss - own.loss) AS gain
    FROM own JOIN own AS plain USING (run_seed, seed, size)
    WHERE plain.arm = $baseline AND own.arm <> $baseline GROUP BY ALL
    UNION ALL
    SELECT arm, seed, 'predicted', arg_max(gain, parameters) FROM attention_prediction
    JOIN complete_seeds USING (suite, seed)
    WHERE suite = $suite AND arm IN (SELECT arm FROM own) AND arm <> $baseline GROUP BY arm, seed
    ORDER BY ALL
"""


def rank_rows(stored: StoredSuite) -> pd.DataFrame:
    """One row per group of programs and cheap measurement: run_seeds, programs (mean), rank correlation, lo, hi."""
    order = [*stored.config["sizes"]["measured"], "predicted"]
    return pd.DataFrame(
        _mechanisms(stored, order), columns=["what", "cheap", "dear", "run_seeds", "programs", "rank", "lo", "hi"]
    )


def _mechanisms(stored: StoredSuite, order: list[str]) -> Iterator[dict[str, Any]]:
    cheap, gains = stored.frame(_CHEAP, baseline=BASELINE), paired(stored)
    if cheap.empty or gains.empty:
        return
    largest = gains.sort_values("parameters")["size"].iloc[-1]
    dear = gains[gains["size"] == largest].groupby(["arm", "run_seed"])["gain"].mean().rename("dear")
    both = cheap.join(dear, on=["arm", "run_seed"])
    losers = [name for name, known in KNOWN.items() if known.negative]
    groups = {"mechanisms": both, "those that need not lose": both[~both["arm"].isin(losers)]}
    for what, own in groups.items():
        for name in order:
            yield from _row(what, name, f"at {largest}, fresh", own[own["size"] == name])


def _row(what: str, cheap: str, dear: str, rows: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """The mean over run seeds with a t interval, or the one that there is with Fisher's; nothing without programs."""
    found: list[RankCorrelation] = []
    for _, own in rows.groupby("run_seed"):
        ranks = spearman(own["gain"].to_numpy(float), own["dear"].to_numpy(float))
        if np.isfinite(ranks.value):
            found.append(ranks)
    if not found:
        return
    mean = of_crossed(np.array([own.value for own in found]))
    lo, hi = (max(-1.0, mean.lo), min(1.0, mean.hi)) if len(found) > 1 else (found[0].lo, found[0].hi)
    if len({own.value for own in found}) == 1 < len(found):
        lo = hi = float("nan")  # every run the same, as three programs often are: that is no interval of zero width
    programs = float(np.mean([own.programs for own in found]))
    says = "predicted gain" if cheap == "predicted" else f"gain at {cheap}"
    yield {
        "what": what, "cheap": says, "dear": dear, "run_seeds": len(found), "programs": programs, "rank": mean.value,
        "lo": lo, "hi": hi,
    }  # fmt: skip


def rank_table(suite: str, data: pd.DataFrame) -> Table:
    """What a cheap measurement is worth."""
    columns = [
        words("programs", "what"),
        words("cheap"),
        words("dear: gain", "dear"),
        Column("run seeds", number("run_seeds", "{:.0f}")),
        Column("how many", number("programs", "{:.1f}")),
        Column(
            "rank correlation",
            lambda r: (
                NONE
                if r["rank"] is None
                else f"{r['rank']:.2f}" + ("" if r["lo"] is None else f" [{r['lo']:.2f}, {r['hi']:.2f}]")
            ),
        ),
    ]
    return Table("fidelities", f"{suite}: what cheap measurements say of dear ones, 95 % intervals", data, columns)
