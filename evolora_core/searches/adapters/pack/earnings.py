"""Who earns and who starves: what every organelle of one run of each condition earns, where prices are what a suite
varies.
"""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from evolora_core.report.plots import STYLE
from evolora_core.report.stored import StoredSuite
from evolora_core.searches.adapters.pack.looks import ORIGINS

# What each organelle was paid in a generation, less what its answers and its learning steps cost, of the lowest
# complete seed.
_EARNINGS = """
    WITH shown AS (SELECT min(seed) AS seed FROM complete_seeds WHERE suite = $suite),
    earned AS (
        SELECT run_id, condition, seed, TRY_CAST(account AS BIGINT) AS organelle, generation,
            sum(amount) / 1e6 AS earned
        FROM ledger JOIN shown USING (seed)
        WHERE suite = $suite AND entry IN ('reward', 'answer', 'update') AND TRY_CAST(account AS BIGINT) IS NOT NULL
        GROUP BY ALL
    )
    SELECT e.condition, e.seed, o.organelle, o.origin, e.generation, e.earned,
        o.died IS NOT NULL AND e.generation = max(e.generation) OVER (PARTITION BY e.run_id, o.organelle) AS dies
    FROM earned AS e JOIN organelles AS o USING (run_id, organelle) JOIN suites ON suites.suite = $suite
    ORDER BY list_position(conditions, e.condition), o.organelle, e.generation
"""


def earning_lines(stored: StoredSuite) -> pd.DataFrame:
    """Earnings in energy units by condition, organelle and generation; no rows unless an arm's prices differ by pool,
    sharing or culling. `dies`: it is the last generation of one that died.
    """
    return stored.frame(_EARNINGS) if _binds(stored.config) else pd.DataFrame()


def _binds(config: Mapping[str, Any]) -> bool:
    """Whether some arm has another economy than `each`, without a pool, `poorest`."""
    sections = [config.get("ecology", {}), *(arm.get("changes", {}) for arm in config.get("arms", {}).values())]
    plain = {"pool": None, "reward": "each", "cull": "poorest"}
    return any(
        economy.get(key, usual) != usual
        for section in sections
        for economy in [section.get("economy", {})]
        for key, usual in plain.items()
    )


def earnings(lines: pd.DataFrame) -> Figure:
    """Earnings over generations, one panel for each condition. `lines`: as `earning_lines`."""
    with matplotlib.rc_context(fname=STYLE):
        conditions = list(dict.fromkeys(lines["condition"]))
        figure = Figure(figsize=(7.0, 1.0 + 1.7 * len(conditions)))
        panels = np.atleast_1d(figure.subplots(len(conditions), 1, sharex=True, sharey=True))
        for panel, condition in zip(panels, conditions, strict=True):
            mine = lines[lines["condition"] == condition]
            for _, own in mine.groupby("organelle"):
                colour = ORIGINS.get(str(own["origin"].iloc[0]), "#999999")
                panel.plot(own["generation"], own["earned"], color=colour, linewidth=1.0, alpha=0.8)
                last = own[own["dies"]]
                panel.plot(last["generation"], last["earned"], "x", color=colour, markersize=5)
            panel.set_title(condition)
            panel.axhline(0, color="#444444", linewidth=0.8, linestyle="--")
            panel.set_yscale("symlog", linthresh=100)
        panels[-1].set_xlabel("generation")
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.supylabel(
            f"earned less spent in a generation, energy units (seed {lines['seed'].iloc[0]})", fontsize="medium"
        )
        seen = [origin for origin in ORIGINS if origin in set(lines["origin"])]
        handles = [Line2D([], [], color=ORIGINS[origin], label=origin) for origin in seen]
        handles.append(Line2D([], [], color="#444444", marker="x", linestyle="", markersize=5, label="died"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return figure
