"""What an answer costs, and a right one, relative to the bare host on the same items."""

from typing import Any

import numpy as np
import pandas as pd

from evolora_core.engine.rng import stream
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, words
from evolora_core.statistics.inference import hierarchical_bootstrap

# Without a right answer, the arm's or the host's, a right one has no price. The suite's routers are arms of their own,
# and their asking is paid.
_PRICES = """
    WITH own AS (
        SELECT condition, arm, seed, sum(flops) AS flops, count(*) FILTER (WHERE correct) AS correct
        FROM evaluations JOIN complete_seeds USING (suite, seed)
        WHERE suite = $suite AND split = 'holdout_id' GROUP BY ALL
    )
    SELECT own.condition, own.arm, seed, own.flops / host.flops AS answer,
        own.flops / host.flops * nullif(host.correct, 0) / nullif(own.correct, 0) AS correct
    FROM own JOIN own AS host USING (seed) JOIN suites ON suites.suite = $suite
    WHERE host.condition = 'frozen' AND own.condition <> 'frozen'
    ORDER BY list_position(conditions, own.condition), own.arm <> own.condition, own.arm, seed
"""


def price_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per arm; empty where the suite has no `frozen`.

    Columns: condition, arm, seeds, then answer, answer_lo, answer_hi and correct, …: budget FLOPs of an answer, and
    FLOPs of all answers per right one, relative to the host on the same holdout_id items: means over seeds of each
    seed's ratio, with a 95 % bootstrap interval over seeds, which one seed has not.
    """
    rows = []
    for (condition, arm), own in stored.frame(_PRICES).groupby(["condition", "arm"], sort=False):
        row = {"condition": condition, "arm": arm, "seeds": len(own)}
        for measure in ("answer", "correct"):
            ratios = own[measure].to_numpy(dtype=float)
            draw = stream(0, 0, 0, "bootstrap", "price", measure, str(arm))
            lo, hi = hierarchical_bootstrap(list(ratios[:, None]), draw) if len(own) > 1 else (np.nan, np.nan)
            row |= {measure: ratios.mean(), f"{measure}_lo": lo, f"{measure}_hi": hi}
        rows.append(row)
    return pd.DataFrame(rows)


def price_table(suite: str, prices: pd.DataFrame) -> Table:
    """The prices as a table."""
    columns = [
        words("condition"),
        Column("routing", lambda r: r["arm"].partition(":")[2] or "headline", left=True),
        Column("FLOPs / answer, host = 1", lambda r: _ratio(r, "answer")),
        Column("FLOPs / correct answer, host = 1", lambda r: _ratio(r, "correct")),
    ]
    caption = f"{suite}: what an answer in distribution costs, relative to the bare host"
    return Table("prices", caption, prices, columns)


def _ratio(row: dict[str, Any], measure: str) -> str:
    value, lo, hi = (row[key] for key in (measure, f"{measure}_lo", f"{measure}_hi"))
    if value is None:
        return NONE
    return f"{value:.3f}" if lo is None else f"{value:.3f} [{lo:.3f}, {hi:.3f}]"
