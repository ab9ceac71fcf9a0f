"""Plots of learning: what practice finds, the losses and rewards of rivals, and accuracy by budget."""

from typing import Any

from evolora_core.searches.adapters.scope.look import Plot, Rows, categories, colours, menu, once, rows_named

STEPS = {  # tables of rivals: the value of a step, what it is called, and the plot's heading
    "sft_steps": ("loss", "loss, nats per token", "Loss of fine-tuning"),
    "es_steps": ("reward", "share of right answers", "Reward of evolution strategies"),
    "grpo_steps": ("reward", "share of right answers", "Reward of GRPO"),
}


def found_plot(rows: Rows) -> Plot:
    """Right first answers in practice, by family. `rows`: condition, seed, family, generation, right_first (share)."""
    import altair as alt

    shown = [dict(row, percent=100 * row["right_first"]) for row in rows]
    conditions = once(row["condition"] for row in rows)
    first = "ecology" if "ecology" in conditions else conditions[0]
    colour = categories("family", sorted({str(row["family"]) for row in rows}))
    base = rows_named("practice").transform_filter("datum.condition === condition")
    x, y = _x("generation"), alt.Y("percent:Q", title="right at the first answer, %", scale=alt.Scale(domain=[0, 100]))
    chart = (
        alt.layer(
            base.mark_line(opacity=0.3, strokeWidth=1).encode(x=x, y=y, color=colour, detail="seed:N"),
            base.transform_aggregate(percent="mean(percent)", groupby=["family", "generation"])
            .mark_line(point=True)
            .encode(
                x=x, y=y, color=colour, tooltip=["family:N", "generation:Q", alt.Tooltip("percent:Q", format=".1f")]
            ),
        )
        .add_params(menu("condition", "condition", conditions, start=first))
        .properties(width="container", height=260)
    )
    says = "Of the items practised in a generation, the share right at the first answer. Thin lines are single seeds."
    return Plot("practice", "What practice finds", says, chart, {"practice": shown})


def step_plot(table: str, rows: Rows) -> Plot:
    """A line for each adapter over its learning steps. `rows`: condition, seed, adapter, step, value."""
    import altair as alt

    _, label, heading = STEPS[table]
    chart = (
        rows_named("steps")
        .mark_line(strokeWidth=1.4, opacity=0.75)
        .encode(
            x=_x("step"), y=alt.Y("value:Q", title=label), color=colours(once(row["condition"] for row in rows)),
            detail=["seed:N", "adapter:N"],
            tooltip=["condition:N", "seed:N", "adapter:N", "step:Q", alt.Tooltip("value:Q", format=".3f")],
        )
        .properties(width="container", height=260)
    )  # fmt: skip
    return Plot(
        table.replace("_", "-"),
        heading,
        "A line is an adapter of a seed; long runs are means of neighbouring steps.",
        chart,
        {"steps": rows},
    )


def budget_plot(rows: Rows) -> Plot:
    """Accuracy in distribution over the FLOPs that an arm spent. `rows`: as of `pack/curves.py`, without the host."""
    import altair as alt

    points = [dict(row, percent=100 * row["id_acc"], low=100 * row["id_lo"], high=100 * row["id_hi"]) for row in rows]
    for point in points:
        point["condition"], point["arm"] = point["curve"], point["condition"]
    base = rows_named("points").encode(
        x=alt.X(
            "total_flops:Q",
            scale=alt.Scale(type="log", nice=False, padding=12),
            title="FLOPs, mean over seeds",
            axis=alt.Axis(format="~e", tickCount=4),
        ),
        color=colours(once(point["condition"] for point in points)),
    )
    y = alt.Y("percent:Q", title="accuracy in distribution, %", scale=alt.Scale(zero=False))
    tooltip = ["arm:N", "budget:Q", alt.Tooltip("total_flops:Q", format=".3g"), alt.Tooltip("percent:Q", format=".1f")]
    chart = alt.layer(
        base.mark_line().encode(y=y),
        base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q", title="accuracy in distribution, %"), y2="high:Q"),
        base.mark_point(filled=True, size=60, opacity=1).encode(y=y, tooltip=tooltip),
    ).properties(width="container", height=260)
    return Plot("budget", "Accuracy by budget", "Means over seeds with 95 % intervals.", chart, {"points": points})


def _x(field: str) -> Any:
    import altair as alt

    return alt.X(f"{field}:Q", title=field, axis=alt.Axis(tickMinStep=1, format="d", grid=False, tickCount=8))
