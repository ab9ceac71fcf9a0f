"""`evolora calibrate`."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path
from evolora_core.errors import ConfigError
from flows.cli._app import Json, Settings, show
from flows.cli.run import make, measuring

if TYPE_CHECKING:
    from evolora_core.searches.base import AnySearch, Experiment
    from evolora_core.searches.estimating import Estimate

Row = dict[str, Any]


def register(app: App) -> None:
    """Add the command."""
    app.command(
        calibrate, help_epilogue="Example: `evolora calibrate configs/suites/quickstart.yaml --set 'seeds=[0]'`"
    )


def calibrate(
    suite: Annotated[Path, Parameter(help="A suite file.")],
    /,
    *,
    settings: Settings = None,
    json: Json = False,
) -> None:
    """Run the first stages of a suite (data, prices, trials, first generations), show what they found, and estimate
    the rest. `evolora run` with the same settings goes on from there.
    """
    from evolora_core.engine.run_index import read_packs
    from evolora_core.searches.registry import get_search, load_experiment, suite_id

    config = load_experiment(suite, settings or [])
    search = get_search(config.search)
    if not search.calibration:
        raise ConfigError(f"{suite}: the search {config.search} has nothing to calibrate; use `evolora run`")
    packs = read_packs(home_path(), suite_id(config)) or Path("packs")  # where a run of it puts its pack
    made = make(config, packs, calibration_steps(config))
    rest = _rest(made.home, config)
    seen, left = found(made.home, made.suite, search, config.seeds), to_go(rest, config.processes)
    if json:
        show([*seen, *left], True)
        return
    tell(seen, left)
    if rest.expected is None:
        print(f"\nThe search {config.search} does not foretell what its stages take; a run tells it as it goes.")
    elif rest.left_out:
        print(f"\n{rest.left_out}")


def tell(seen: Sequence[Row], left: Sequence[Row]) -> None:
    """Print for people what `found` and `to_go` gave: a table for each stage of a condition, and one of what is left.
    Numbers come first, so that the words about them may take more than one line.
    """
    for (condition, stage), rows in groupby(seen, key=itemgetter("condition", "stage")):
        print(f"{condition}, {stage}:")
        show([_numbers_first(row) for row in rows], False)
        print()
    if left:
        show([{key: row[key] for key in ("condition", "stage", "what", "value", "note")} for row in left], False)


def _numbers_first(row: Row) -> Row:
    said = f"{row['what']} ({row['note']})" if row["note"] else row["what"]
    return {key: row[key] for key in ("value", "lowest", "highest", "seeds")} | {"what": said}


def calibration_steps(config: "Experiment") -> list[str]:
    """The names of the stages of a suite that its search calls calibration."""
    from evolora_core.engine.stage import Suite
    from evolora_core.searches.registry import get_search, suite_id

    search = get_search(config.search)
    return [step.name for step in search.plan(Suite(config, suite_id(config))) if step.stage.name in search.calibration]


def found(home: Path, suite: str, search: "AnySearch", seeds: Sequence[int]) -> list[Row]:
    """What calibration found, by condition, stage and thing: its mean over the seeds, the lowest and the highest.

    What was found on the suite's own seeds and on others too, such as those of tuning, is shown of its own alone.
    """
    from evolora_core.store import query

    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in query(home, f"FROM {search.calibrated} WHERE suite = ?", [suite]).records():
        groups.setdefault((row["condition"], row["stage"], row["what"]), []).append(row)
    kinds = {kind: place for place, kind in enumerate(search.calibration)}

    def place(key: tuple[str, str, str]) -> tuple[int, str, str, str]:
        """In the order of the kinds; `price-hot` is a `price`."""
        condition, stage, what = key
        return kinds.get(stage.partition("-")[0], len(kinds)), stage, condition, what

    return [
        _row(*key, [own for own in groups[key] if own["seed"] in seeds] or groups[key])
        for key in sorted(groups, key=place)
    ]


def _row(condition: str, stage: str, what: str, rows: Sequence[Row]) -> Row:
    values = [row["value"] for row in rows if row["value"] is not None]
    return {
        "condition": condition,
        "stage": stage,
        "what": what,
        "value": fmean(values) if values else None,
        "lowest": min(values, default=None),
        "highest": max(values, default=None),
        "seeds": len({row["seed"] for row in rows}),
        "note": rows[0]["note"],
    }


def _rest(home: Path, config: "Experiment") -> "Estimate":
    """What a run would still take."""
    from evolora_core.engine.stage import Suite
    from evolora_core.searches.estimating import estimate
    from evolora_core.searches.registry import suite_id
    from flows._preflight import use_host

    with measuring("estimate of what the rest takes") as report:
        return estimate(home, Suite(config, suite_id(config), use_host(config)), report)


def to_go(rest: "Estimate", processes: int) -> list[Row]:
    """The hours of the stages that are left, by condition, and of all of them together."""
    if rest.expected is None:
        return []
    *stages, total = [row for row in rest.rows() if row["done"] < row["stages"] or row["stage"] == "total"]
    shown = {"lowest": None, "highest": None, "seeds": None}
    rows = [
        {"condition": row["condition"], "stage": row["stage"], "what": "hours to go", "value": row["seconds"] / 3600}
        | shown
        | {"note": f"stages: {row['stages'] - row['done']}"}
        for row in stages
    ]
    whole = {
        "hours to go": ((total["elapsed"] or 0.0) / 3600, f"processes: {processes}; on this machine, as busy as now"),
        "FLOPs to go": (total["flops"], "budget FLOPs"),
        "megabytes to go": (total["megabytes"], "on disk"),
    }
    return rows + [
        {"condition": "", "stage": "total", "what": what, "value": value, **shown, "note": note}
        for what, (value, note) in whole.items()
    ]
