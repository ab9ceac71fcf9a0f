"""`evolora run`."""

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine.home import home_path, prepare_home
from evolora_core.errors import ConfigError
from flows.cli._app import Json, Settings, lasts, progress, show

if TYPE_CHECKING:
    from evolora_core.engine.progress import Progress
    from evolora_core.report import Contents
    from evolora_core.searches.base import Experiment


def register(app: App) -> None:
    """Add the command."""
    app.command(run, help_epilogue="Example: `evolora run configs/suites/quickstart.yaml --set ecology.generations=4`")


def run(
    suite: Annotated[Path, Parameter(help="A suite file.")],
    /,
    *,
    settings: Settings = None,
    packs: Annotated[Path, Parameter(help="The folder that gets the pack.")] = Path("packs"),
    only: Annotated[
        list[str] | None,
        Parameter(
            help="Make only this seed (s3), run (ecology.s3) or stage (ecology.s3.evolve), with what it needs; may be "
            "repeated. No pack, unless that is all."
        ),
    ] = None,
    estimate: Annotated[
        bool, Parameter(help="Say what the stages would take, after short measurements, and run nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Run a suite end to end, in this process and its workers. Stages that are done are reused; a killed one
    resumes.
    """
    from evolora_core.searches.registry import load_experiment

    config = load_experiment(suite, settings or [])
    if estimate:
        foretell(config, only or [], json)
        return
    if only:
        expand_seeds(config, only)  # refuses a seed that the suite does not have
    done = make(config, packs, only or [])
    if json:
        show(done.rows(), True)
    else:
        done.tell()


def foretell(config: "Experiment", only: Sequence[str], as_json: bool) -> None:
    """Print what a suite would take on this machine."""
    import tempfile

    from evolora_core.engine.stage import Suite
    from evolora_core.language.hosts.catalog import find_host
    from evolora_core.searches.registry import suite_id

    if only:
        raise ConfigError("--only: an estimate is of the whole suite; leave out one of the two")
    with (
        tempfile.TemporaryDirectory(prefix="evolora-caches-") as caches,
        measuring("estimate of what stages take") as report,
    ):
        if not home_path().exists():
            os.environ["MPLCONFIGDIR"] = caches  # matplotlib writes there when the modules below are imported
        from evolora_core.searches.estimating import estimate, hosts
        from flows._preflight import check_machine, use_host

        for word in hosts(config):
            if not find_host(word).ready:
                raise ConfigError(f"host: {word} is not on this machine; bring it by `evolora host fetch {word}`")
        check_machine(config)
        found = estimate(home_path(), Suite(config, suite_id(config), use_host(config, keep=False)), report)
    rows = found.rows()
    if as_json:
        show(rows, True)
        return
    show([{key: value for key, value in row.items() if key != "elapsed"} for row in rows], False)
    total = rows[-1]
    if found.expected is None:
        print(f"\nThe search {config.search} does not foretell what its stages take; a run tells it as it goes.")
    elif total["done"] == total["stages"]:
        print("\nAll of these stages are done: a run compares them and builds the pack.")
    else:
        print(
            f"\nWith processes: {config.processes}, this takes about {lasts(found.elapsed or 0)} on this machine, as "
            "busy as it is now. Starting the processes, comparing and the pack come on top.\n"
            f"{found.left_out}"
        )


@contextmanager
def measuring(label: str) -> Iterator["Progress"]:
    """Progress of an estimate, without what its short measurements say of themselves: it would look like a run's."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    searches = logging.getLogger("evolora_core.searches")
    before = searches.level
    searches.setLevel(logging.WARNING)
    try:
        with progress(label) as report:
            yield report
    finally:
        searches.setLevel(before)


def expand_seeds(config: "Experiment", words: Sequence[str]) -> list[str]:
    """The runs and stages that words name, `s3` being every run of seed 3. Raises ConfigError for a seed that the suite
    does not have.
    """
    found = []
    for word in words:
        seed = word.removeprefix("s")
        if word == seed or not (seed.isascii() and seed.isdecimal()):
            found.append(word)
        elif seed in map(str, config.seeds):
            found += [f"{condition}.{word}" for condition in config.conditions]
        else:
            raise ConfigError(f"{word}: {config.name} has no such seed; it has {', '.join(map(str, config.seeds))}")
    return found


@dataclass(frozen=True)
class Made:
    """A suite that was run, or some of its runs and stages; then its pack was left as it is, and `pack` is None."""

    config: "Experiment"
    home: Path
    suite: str
    pack: str | None

    def tell(self) -> None:
        """Print what was found."""
        if self.pack is None:
            from evolora_core.engine.run_index import SuiteId
            from flows._shards import came_in_shards

            rest = f"`evolora retry {self.suite}` makes all that is missing, then the pack"
            if came_in_shards(self.home, SuiteId.of(self.suite)):
                rest = f"`evolora pack {self.suite}` packs the seeds that are complete"
            print(f"made; no pack was built; {rest}")
            return
        found = self._contents()
        print(f"\n{found.headline.caption}\n\n{found.headline.to_markdown()}")
        for sentence in found.takeaways:
            print(sentence.replace("**", "") + "\n")
        print(f"pack: {self.pack}")

    def rows(self) -> list[dict[str, Any]]:
        """The rows of the table that says most, each with the suite and its pack; without a pack one row of these."""
        known = {"suite": self.suite, "pack": self.pack}
        return [known | row for row in self._contents().headline.records()] if self.pack is not None else [known]

    def _contents(self) -> "Contents":
        from evolora_core.report import Contents
        from evolora_core.searches.registry import sections_of

        return Contents(self.home, self.suite, sections=sections_of(self.config))


def make(config: "Experiment", packs: Path, only: Sequence[str] = ()) -> Made:
    """Run a suite, or some of its runs and stages."""
    from evolora_core.engine.identity import code_as_it_is

    with code_as_it_is():
        return _make(config, packs, only)


def _make(config: "Experiment", packs: Path, only: Sequence[str]) -> Made:
    home = prepare_home()
    from evolora_core.engine.run_index import begin
    from evolora_core.engine.strict import stated
    from evolora_core.searches.registry import suite_id
    from flows._plan import check_plan
    from flows._preflight import check_machine, check_suite
    from flows._server import embedded_prefect

    check_machine(config)
    check_plan(config, only)
    check_suite(config, packs / config.name)
    suite = suite_id(config)
    print(f"{suite}: starting Prefect and up to {config.processes} processes", file=sys.stderr)
    with embedded_prefect(home):
        begin(home, suite, stated(config), packs)  # from here on `evolora retry` knows it
        from flows.paper_suite import paper_suite
        from tasks._worker import show_log

        show_log()
        done = paper_suite(str(suite), only=list(only), packs=str(packs))
    return Made(config, home, done["suite"], done["pack"] or None)
