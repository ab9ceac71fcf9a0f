"""Who earns and who starves: the account of every organelle of one run of each condition, where prices are what a suite
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

ORIGINS = {"founder": "#444444", "mutation": "#0072B2", "merge": "#D55E00", "copy": "#009E73"}  # colours

# Balances after each generation in which an account moved, of the lowest complete seed.
_PURSES = """
    WITH shown AS (SELECT min(seed) AS seed FROM complete_seeds WHERE suite = $suite),
    moved AS (
        SELECT run_id, condition, seed, account, generation, sum(amount) AS amount
        FROM ledger JOIN shown USING (seed) WHERE suite = $suite AND account NOT IN ('sun', 'sink')
        GROUP BY ALL
    ),
    purses AS (
        SELECT *, sum(amount) OVER (PARTITION BY run_id, account ORDER BY generation) / 1e6 AS balance FROM moved
    )
    SELECT p.condition, p.seed, o.organelle, o.origin, p.generation, p.balance,
        coalesce(o.died = p.generation, false) AS dies
    FROM purses AS p JOIN organelles AS o ON o.run_id = p.run_id AND o.organelle = TRY_CAST(p.account AS BIGINT)
    JOIN suites ON suites.suite = $suite
    ORDER BY list_position(conditions, p.condition), o.organelle, p.generation
"""


def purse_lines(stored: StoredSuite) -> pd.DataFrame:
    """Balances in energy units by condition, organelle and generation; no rows unless an arm's prices differ by pool,
    sharing or culling. In the generation in which it dies (`dies`) an organelle's account is emptied.
    """
    return stored.frame(_PURSES) if _binds(stored.config) else pd.DataFrame()


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


def purses(lines: pd.DataFrame) -> Figure:
    """Balances over generations, one panel for each condition. `lines`: as `purse_lines`."""
    with matplotlib.rc_context(fname=STYLE):
        conditions = list(dict.fromkeys(lines["condition"]))
        figure = Figure(figsize=(7.0, 1.0 + 1.7 * len(conditions)))
        panels = np.atleast_1d(figure.subplots(len(conditions), 1, sharex=True, sharey=True))
        for panel, condition in zip(panels, conditions, strict=True):
            mine = lines[lines["condition"] == condition]
            for _, own in mine.groupby("organelle"):
                colour = ORIGINS.get(str(own["origin"].iloc[0]), "#999999")
                alive = own[~own["dies"]]
                panel.plot(alive["generation"], alive["balance"], color=colour, linewidth=1.0, alpha=0.8)
                if own["dies"].any() and len(alive):
                    panel.plot(
                        alive["generation"].iloc[-1:], alive["balance"].iloc[-1:], "x", color=colour, markersize=5
                    )
            panel.set_title(condition)
            panel.axhline(0, color="#444444", linewidth=0.8, linestyle="--")
            panel.set_yscale("symlog", linthresh=100)
        panels[-1].set_xlabel("generation")
        panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.supylabel(f"account, energy units (seed {lines['seed'].iloc[0]})", fontsize="medium")
        seen = [origin for origin in ORIGINS if origin in set(lines["origin"])]
        handles = [Line2D([], [], color=ORIGINS[origin], label=origin) for origin in seen]
        handles.append(Line2D([], [], color="#444444", marker="x", linestyle="", markersize=5, label="died"))
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles))
        return figure
