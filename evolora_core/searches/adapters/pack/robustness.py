"""Robustness: accuracy in every form of the prompts, as table and plot."""

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evolora_core.engine.rng import stream
from evolora_core.report.plots import STYLE
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import NONE, Column, Table, difference, number, percent, words
from evolora_core.searches.adapters.evaluation.forms import FORMS, PLAIN, SPLIT
from evolora_core.searches.adapters.pack.looks import draw_intervals, legend_below
from evolora_core.statistics.inference import RESAMPLES, accuracy_interval, hierarchical_bootstrap

WORST = "worst"

# `half`: every other item of a seed, by task id, which sorts by family and depth: the same items for every condition.
_ASKED = """
    WITH placed AS (
        SELECT condition, seed, form, task_id, correct::INT AS correct, (organelle = -1)::INT AS bare,
            row_number() OVER (PARTITION BY condition, seed, form ORDER BY task_id) % 2 AS half
        FROM variants JOIN complete_seeds USING (suite, seed) WHERE suite = $suite
    ), named AS (
        SELECT seed, task_id, item_key(any_value(prompt), task_id) AS item
        FROM evaluations WHERE suite = $suite AND split = $split GROUP BY seed, task_id
    )
    SELECT v.condition, seed, v.form, v.half, v.correct, v.bare, v.correct - p.correct AS change, item
    FROM placed AS v JOIN placed AS p USING (condition, seed, task_id) JOIN named USING (seed, task_id)
        JOIN suites ON suites.suite = $suite
    WHERE p.form = $plain
    ORDER BY list_position(conditions, v.condition), list_position($forms, v.form), seed, task_id
"""


def robustness_frame(stored: StoredSuite) -> pd.DataFrame:
    """One row per condition and form, and one more, `worst`: empty where the suite does not ask for other forms.

    Columns: condition, form, chosen (of `worst`: which form it is), seeds, n and left_out (items of all seeds), bare
    (share that the bare host answered), acc, lo, hi, change, change_lo, change_hi: shares, means over seeds, with 95 %
    intervals; `change` is to the plain form on the same items. The worst form is the one with the lowest change on one
    half of the items; its row is of the other half. No numbers where a form was asked of no item of some seed.
    """
    asked = stored.frame(_ASKED, forms=list(FORMS), plain=PLAIN, split=SPLIT)
    if crossed := SPLIT in stored.splits_of_shared_items:  # an item is in the same half with every seed
        asked["half"] = pd.factorize(asked["item"])[0] % 2
    resamples = stored.config["evaluation"].get("bootstrap", RESAMPLES)
    rows = []
    for condition, own in asked.groupby("condition", sort=False):
        for form, items in own.groupby("form", sort=False):
            rows.append({"condition": condition, "form": form, "chosen": "", **_measured(items, resamples, crossed)})
        if worst := _worst(own[own["half"] == 0]):
            items = own[(own["half"] == 1) & (own["form"] == worst)]
            rows.append(
                {"condition": condition, "form": WORST, "chosen": worst, **_measured(items, resamples, crossed)}
            )
    return pd.DataFrame(rows)


def _worst(items: pd.DataFrame) -> str:
    """The form in which least more is right than in the plain one, the first among equals; "" if there is none."""
    changes = (
        items.dropna(subset="correct")
        .groupby(["form", "seed"], sort=False)["change"]
        .mean()
        .groupby("form", sort=False)
        .mean()
    )
    changes = changes.drop(PLAIN, errors="ignore")
    return "" if changes.empty else str(changes.idxmin())


def _measured(items: pd.DataFrame, resamples: int, crossed: bool) -> dict[str, Any]:
    """Accuracy, and change to the plain form, of the items that were asked; `crossed`: seeds share items."""
    asked = items.dropna(subset="correct")
    seeds = items["seed"].nunique()
    found: dict[str, Any] = {"seeds": seeds, "n": len(asked), "left_out": len(items) - len(asked)}
    found["bare"] = asked["bare"].mean() if len(asked) else np.nan
    names = ("acc", "lo", "hi", "change", "change_lo", "change_hi")
    if asked["seed"].nunique() < seeds:
        return found | dict.fromkeys(names, np.nan)
    by_seed = [own for _, own in asked.groupby("seed")]
    outcomes, changes = ([own[name].to_numpy(dtype=np.float64) for own in by_seed] for name in ("correct", "change"))
    named = [own["item"].to_numpy(dtype=str) for own in by_seed] if crossed else None
    # The draws of the split's accuracy, so that the plain form has the interval that it has elsewhere.
    own = accuracy_interval(outcomes, stream(0, 0, 0, "bootstrap", "accuracy", SPLIT, "*"), resamples, named)
    paired = hierarchical_bootstrap(changes, stream(0, 0, 0, "bootstrap", "variants"), resamples, items=named)
    means = [float(np.mean([values.mean() for values in parts])) for parts in (outcomes, changes)]
    return found | dict(zip(names, (means[0], *own, means[1], *paired), strict=True))


def robustness_table(suite: str, data: pd.DataFrame) -> Table:
    """The forms as a table."""
    columns = [
        words("condition"),
        Column("form", _form, left=True),
        Column("items, all seeds", number("n", "{:d}")),
        Column("left out", number("left_out", "{:d}")),
        Column("accuracy %", lambda r: percent(r["acc"], r["lo"], r["hi"])),
        Column("change to plain, points", _change),
        Column("bare host asked %", lambda r: percent(r["bare"])),
    ]
    caption = f"{suite}: accuracy in distribution by form of the prompt, 95 % intervals in brackets"
    return Table("robustness", caption, data, columns)


def _form(row: Mapping[str, Any]) -> str:
    return f"{WORST}: {row['chosen']}, on the other half" if row["form"] == WORST else row["form"]


def _change(row: Mapping[str, Any]) -> str:
    if row["form"] == PLAIN or row["change"] is None:
        return NONE
    return difference(row["change"], row["change_lo"], row["change_hi"])


def robustness_points(stored: StoredSuite) -> pd.DataFrame:
    """What the plot shows: condition, form, change, change_lo, change_hi of every form but the plain one."""
    found = robustness_frame(stored)
    if found.empty:
        return found
    shown = ~found["form"].isin([PLAIN, WORST]) & found["change"].notna()
    return found.loc[shown, ["condition", "form", "change", "change_lo", "change_hi"]].reset_index(drop=True)


def changes_by_form(points: pd.DataFrame) -> Figure:
    """Change of accuracy to the plain form with 95 % intervals, forms as rows. `points`: as `robustness_points`."""
    with matplotlib.rc_context(fname=STYLE):
        forms, conditions = (list(dict.fromkeys(points[column])) for column in ("form", "condition"))
        figure = Figure(figsize=(7.0, 1.6 + (0.12 * len(conditions) + 0.14) * len(forms)))
        panel = figure.subplots()
        panel.axvline(0, color="#444444", linewidth=0.8, linestyle="--")
        draw_intervals(panel, points, conditions, forms, "form", ("change", "change_lo", "change_hi"))
        panel.set(xlabel="change to the plain form, points (95 % intervals)")
        legend_below(figure, conditions, marker=True)
        return figure
