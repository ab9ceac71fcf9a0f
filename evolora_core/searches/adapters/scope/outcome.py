"""Plots of what was found: the declared comparisons, and accuracy by family and seed."""

from collections.abc import Mapping
from typing import Any

from evolora_core.language.splits import in_order, title
from evolora_core.searches.adapters.scope.look import (
    ALL,
    BARE,
    BETTER,
    WORSE,
    Plot,
    Rows,
    colours,
    menu,
    once,
    rows_named,
)
from evolora_core.statistics.inference import UNDECIDED


def comparison_plot(declared: Rows) -> Plot:
    """Differences with their intervals. `declared`: split, a, b, routing, diff, lo, hi (shares), verdict."""
    import altair as alt

    rows = [
        {
            "what": _named(row),
            "points": 100 * row["diff"], "low": 100 * row["lo"], "high": 100 * row["hi"], "verdict": row["verdict"],
            "colour": {row["a"]: BETTER, row["b"]: WORSE}.get(row["verdict"], BARE),
            "filled": row["verdict"] != UNDECIDED,
        }
        for row in declared
    ]  # fmt: skip
    axis = alt.Axis(title="difference, points of accuracy", tickCount=6)
    base = rows_named("declared").encode(
        y=alt.Y("what:N", sort=None, axis=None),
        color=alt.Color("colour:N", scale=None),
        tooltip=[
            alt.Tooltip("what:N", title="comparison"), alt.Tooltip("points:Q", format="+.1f"),
            alt.Tooltip("low:Q", format="+.1f"), alt.Tooltip("high:Q", format="+.1f"), "verdict:N",
        ],
    )  # fmt: skip
    shown = base.encode(x=alt.X("points:Q", axis=axis))
    chart = alt.layer(
        rows_named("zero").mark_rule(strokeDash=[4, 4]).encode(x="zero:Q"),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", axis=axis), x2="high:Q"),
        shown.transform_filter("datum.filled").mark_point(filled=True, size=90, opacity=1),
        shown.transform_filter("!datum.filled").mark_point(size=90, opacity=1),
        rows_named("declared")
        .mark_text(align="left", baseline="bottom", dy=-9, fontSize=11.5)
        .encode(x=alt.value(0), y=alt.Y("what:N", sort=None, axis=None), text="what:N"),
    ).properties(width="container", height=46 * len(rows))
    says = (
        "What the first answers more than the second: means over seeds with 95 % intervals. A filled mark has a "
        "verdict, an open one is undecided."
    )
    return Plot("comparisons", "Declared comparisons", says, chart, {"declared": rows, "zero": [{"zero": 0}]})


def accuracy_plot(means: Rows, seeds: Rows) -> Plot:
    """Accuracy by family and condition, of a split and a router to choose. `means`: router, split, family, condition,
    acc, lo, hi, n (seeds); `seeds`: router, split, family, condition, seed, acc.
    """
    import altair as alt

    splits, routers = in_order({str(row["split"]) for row in means}), once(row["router"] for row in means)
    order = [ALL, *sorted({str(row["family"]) for row in means} - {ALL})]
    conditions = once(row["condition"] for row in means)
    most = max(len({row["family"] for row in means if row["split"] == split}) for split in splits)
    chosen = alt.selection_point(name="lit", fields=["condition"], bind="legend")
    y = alt.Y("family:N", sort=order, title=None, axis=alt.Axis(labelExpr="datum.value === '*' ? 'all' : datum.label"))
    offset = alt.YOffset("condition:N", sort=conditions)
    x = alt.X("percent:Q", title="accuracy, %", scale=alt.Scale(domain=[0, 100]), axis=alt.Axis(tickCount=6))
    colour, faded = colours(conditions), alt.when(chosen).then(alt.value(1)).otherwise(alt.value(0.12))
    faint = alt.when(chosen).then(alt.value(0.55)).otherwise(alt.value(0.05))
    here = "datum.split === split && datum.router === router"
    mean = (
        rows_named("means")
        .transform_filter(here)
        .encode(
            y=y, yOffset=offset, color=colour, opacity=faded,
            tooltip=[
                "condition:N", "family:N", alt.Tooltip("percent:Q", format=".1f", title="accuracy, %"),
                alt.Tooltip("low:Q", format=".1f"), alt.Tooltip("high:Q", format=".1f"),
                alt.Tooltip("n:Q", title="seeds"),
            ],
        )
    )  # fmt: skip
    one = (
        rows_named("seeds")
        .transform_filter(here)
        .mark_tick(thickness=1.5, size=9)
        .encode(
            x=x, y=y, yOffset=offset, color=colour, opacity=faint,
            tooltip=["condition:N", "family:N", "seed:N", alt.Tooltip("percent:Q", format=".1f", title="accuracy, %")],
        )
    )  # fmt: skip
    chart = (
        alt.layer(
            one,
            mean.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title="accuracy, %"), x2="high:Q"),
            mean.mark_point(filled=True, size=55).encode(x=x),
        )
        .add_params(
            menu("split", "split", splits, [title(split) for split in splits]),
            menu("router", "router", routers),
            chosen,
        )
        .properties(width="container", height=(13 * len(conditions) + 10) * most)
    )
    says = (
        "Dots are means over seeds with 95 % intervals, ticks the single seeds. A click on a name below shows that "
        "condition alone. Under a router by family, the host answers for families that no arm trained on."
    )
    data = {
        "means": [dict(row, percent=100 * row["acc"], low=100 * row["lo"], high=100 * row["hi"]) for row in means],
        "seeds": [dict(row, percent=100 * row["acc"]) for row in seeds],
    }
    return Plot("accuracy", "Accuracy by family and seed", says, chart, data)


def _named(row: Mapping[str, Any]) -> str:
    routing = "" if row["routing"] == "headline" else f" ({row['routing']})"
    return f"{row['a']} − {row['b']}, {title(row['split'])}{routing}"
