"""What can be known to be wrong with the way in which a suite is asked for, before a server is started for it. Loads no
Prefect, which has to be told of the server before it is imported.
"""

from collections.abc import Sequence
from importlib.util import find_spec

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import Step, Suite
from evolora_core.errors import ConfigError
from evolora_core.foreign.text import one_line
from evolora_core.searches.base import Experiment
from evolora_core.searches.comparing import COMPARISON
from evolora_core.searches.packing import PACK
from evolora_core.searches.registry import get_search, suite_id
from flows._preflight import use_host

HERE = "processes"
EXTRAS = {"dask": "dask", "tcp": "dask", "tls": "dask", "ray": "ray"}  # by the first word of an address


def check_plan(config: Experiment, only: Sequence[str]) -> None:
    """Raise ConfigError for workers that this machine cannot lead, and for runs and stages that the suite has not."""
    check_workers(config.workers)
    if only:
        suite = suite_id(config)
        wanted(get_search(config.search).plan(Suite(config, suite, use_host(config))), only, suite)


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
        words = dict.fromkeys(word.removeprefix(prefix) for prefix in ("", f"{suite}.", f"{suite.name}."))
        if closing_names & set(words):
            return list(steps)
        named = [
            [own for own in by_name if own == short or own.startswith(f"{short}.") or own.split(".")[1] == short]
            for short in words
        ]
        if not any(named):
            runs = dict.fromkeys(own.rpartition(".")[0] for own in by_name)
            raise ConfigError(
                f"{word}: {suite} has no such run or stage; its runs are {one_line(', '.join(runs), 200)}"
            )
        waiting += [by_name[own] for own in next(filter(None, named))]
    if not only:
        return list(steps)
    chosen: set[str] = set()
    while waiting:
        step = waiting.pop()
        if step.name not in chosen:
            chosen.add(step.name)
            waiting += step.needed
    return [step for step in steps if step.name in chosen]
