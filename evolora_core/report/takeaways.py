"""Sentences about the declared comparisons, never stronger than their verdicts."""

from collections.abc import Mapping
from typing import Any

from evolora_core.language.splits import where
from evolora_core.report.tables import difference, p_equals
from evolora_core.statistics.inference import MIN_SEEDS, THESE_RUNS_ONLY, UNDECIDED


def takeaway(row: Mapping[str, Any], variant: str = "variant") -> str:
    """A Markdown sentence about a row of the view `comparison`; `variant` is what the search calls a routing."""
    a, b, place = row["a"], row["b"], where(row["split"])
    if row["routing"] != "headline":
        place += f", under the {variant} `{row['routing']}`"
    shift = f"{difference(row['diff'], row['lo'], row['hi'])} points ({a} − {b})"
    seeds = f"{row['seeds']} seed{'s' if row['seeds'] > 1 else ''}"
    if row["verdict"] == UNDECIDED:
        reason = f" ({row['note']})" if row["note"] else ""
        p = f", Holm {p_equals(row['p_holm'])}" if row["seeds"] >= MIN_SEEDS else ""
        return f"**{a} against {b}, {place}: undecided.** {shift}, {seeds}{p}{reason}."
    better, worse = (a, b) if row["verdict"] == a else (b, a)
    if row["seeds"] < MIN_SEEDS:
        each = "the seed's" if row["seeds"] == 1 else f"each of the {row['seeds']} seeds'"
        further = row["note"].removeprefix(THESE_RUNS_ONLY).removeprefix("; ")
        return (
            f"**In these runs only, {better} answers more than {worse} {place}.** {shift}; {each} own paired test "
            f"agrees, which says nothing certain about a further seed{further and f'; {further}'}."
        )
    note = f"; {row['note']}" if row["note"] else ""
    return f"**{better} answers more than {worse} {place}.** {shift}, {seeds}, Holm {p_equals(row['p_holm'])}{note}."
