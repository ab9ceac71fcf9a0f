"""`evolora compare`."""

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

SHOWN = 12  # settings in which two suites differ
PERCENT = {"a_acc": "a %", "b_acc": "b %", "diff": "a − b, points", "lo": "from", "hi": "to"}
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
    columns = ("routing", "split", "a", "b", *PERCENT, "p", "p_holm", "seeds", "n", "verdict", "note")
    kept = [{key: row[key] for key in columns} for row in rows]
    show(kept if json else [in_percent(row) for row in kept], json)
    settings = differing(left.settings, right.settings)
    if settings and not json:
        print(f"\n{left.id} and {right.id} differ in {len(settings)} settings:")
        for key, values in list(settings.items())[:SHOWN]:
            print(f"  {key}: {' → '.join(one_line(str(value), WIDTH) for value in values)}")
        if len(settings) > SHOWN:
            print(f"  and {len(settings) - SHOWN} more")


def in_percent(row: dict[str, Any]) -> dict[str, Any]:
    """A row with its shares in percent and its differences in points, as a pack has them."""
    return {
        PERCENT.get(key, key): None if value is None else round(100 * value, 1) if key in PERCENT else value
        for key, value in row.items()
    }


def side(home: Path, suite: "SuiteId") -> "Side":
    """What this home has of a suite. ConfigError where nothing of it was judged here, as where it came in shards, of
    which the store has the rows alone.
    """
    from evolora_core.statistics.two_suites import open_side

    try:
        return open_side(home, suite)
    except ConfigError:
        from evolora_core.store.shards import kept_shards

        if all(folder.parent.name != str(suite) for folder in kept_shards(home)):
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
