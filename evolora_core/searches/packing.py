"""The stage `pack` of a suite of any search: its paper pack, made from the store."""

import shutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from evolora_core.engine.artifacts import sha256
from evolora_core.engine.home import home_path
from evolora_core.engine.identity import digest
from evolora_core.engine.plugins import sql_folders
from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import (
    WHOLE,
    Made,
    NoFacts,
    Stage,
    StageRequest,
    StageResult,
    Step,
    Suite,
    Work,
    stage_request,
)
from evolora_core.engine.strict import Strict
from evolora_core.searches.registry import get_search

if TYPE_CHECKING:
    from evolora_core.searches.base import Experiment

PACK = step_name(WHOLE, 0, "pack")


class Packed(Strict):
    """What a pack is of: the stages that were made, each with its identity and the seconds that it took. Seconds are
    shown in a pack, so a stage that was made again makes a new one.
    """

    suite: str
    seeds: list[int]
    stages: dict[str, tuple[str, float]]
    sections: str
    sql: str  # hash of the tables and views of its search


def request_pack(
    suite: "Suite[Experiment]", seeds: Sequence[int], made: Mapping[str, StageResult], *, comparison: StageResult
) -> StageRequest:
    """Pack what is recorded of the stages that were `made`, by name, and of the comparison."""
    stages = {name: (result.identity, result.seconds) for name, result in made.items()}
    stages["comparison"] = (comparison.identity, comparison.seconds)
    sections = get_search(suite.config.search).sections
    folders = [folder for name, folder in sql_folders().items() if name == suite.config.search]
    files = [(folder, path) for folder in folders for path in sorted(folder.rglob("*.sql"))]
    sql = digest({path.relative_to(folder).as_posix(): sha256(path) for folder, path in files})
    return stage_request(
        suite,
        "pack",
        WHOLE,
        0,
        entry=__name__,
        also=[sections],
        config=Packed(suite=str(suite.id), seeds=list(seeds), stages=stages, sections=sections, sql=sql),
        inputs={},
        uses_host=False,
    )


def pack(work: Work[Packed]) -> Made[NoFacts]:
    """Leaves the pack in pack/, made from the store."""
    from evolora_core.report.pack import build

    for left in work.folder.glob(".pack.*"):  # by a start of this stage that was killed
        shutil.rmtree(left)
    sections = import_module(work.config.sections).SECTIONS
    build(home_path(), work.config.suite, work.folder / "pack", sections)
    return Made(0, NoFacts())


def pack_step(suite: Suite[Any], seeds: Sequence[int], results: Mapping[str, StageResult], comparison: Step) -> Step:
    """Pack the suite once it is compared."""
    given = {"suite": suite, "seeds": list(seeds), "made": dict(results)}
    return Step(PACK, BUILD, given, {"comparison": comparison})


BUILD = Stage("pack", request_pack, pack)
