"""Plots of an ecology over its generations: sums, niches and archive."""

from collections.abc import Mapping
from typing import Any

from evolora_core.searches.adapters.scope.look import Plot, Rows, categories, colours, menu, once, rows_named

MEASURES = {  # column of a generation -> heading, axis, and what a value is multiplied by
    "population": ("Population", "organelles", 1),
    "energy_total": ("Energy of all organelles", "energy units", 1),
    "accuracy": ("Right answers in practice", "right, %", 100),
    "mean_net": ("Net energy of an episode", "reward − cost, units", 1),
}


def generation_plots(rows: Rows) -> list[Plot]:
    """A plot for each measure: thin lines are seeds, thick ones their mean. `rows`: condition, seed, generation, …"""
    return [_generation_plot(rows, column) for column in MEASURES]


def _generation_plot(rows: Rows, column: str) -> Plot:
    import altair as alt

    heading, label, times = MEASURES[column]
    shown = [
        {name: row[name] for name in ("condition", "seed", "generation")} | {"value": times * row[column]}
        for row in rows
        if row[column] is not None
    ]
    x, y = _generations(), alt.Y("value:Q", title=label)
    base = rows_named("shown").encode(color=colours(once(row["condition"] for row in shown)))
    mean = base.transform_aggregate(value="mean(value)", seeds="count()", groupby=["condition", "generation"])
    tooltip = ["condition:N", "generation:Q", alt.Tooltip("value:Q", format=",.4~g"), "seeds:Q"]
    chart = alt.layer(
        base.mark_line(opacity=0.35, strokeWidth=1).encode(x=x, y=y, detail="seed:N"),
        mean.mark_line(point=True, strokeWidth=2).encode(x=x, y=y, tooltip=tooltip),
    ).properties(width="container", height=190)
    return Plot("over-" + column.replace("_", "-"), heading, "", chart, {"shown": shown})


def niche_plot(rows: Rows) -> Plot:
    """Living organelles by niche. `rows`: run, generation, niche, organelles."""
    import altair as alt

    chart = (
        rows_named("niches")
        .transform_filter("datum.run === run")
        .mark_bar()
        .encode(
            x=alt.X("generation:O", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y("organelles:Q", title="living organelles", axis=alt.Axis(tickMinStep=1, format="d")),
            color=categories("niche", sorted({str(row["niche"]) for row in rows})),
            tooltip=["niche:N", "generation:Q", "organelles:Q"],
        )
        .add_params(menu("run", "run", once(row["run"] for row in rows)))
        .properties(width="container", height=220)
    )
    return Plot(
        "niches", "Niches", "Who lives after a generation, by the family that it was born for.", chart, {"niches": rows}
    )


def archive_plot(rows: Rows) -> Plot:
    """The archive as a grid. `rows`: run, generation, family, depth, cost_bin, organelle, objective."""
    import altair as alt

    generations = sorted({int(row["generation"]) for row in rows})
    shown = [dict(row, cell=f"{row['family']}, {row['depth']}") for row in rows]
    cells = once(row["cell"] for row in sorted(shown, key=_cell))
    base = (
        rows_named("cells")
        .transform_filter("datum.run === run && datum.generation === generation")
        .encode(
            x=alt.X("cost_bin:O", title="cost of an answer", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("cell:N", title=None, sort=cells, axis=alt.Axis(labelLimit=170)),
            tooltip=[
                "cell:N", "cost_bin:O", "organelle:N", alt.Tooltip("objective:Q", format=".3f"),
            ],
        )
    )  # fmt: skip
    dark = alt.datum.objective > (min(row["objective"] for row in rows) + max(row["objective"] for row in rows)) / 2
    chart = (
        alt.layer(
            base.mark_rect(stroke="#8885", strokeWidth=1).encode(
                color=alt.Color(
                    "objective:Q",
                    scale=alt.Scale(scheme="blues"),
                    legend=alt.Legend(title="objective", gradientLength=110),
                )
            ),
            base.mark_text(fontSize=11).encode(
                text="organelle:N", color=alt.when(dark).then(alt.value("#ffffff")).otherwise(alt.value("#1d2430"))
            ),
        )
        .add_params(
            menu("run", "run", once(row["run"] for row in rows)),
            menu("generation", "generation", generations, start=generations[-1]),
        )
        .properties(width="container", height=20 * len(cells))
    )
    says = "The best organelle of each cell by its number, and its objective. Answers are cheap on the left."
    return Plot("archive", "Archive", says, chart, {"cells": shown})


def _cell(row: Mapping[str, Any]) -> tuple[str, int]:
    depths = ("short", "medium", "long")
    return row["family"], depths.index(row["depth"]) if row["depth"] in depths else len(depths)


def _generations() -> Any:
    import altair as alt

    return alt.X("generation:Q", axis=alt.Axis(tickMinStep=1, format="d", grid=False, tickCount=8))
