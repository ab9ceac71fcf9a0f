"""Sentences about the declared comparisons, never stronger than their verdicts."""

from collections.abc import Mapping
from typing import Any

from evolora_core.evaluation.statistics import MIN_SEEDS, UNDECIDED
from evolora_core.report.tables import difference, p_value

WHERE = {
    "holdout_id": "in distribution",
    "holdout_ood": "out of distribution",
    "retention": "on the retention families",
}


def takeaway(row: Mapping[str, Any]) -> str:
    """A few Markdown sentences about a row of the view `comparison`."""
    return _finding(row) + (f" The bare host answers for {row['bare']}." if row.get("bare") else "")


def _finding(row: Mapping[str, Any]) -> str:
    a, b, where = row["a"], row["b"], WHERE[row["split"]]
    if row["routing"] != "headline":
        where += f", under the router `{row['routing']}`"
    shift = f"{difference(row['diff'], row['lo'], row['hi'])} points ({a} − {b})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] > 1 else ''}"
    if row["verdict"] == UNDECIDED:
        reason = f" ({row['note']})" if row["note"] else ""
        return f"**{a} against {b}, {where}: undecided.** {shift}, {seeds}, Holm {_equals(row['p_holm'])}{reason}."
    better, worse = (a, b) if row["verdict"] == a else (b, a)
    if row["seeds"] < MIN_SEEDS:
        each = "the seed's" if row["seeds"] == 1 else f"each of the {row['seeds']} seeds'"
        return (
            f"**In these runs only, {better} answers more than {worse} {where}.** {shift}; {each} own paired test "
            "agrees, which says nothing certain about a further seed."
        )
    note = f"; {row['note']}" if row["note"] else ""
    return f"**{better} answers more than {worse} {where}.** {shift}, {seeds}, Holm {_equals(row['p_holm'])}{note}."


def _equals(p: float) -> str:
    text = p_value(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
