"""`evolora store rebuild`, `evolora store shard` and `evolora store merge`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError, StoreError


def register(app: App) -> None:
    """Add the commands."""
    store = App(name="store", help="The DuckDB file that holds every number.", help_epilogue="")
    app.command(store)
    store.command(rebuild, help_epilogue="Example: `evolora store rebuild`")
    store.command(shard, help_epilogue="Example: `evolora store shard regimes --only s2560 --out shards/regimes-s2560`")
    store.command(merge, help_epilogue="Example: `evolora store merge shards/*`, then `evolora pack regimes`")


def rebuild() -> None:
    """Make the DuckDB file anew from the run folders, and from the shards that were merged."""
    from evolora_core.store import rebuild as make_anew

    made = make_anew(prepare_home())
    for part, reason in made.left_out:
        print(f"left out: {part.run_id} {part.stage}: {reason}", file=sys.stderr)
    shards = f", and {made.merged} stages of merged shards" if made.merged else ""
    print(f"recorded {len(made.recorded)} stages, {made.rows} rows{shards}")
    if made.left_out:
        kept = f"; the store before is {made.before}" if made.before else ""
        raise StoreError(f"{len(made.left_out)} of them are left out; `evolora retry SUITE` makes stages anew{kept}")


def shard(
    suite: Annotated[str, Parameter(help="Name, id or file of a suite.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder to write, small enough to be committed.")],
    only: Annotated[
        list[str] | None,
        Parameter(help="A seed (s2560) or a run (ecology.s2560); may be repeated. By default all that the store has."),
    ] = None,
) -> None:
    """Write what this store has of a suite as a folder of small files, to be joined with others by `evolora store
    merge`.
    """
    from evolora_core.searches.registry import find_suite
    from evolora_core.store import write_shard
    from flows._preflight import asked_suite
    from flows.cli.run import expand_seeds

    home = prepare_home()
    found = str(find_suite(home, suite))
    runs = None
    if only:
        config, runs = asked_suite(found), []
        for word in expand_seeds(config, only):
            condition, _, seed = word.rpartition(".s")
            if not condition or not seed.isdecimal():
                raise ConfigError(f"{word}: not a seed or run; name one like s2560 or ecology.s2560")
            if condition not in config.conditions:
                raise ConfigError(f"{word}: {config.name} has no such condition; it has {', '.join(config.conditions)}")
            runs.append((condition, int(seed)))
    written = write_shard(home, found, out, runs)
    size = sum(file.stat().st_size for file in out.iterdir())
    conditions = dict.fromkeys(condition for condition, _ in written)
    runs_of_each = (f"{own} {_spans([seed for name, seed in written if name == own])}" for own in conditions)
    print(f"{out}: {found}: {', '.join(runs_of_each)}; {size / 1000:.0f} kB")


def _spans(seeds: Iterable[int]) -> str:
    """Seeds in few words: `0-3 7`."""
    spans: list[list[int]] = []
    for seed in sorted(seeds):
        if spans and seed == spans[-1][1] + 1:
            spans[-1][1] = seed
        else:
            spans.append([seed, seed])
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def merge(
    folders: Annotated[list[Path], Parameter(help="Folders that `evolora store shard` wrote.")],
    /,
) -> None:
    """Join shards, from several runs and computers, into this store, all or none. Refuses what was not made alike, and
    names the difference. The suite's comparisons are then computed from all seeds that are complete.
    """
    from evolora_core.store import merge as merge_shards

    home = prepare_home()
    if not folders:
        raise ConfigError("no folder is given; name those that `evolora store shard` wrote")
    if missing := [folder for folder in folders if not folder.is_dir()]:
        raise ConfigError(f"{missing[0]}: there is no such folder; name those that `evolora store shard` wrote")
    from flows._shards import check_settings, compare_merged

    for folder in folders:
        check_settings(folder)
    merged = merge_shards(home, folders)
    print(f"{merged.stages} stages came, {merged.known} were there already")
    for suite in merged.suites:
        seeds = compare_merged(home, suite)
        words = f"complete seeds: {_spans(seeds)}; `evolora pack {suite}` packs them"
        print(f"{suite}: {words if seeds else 'no seed is complete in every condition yet'}")
