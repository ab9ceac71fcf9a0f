"""`evolora compare`."""

from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from flows.cli._app import Json, show

if TYPE_CHECKING:
    from evolora_core.engine.run_index import SuiteId
    from evolora_core.statistics.two_suites import Side

COLUMNS = (
    "routing", "split", "a", "b", "a_acc", "b_acc", "diff", "lo", "hi", "p", "p_holm", "seeds", "n", "verdict", "note",
)  # fmt: skip
SHOWN = 12  # settings in which two suites differ
WIDTH = 40  # characters of one of them


def register(app: App) -> None:
    """Add the command."""
    app.command(compare, help_epilogue="Example: `evolora compare quickstart-1a2b3c4d quickstart-5e6f7a8b`")


def compare(
    *suites: Annotated[
        str, Parameter(name="SUITE", help="Two suites: ids or their beginnings, names (the latest) or files.")
    ],
    a: Annotated[str, Parameter(help="SUITE:CONDITION, with --b in place of the two suites.")] = "",
    b: Annotated[str, Parameter(help="SUITE:CONDITION that it is compared with.")] = "",
    split: Annotated[
        str,
        Parameter(help="The split whose answers are compared; by default that of the first suite's first comparison."),
    ] = "",
    routing: Annotated[str, Parameter(help="The router under which both answer; the headline by default.")] = "",
    json: Json = False,
) -> None:
    """Compare two suites item by item: each condition that both have, or one of each.

    Intervals, p values and verdicts are made as in a pack, of the seeds that both conditions have; Holm's correction is
    over the rows shown. Suites that did not answer the same items, with the same host and decoding, are refused.
    """
    from evolora_core.statistics.two_suites import common_conditions, compare_suites, differing

    home = home_path()
    words = list(suites) if suites else [word.partition(":")[0] for word in (a, b) if word]
    if len(words) != 2 or bool(a) != bool(b) or (a and suites):
        raise ConfigError("compare: name two suites, or one condition of each by --a and --b SUITE:CONDITION")
    left, right = (side(home, named(home, word)) for word in words)
    asked = [(condition(a), condition(b))] if a else []
    if left.id == right.id and all(first == second for first, second in asked):
        word = words[0]
        raise ConfigError(f"{left.id}: named twice; compare two conditions of it by --a {word}:A --b {word}:B")
    pairs = asked or [(own, own) for own in common_conditions(left, right)]
    rows = compare_suites(left, right, pairs, split or first_split(left), routing)
    if json:
        show([{key: row[key] for key in COLUMNS} for row in rows], True)
        return
    names = [rows[0][side] if asked else own.id for side, own in (("a", left), ("b", right))]
    print(f"a: {names[0]}\nb: {names[1]}\nsplit: {rows[0]['split']}, router: {rows[0]['routing']}\n")
    show([in_percent(row) for row in rows], False)
    notes = groupby(sorted((row["note"], condition_of(row["a"])) for row in rows if row["note"]), key=itemgetter(0))
    for note, those in notes:
        print(f"\n{', '.join(own for _, own in those)}: {note}")
    if settings := differing(left.settings, right.settings):
        print(f"\n{left.id} and {right.id} differ in {len(settings)} settings:")
        for key, values in list(settings.items())[:SHOWN]:
            print(f"  {key}: {' → '.join(one_line(str(value), WIDTH) for value in values)}")
        if len(settings) > SHOWN:
            print(f"  and {len(settings) - SHOWN} more")


def in_percent(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people: its shares in percent and its difference in points, as a pack has them."""
    same = condition_of(row["a"]) == condition_of(row["b"])
    return ({"condition": condition_of(row["a"])} if same else {}) | {
        "a %": round(100 * row["a_acc"], 1),
        "b %": round(100 * row["b_acc"], 1),
        "a − b, points": f"{100 * row['diff']:+.1f} [{100 * row['lo']:+.1f}, {100 * row['hi']:+.1f}]",
        "Holm p": row["p_holm"],
        "seeds": row["seeds"],
        "items": row["n"],
        "verdict": {row["a"]: "a", row["b"]: "b"}.get(row["verdict"], row["verdict"]),
    }


def condition_of(name: str) -> str:
    """The condition in the name of a side, SUITE-ID.CONDITION."""
    return name.partition(".")[2]


def side(home: Path, suite: "SuiteId") -> "Side":
    """What this home has of a suite. ConfigError where nothing of it was judged here, as where it came in shards, of
    which the store has the rows alone.
    """
    from evolora_core.statistics.two_suites import open_side

    try:
        return open_side(home, suite)
    except ConfigError:
        from flows._shards import came_in_shards

        if not came_in_shards(home, suite):
            raise
        raise ConfigError(
            f"{suite}: came in shards, and only a suite whose stages were made in {home} is compared; compare it where "
            f"it was run, or read its own comparisons by `evolora pack {suite}`"
        ) from None


def named(home: Path, word: str) -> "SuiteId":
    """The suite of an id, the beginning of one, a name or a file. ConfigError where several ids begin so."""
    from evolora_core.engine.run_index import suites
    from evolora_core.searches.registry import find_suite

    known = suites(home)
    if word not in {own.name for own in known} and not word.endswith((".yaml", ".yml")):
        begun = [own for own in known if str(own).startswith(word)]
        if len(begun) > 1:
            raise ConfigError(f"{word}: several suites begin so: {', '.join(map(str, begun))}; write more of the id")
        if begun:
            return begun[0]
    return find_suite(home, word)


def condition(word: str) -> str:
    """The condition in SUITE:CONDITION."""
    _, colon, own = word.partition(":")
    if not colon or not own:
        raise ConfigError(f"{word}: names no condition; write SUITE:CONDITION, such as quickstart:ecology")
    return own


def first_split(side: "Side") -> str:
    """The split of the suite's first declared comparison."""
    declared = side.settings.get("evaluation", {}).get("comparisons", [])
    if not declared:
        raise ConfigError(f"{side.id} declares no comparison, so that no split is the first; name one by --split")
    return str(declared[0]["split"])
