"""The lineage of a page: as a plot that shows one organelle's kin, and as a list in which numbers lead to parents and
children.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from evolora_core.searches.adapters.pack.looks import ORIGINS
from evolora_core.searches.adapters.scope.look import Plot, Rows, menu, once, rows_named

MOST = 2500  # organelles on a page
NOBODY = -1  # the organelle that is picked at first
Ties = dict[str, dict[int, list[int]]]  # run -> organelle -> organelles


def fitting(lives: Rows, parents: Rows) -> tuple[Rows, Rows, list[str]]:
    """The lives and parents of as many whole runs as have at most `MOST` organelles, of one at least; and what is left
    out, in sentences.
    """
    sizes = Counter(row["run"] for row in lives)
    kept: list[str] = []
    count = 0
    for run, size in sizes.items():
        count += size
        if kept and count > MOST:
            break
        kept.append(run)
    shown, ties = ([row for row in rows if row["run"] in kept] for rows in (lives, parents))
    told = f"Lineages are those of {len(kept)} of {len(sizes)} runs; --seed shows those of another seed."
    return shown, ties, [told] if len(kept) < len(sizes) else []


def walks(lives: Rows, parents: Rows) -> list[tuple[str, list[dict[str, Any]]]]:
    """The organelles of each run, each with its parents, its children and a name for its place."""
    found = []
    above, below = _ties(parents)
    for run, rows in groupby(lives, key=lambda row: str(row["run"])):
        own = {int(row["organelle"]): dict(row) for row in rows}
        for number, one in own.items():
            one["place"] = f"{one['condition']}-{one['seed']}-{number}"
            one["parents"] = [own[other] for other in above[run][number] if other in own]
            one["children"] = [own[other] for other in below[run][number] if other in own]
        found.append((run, list(own.values())))
    return found


def lineage_plot(lives: Rows, parents: Rows) -> Plot:
    """Lives as lines from birth to death, tied to parents. `lives`: run, organelle, origin, niche, born, died;
    `parents`: run, child, parent.
    """
    import altair as alt

    rows, ties = _placed(lives, parents)
    picked = alt.selection_point(
        name="kin", fields=["organelle"], on="click", clear=False, toggle=False, value=[{"organelle": NOBODY}],
        bind=alt.binding(input="number", name="organelle "),
    )  # fmt: skip
    lit = f"!isValid(kin.organelle) || +kin.organelle === {NOBODY} || indexof(datum.kin, +kin.organelle) >= 0"
    colour = alt.Color("origin:N", scale=alt.Scale(domain=list(ORIGINS), range=list(ORIGINS.values())))
    opacity = alt.when(lit).then(alt.value(1)).otherwise(alt.value(0.12))
    y = alt.Y("place:Q", axis=None, scale=alt.Scale(reverse=True, zero=False, nice=False, padding=8))
    tooltip: list[Any] = ["organelle:N", "origin:N", "niche:N", "born:Q", "died:Q", "parents:N"]
    lives_of = rows_named("lives").transform_filter("datum.run === run")
    base = lives_of.encode(y=y, color=colour, opacity=opacity, tooltip=tooltip)
    x = alt.X("at:Q", title="generation", axis=alt.Axis(tickMinStep=1, format="d", tickCount=8))
    chart = (
        alt.layer(
            rows_named("ties").transform_filter("datum.run === run")
            .mark_rule(strokeWidth=1).encode(x=x, y=y, y2="parent_place:Q", color=colour, opacity=opacity),
            base.mark_rule(strokeWidth=2.4).encode(x=x, x2="until:Q"),
            base.mark_point(filled=True, size=46).encode(x=x).add_params(picked),
        )
        .add_params(menu("run", "run", once(row["run"] for row in rows)))
        .properties(width="container", height=min(620, 60 + 9 * _most(rows)))
    )  # fmt: skip
    says = (
        "The eldest on top. A click on an organelle's dot, or its number below, shows its ancestors and descendants "
        f"alone; {NOBODY} shows all."
    )
    return Plot("lineage", "Lineage", says, chart, {"lives": rows, "ties": ties})


def _placed(lives: Rows, parents: Rows) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Lives with their place from the top and all their kin, and a tie for each child and parent."""
    above, below = _ties(parents)
    rows, ties = [], []
    for run, grouped in groupby(lives, key=lambda row: str(row["run"])):
        own = list(grouped)
        places = {int(row["organelle"]): place for place, row in enumerate(own)}
        born = Counter(int(row["born"]) for row in own)
        before: Counter[int] = Counter()  # births of one generation stand side by side
        end = 1 + max(max(int(row["born"]), int(row["died"] or 0)) for row in own)
        for row in own:
            number, birth = int(row["organelle"]), int(row["born"])
            at = birth + (0.0 if row["origin"] == "founder" else 0.8 * before[birth] / born[birth])
            before[birth] += 1
            kin = sorted({number} | _reached(number, above[run]) | _reached(number, below[run]))
            placed = {"run": run, "organelle": number, "origin": row["origin"], "at": at, "kin": kin}
            placed["place"] = places[number]
            until = end if row["died"] is None else int(row["died"]) + 0.9
            said = {name: row[name] for name in ("niche", "born", "died")}
            said["parents"] = ", ".join(map(str, above[run][number])) or "none"
            rows.append(placed | said | {"until": until})
            ties += [placed | {"parent_place": places[one]} for one in above[run][number] if one in places]
    return rows, ties


def _ties(parents: Rows) -> tuple[Ties, Ties]:
    """The parents and the children of each organelle, by run."""
    above: Ties = defaultdict(lambda: defaultdict(list))
    below: Ties = defaultdict(lambda: defaultdict(list))
    for row in parents:
        child, parent = int(row["child"]), int(row["parent"])
        if parent not in above[row["run"]][child]:
            above[row["run"]][child].append(parent)
            below[row["run"]][parent].append(child)
    return above, below


def _reached(start: int, ties: Mapping[int, Sequence[int]]) -> set[int]:
    """Everyone on the way up, or down, from one."""
    found: set[int] = set()
    waiting = [start]
    while waiting:
        fresh = set(ties.get(waiting.pop(), ())) - found
        found |= fresh
        waiting += fresh
    return found


def _most(rows: Rows) -> int:
    return max(int(row["place"]) for row in rows) + 1
