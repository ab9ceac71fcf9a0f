"""The flow `paper-suite`: from a suite file to a paper pack."""

from typing import Annotated

from prefect import flow
from pydantic import Field

from flows._preflight import OVERRIDE, SUITES
from flows._suite import run_name, run_suite


@flow(name="paper-suite", flow_run_name=run_name)
def paper_suite(
    suite: str = SUITES["paper-suite"],
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
        only: Runs or stages to make, with what they need, such as `ecology.s0` or `sft.s1.evaluate`; all
            of them, and the pack, if empty.
        packs: The folder that gets the pack.
    """
    return run_suite(suite, overrides, host, seeds, only, packs)
