"""What a search has to bring, all of it on this page.

A search is a package: one in `evolora_core/searches`, or one that a distribution names as an entry point of the group
`evolora.searches`. A YAML file starts it by `search: NAME`. The package has

    search.py       `SEARCH`, an object of the class `Search` below: settings, host, plan of stages, arms
    sql/            `0001_*.sql`, … with the tables that its stages fill, and `views.sql` with what people query
    pack.py         (or whichever module `Search.sections` names) `SECTIONS`: the tables, plots and text of its packs

and the house finds it by its name alone. Only `store/shards.py` and `statistics/two_suites.py` know which stages of the
shipped searches make a suite's items. A plan is a list of steps (`engine/stage.py`), each a stage with what it is
given and the steps that it needs. The house makes Prefect tasks of them, caches each by its identity, retries faults,
resumes what was killed, writes the Parquet tables at the root of a stage's folder to the tables of the same name in the
store, and follows these conventions:

- The stage that judges a condition with a seed is called `evaluate`. It leaves the table `evaluations`, in which the
  arm that is named like the condition is the headline. A seed counts once every condition of it is judged.
- A condition that could not be run with a seed, since its budget is too small to begin, is judged by the facts `NotRun`
  (`engine/stage.py`): it has no answers, and the seed counts without it.
- What it was judged with goes into its facts as `comparable`; conditions that differ in that are not compared.
- `closing` is asked for the stages that close the suite, once the complete seeds are known. They end with those of
  `searches/comparing.py` and `searches/packing.py`.
- Declared comparisons are at the key `evaluation.comparisons`, bootstrap samples at `evaluation.bootstrap`:
  packs are recounted from there.
- `plan` is also called with no host (`suite.host` is None) and `closing` with no results, to list the stages' names.
- FLOPs are booked under the purposes of `engine/meter.py`.
- A module called `names` only says where others are: it is no part of an identity, nor is what it alone imports. A
  second distribution counts by its version, not by its sources.

The house shares identity, artefacts, commits, run index, store, statistics, pack builder, meter and archive. It shares
no evolutionary loop: that is a search's own.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Protocol, Self, TypeVar

from pydantic import Field, model_validator

from evolora_core.engine.stage import SHARED, WHOLE, Stage, StageResult, Step, Suite
from evolora_core.engine.strict import LATER, Seed, Strict, repeated

DEFAULT = "adapters"  # the search of a file that names none
UNDECIDED = "undecided"  # the verdict that names no condition, said here too since statistics loads scipy


class Experiment(Strict):
    """What every YAML file says, whatever it searches. Its id is its name and the hash of all its settings."""

    search: str = Field(DEFAULT, json_schema_extra=LATER, description="what is searched: adapters, or another search")
    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100, description="lower-case name; packs go to packs/NAME"
    )
    seeds: list[Seed] = Field([0, 1, 2], min_length=1, max_length=40, description="one run of each condition per seed")
    conditions: list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=60)]] = Field(
        min_length=1, max_length=200, description="conditions that the suite compares"
    )
    processes: int = Field(2, ge=1, le=1024, description="runs that execute at the same time")
    threads: int = Field(1, ge=1, le=1024, description="torch threads of each process")
    workers: str = Field(
        "processes",
        max_length=1000,
        description="where the processes are: `processes` of this machine, a local cluster by `dask` or `ray`, or "
        "a running cluster by its address, tcp://HOST:PORT (Dask) or ray://HOST:PORT",
    )

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        for key, values in (("seeds", self.seeds), ("conditions", self.conditions)):
            if (twice := repeated(values)) is not None:
                raise ValueError(f"{key}: {twice!r} stands twice; keep one")
        if taken := {SHARED, WHOLE, UNDECIDED} & set(self.conditions):
            raise ValueError(f"conditions: {min(taken)!r} is taken; choose another name")
        return self


class Pair(Protocol):
    """Two conditions that are compared."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...


