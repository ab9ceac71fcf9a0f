"""From a suite file to a paper pack: what the flows of suites share. They differ in name and default file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from prefect import Flow, flow
from prefect.artifacts import create_table_artifact
from prefect.runtime import flow_run
from pydantic import Field

from evolora_core.config import SuiteConfig
from evolora_core.errors import EvoloraError, StageError
from evolora_core.home import home_path
from evolora_core.run_index import SuiteId, entries, forget_entry, write_packs, write_plan, write_suite
from flows._crashed import name_process, report_killed
from flows._execute import ClusterPool, Outcome, Pool, execute
from flows._plan import COMPARISON, PACK, closing, complete_seeds, plan, wanted
from flows._preflight import OVERRIDE, SUITES, asked_suite, check_machine, check_suite, identify_host, suite_id
from tasks import pack
from tasks._stage import StageResult, Suite
from tasks.record import record


def run_name() -> str:
    """The suite's id, its name and the hash of its configuration; what was asked for, where there is no such suite."""
    given = flow_run.parameters
    try:
        return str(suite_id(asked_suite(given["suite"], given["overrides"], given["host"], given["seeds"])))
    except EvoloraError:
        return str(given["suite"])


def suite_flow(name: str, module: str) -> Flow[..., dict[str, str]]:
    """The flow of that name, which runs the suite file of that name unless told otherwise; `module` is where it stands.

    Prefect reads names, defaults and descriptions of the parameters from the function.
    """

    def run(
        suite: str = SUITES[name],
        overrides: list[Annotated[str, Field(pattern=OVERRIDE)]] = [],  # noqa: B006  # Prefect shows it as the default
        host: str = "",
        seeds: list[Annotated[int, Field(ge=0)]] = [],  # noqa: B006
        only: list[str] = [],  # noqa: B006
        packs: str = "packs",
    ) -> dict[str, str]:
        """Run what is not done yet of a suite; returns the suite's id and the folder of its pack.

        Raises StageError at the end if anything failed; the pack is then made of the seeds that are complete.

        Args:
            suite: A suite file, or the id of a suite that was run before.
            overrides: Changes to the suite file, such as `ecology.generations=24`.
            host: Another host than the suite's: a name, a hub id or a local folder.
            seeds: Other seeds than the suite's.
            only: Runs or stages to make, with what they need, such as `ecology.s0` or `sft.s1.evaluate`; the
                pack is left as it is. All of them, and the pack, if empty.
            packs: The folder that gets the pack.
        """
        return run_suite(suite, overrides, host, seeds, only, packs)

    run.__name__ = run.__qualname__ = name.replace("-", "_")
    run.__module__ = module
    return flow(name=name, flow_run_name=run_name)(run)


def run_suite(
    suite: str, overrides: Sequence[str], host: str, seeds: Sequence[int], only: Sequence[str], packs: str
) -> dict[str, str]:
    """Run what is not done yet of a suite, in the flow that calls this; returns the suite's id and the folder of its
    pack.

    Raises StageError at the end if anything failed; the pack is then made of the seeds that are complete.
    """
    name_process()
    report_killed()
    config = asked_suite(suite, overrides, host, seeds)
    out = Path(packs) / config.name
    check_machine(config)
    check_suite(config, out)
    host_words, host_identity = identify_host(config)
    made = Suite(config, suite_id(config), host_words, host_identity)
    steps = plan(made)
    write_suite(home_path(), made.id, config.model_dump(mode="json"))
    write_packs(home_path(), made.id, Path(packs))
    write_plan(home_path(), made.id, [*(step.name for step in steps), COMPARISON, PACK])
    before = [f"{entry.condition}.s{entry.seed}.{entry.stage}" for entry in entries(home_path(), made.id)]
    compared = recorded(made.id)  # answers of which the store's comparisons may be

    def load(result: StageResult) -> None:
        own = f"{result.condition}.s{result.seed}.{result.stage}"
        if result.stage == "evaluate" and compared and compared.get(own) != result.identity:
            forget(made.id, [COMPARISON, PACK])  # they are of other answers
            compared.clear()
        record(str(made.id), result)

    with pool_of(config) as pool:
        chosen = wanted(steps, only, made)
        outcome = execute(chosen, pool, load)
        complete: list[int] = []
        if len(chosen) == len(steps):  # a comparison of a few runs would take the place of that of all
            # What stands from an earlier run may be of other code, and must not be mixed with this one.
            stale = {*before, *(step.name for step in steps)} - {*outcome.results, COMPARISON, PACK}
            forget(made.id, [*sorted(stale), COMPARISON, PACK] if stale else [])
            complete = complete_seeds(config, outcome.results)
        closed = execute(closing(made, complete, outcome.results), pool, load) if complete else Outcome()
    if PACK in closed.results:
        pack.publish(closed.results[PACK], out)
        show_table(str(made.id), out)
    if failures := outcome.failures | closed.failures:
        raise StageError(why(failures, config, complete))
    return {"suite": str(made.id), "pack": str(out) if PACK in closed.results else ""}


def recorded(suite: SuiteId) -> dict[str, str]:
    """The identities of a suite's stages in the store, by name."""
    from evolora_core.store import query, store_path

    if not store_path(home_path()).exists():
        return {}
    rows = query(home_path(), "SELECT condition, seed, stage, identity FROM stages WHERE suite = ?", [str(suite)]).rows
    return {f"{condition}.s{seed}.{stage}": identity for condition, seed, stage, identity in rows}


def forget(suite: SuiteId, names: Sequence[str]) -> None:
    """Take stages out of store and index; their folders stay."""
    if not names:
        return
    from evolora_core.store import forget as forget_slices

    parts = [(condition, int(seed[1:]), stage) for condition, seed, stage in (name.split(".") for name in names)]
    forget_slices(home_path(), [(suite.run_id(condition, seed), stage) for condition, seed, stage in parts])
    for condition, seed, stage in parts:
        forget_entry(home_path(), suite, condition, seed, stage)


def pool_of(config: SuiteConfig) -> Pool:
    """The processes of this machine, or the cluster that the suite names."""
    if config.workers == "processes":
        return Pool(config.processes, config.threads)
    from flows._cluster import cluster_runner

    return ClusterPool(config.processes, config.threads, cluster_runner(config.workers, config.processes))


def show_table(suite: str, out: Path) -> None:
    """The paper table and the place of the pack as an artifact of the flow run."""
    from evolora_core.report.tables import paper_table

    rows = paper_table(home_path(), suite).records()
    create_table_artifact(rows, key="paper-table", description=f"Paper table of {suite}; pack: {out.absolute()}")


def why(failures: dict[str, str], config: SuiteConfig, complete: Sequence[int]) -> str:
    """One line: the first failure, how many there are, and which seeds the pack is without."""
    name, reason = next(iter(failures.items()))
    more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
    missing = [str(seed) for seed in config.seeds if seed not in complete]
    without = f"; the pack is without seed {', '.join(missing)}" if complete and missing else ""
    return f"{name}: {reason}{more}{without}; `evolora status` shows all, `evolora retry` makes what is missing"
