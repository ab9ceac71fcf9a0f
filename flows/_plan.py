"""What can be known to be wrong with the way in which a suite is asked for, before its host is fetched and a server is
started for it. Loads no Prefect, which has to be told of the server before it is imported.
"""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import Step, Suite
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from evolora_core.searches.base import Experiment
from evolora_core.searches.comparing import COMPARISON
from evolora_core.searches.packing import PACK
from evolora_core.searches.registry import get_search, suite_id

HERE = "processes"
EXTRAS = {"dask": "dask", "tcp": "dask", "tls": "dask", "ray": "ray"}  # by the first word of an address


def check_plan(config: Experiment, only: Sequence[str]) -> None:
    """Raise ConfigError for workers that this machine cannot lead, and for runs and stages that the suite has not."""
    check_workers(config.workers)
    if only:
        suite = suite_id(config)
        wanted(get_search(config.search).plan(Suite(config, suite)), only, suite)


def check_workers(workers: str) -> None:
    """Raise ConfigError for a word that names no workers, and where the extra that they need is not installed."""
    if workers == HERE:
        return
    extra = EXTRAS.get(workers.partition("://")[0])
    if extra is None:
        raise ConfigError(f"workers: {workers}: unknown; use {HERE}, dask, ray, tcp://HOST:PORT or ray://HOST:PORT")
    if find_spec(f"prefect_{extra}") is None:
        raise ConfigError(
            f"workers: {workers}: prefect_{extra} is not installed; `pip install -c constraints.txt -e '.[{extra}]'`"
        )


def wanted(steps: Sequence[Step], only: Sequence[str], suite: SuiteId) -> list[Step]:
    """The steps of the named runs, seeds and stages and all that they need, in the order of the plan; all if none is
    named, or one of the stages that close the suite. A seed has also what is made of it for all conditions.

    Raises ConfigError for a name that is none.
    """
    by_name = {step.name: step for step in steps}
    closing_names = {COMPARISON, PACK, COMPARISON.rpartition(".")[0]}
    waiting: list[Step] = []
    for word in only:
        # With or without the suite's name, which may be a condition's too.
        spellings = dict.fromkeys(word.removeprefix(prefix) for prefix in ("", f"{suite}.", f"{suite.name}."))
        if closing_names & set(spellings):
            return list(steps)
        names = next((names for short in spellings if (names := _named(by_name, short))), [])
        if not names:
            runs = dict.fromkeys(name.rpartition(".")[0] for name in by_name)
            raise ConfigError(
                f"{word}: {suite} has no such run or stage; its runs are {one_line(', '.join(runs), 200)}"
            )
        waiting += [by_name[name] for name in names]
    if not only:
        return list(steps)
    chosen: set[str] = set()
    while waiting:
        step = waiting.pop()
        if step.name not in chosen:
            chosen.add(step.name)
            waiting += step.needed
    return [step for step in steps if step.name in chosen]


def _named(by_name: Mapping[str, Step], word: str) -> list[str]:
    """The steps that a word names: a step, a run (`ecology.s0`), a condition (`ecology`) or a seed (`s0`)."""
    return [name for name in by_name if name == word or name.startswith(f"{word}.") or name.split(".")[1] == word]