def check_pairs(key: str, pairs: Iterable[Pair], conditions: Collection[str]) -> None:
    """ValueError, with the key at which they stand, unless each pair names two of the conditions, and no two the same
    ones.
    """
    declared: set[tuple[str, str]] = set()
    for pair in pairs:
        for name in (pair.a, pair.b):
            if name not in conditions:
                raise ValueError(f"{key}: {name} is not among the conditions")
        if pair.a == pair.b:
            raise ValueError(f"{key}: {pair.a} with itself; compare two conditions")
        names = (min(pair.a, pair.b), max(pair.a, pair.b))
        if names in declared:
            raise ValueError(f"{key}: {pair.a} with {pair.b} stands twice; keep one")
        declared.add(names)


@dataclass(frozen=True)
class HostChoice:
    """The host that an experiment asks for, on which device and in which arithmetic."""

    word: str
    device: str = "cpu"
    dtype: str = "float32"


@dataclass(frozen=True)
class Arm:
    """A kind of condition, and the stage that makes its candidates; None: there is nothing to make, as with a host that
    stays as it is. A search may know more of its arms.
    """

    name: str
    stage: Stage | None


@dataclass(frozen=True)
class Page:
    """A page to look at a suite, on disk: how many of its items it shows, and what it leaves out, in sentences."""

    file: Path
    bytes: int
    items: int
    left_out: Sequence[str] = ()


def page_file(home: Path, suite: str) -> Path:
    """Where the page of a suite is, unless somebody names another place."""
    return home / "scope" / f"{suite}.html"


Config = TypeVar("Config", bound=Experiment)


@dataclass(frozen=True)
class Search(Generic[Config]):
    """One search.

    experiment   the model of its YAML files; what it refuses is refused before anything is computed
    check        refuses what the model alone cannot see (a family that does not exist, say) by a ConfigError
    host         the host of an experiment; None where it loads none
    plan         all stages but those that close the suite, the most urgent first
    closing      from the suite, the complete seeds, the plan and the results by name: the stages that close it
    sections     the module with SECTIONS, which is loaded when a pack is built
    arms         its kinds of conditions by name
    exporter     a module with `export(home, entry, suite, candidate, out)`, which writes a model of a finished run as a
                 folder and says in words what it is; "": it exports none
    generations  the view with a row for each run and generation: suite, run_id, condition, seed, generation, and
                 numbers, which `evolora track` hands on; "": it has none
    page         a module with `write_page(home, suite, out, seed, condition) -> Page`, which writes what can be looked
                 at of a finished suite, or of one of its runs, as one HTML file, and `installed()`: whether this
                 machine can; "": it draws none
    calibration  the kinds of stages that come before anything is searched: `evolora calibrate` makes these alone
    calibrated   the view with what they found: suite, condition, seed, stage, what, value (a number) and note
    splits       names of the splits of prompts and answers that its stage `datasets` leaves, each as SPLIT.jsonl or as
                 a folder SPLIT of such files; none: it has none
    estimator    a module with `estimate(suite, steps, report)`: by the name of each of these steps, what it would take
                 (`searches/estimating.py`), after short measurements that write nothing to EVOLORA_HOME;
                 `hosts(config)`: the models that this needs; LEAVES_OUT: what it supposes and leaves out, in words.
                 "": unknown
    """

    name: str
    experiment: type[Config]
    check: Callable[[Config], object]
    host: Callable[[Config], HostChoice | None]
    plan: Callable[[Suite[Config]], list[Step]]
    closing: Callable[[Suite[Config], Sequence[int], Sequence[Step], Mapping[str, StageResult]], list[Step]]
    sections: str
    arms: Mapping[str, Arm]
    exporter: str = ""
    generations: str = ""
    page: str = ""
    calibration: Sequence[str] = ()
    calibrated: str = ""
    splits: Sequence[str] = ()
    estimator: str = ""


AnySearch = Search[Any]
