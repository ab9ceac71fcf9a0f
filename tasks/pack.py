"""Stage `pack`: the paper pack of a suite, made from the store, and its copy for people in packs/NAME."""

import shutil
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from evolora_core.home import home_path
from evolora_core.pack_folder import put
from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task


def request(
    suite: Suite, seeds: Sequence[int], made: Mapping[str, StageResult], *, comparison: StageResult
) -> StageRequest:
    """Pack what is recorded of the stages that were `made`, by name, and of the comparison. Seconds are shown in a
    pack, so a stage that was made again makes a new one.
    """
    stages = {name: [result.identity, result.seconds] for name, result in made.items()}
    stages["comparison"] = [comparison.identity, comparison.seconds]
    config = {"suite": str(suite.id), "seeds": list(seeds), "stages": stages}
    return stage_request(suite, "pack", "suite", 0, entry=__name__, config=config, inputs={}, uses_host=False)


def make(work: Work) -> Made:
    """Leaves the pack in pack/."""
    from evolora_core.report.pack import build
    from evolora_core.searches.adapters.pack.sections import SECTIONS

    build(home_path(), work.config["suite"], work.folder / "pack", SECTIONS)
    return Made()


def publish(result: StageResult, out: Path) -> Path:
    """Put a copy of a finished pack in the place of `out`, unless an equal one is there; returns `out`."""
    from evolora_core.searches.adapters.pack.sections import SECTIONS

    source = result.path / "pack"
    if out.exists() and _contents(out, SECTIONS.files) == _contents(source, SECTIONS.files):
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        put(Path(shutil.copytree(source, Path(work) / "new")), out, SECTIONS.files)
    return out


def _contents(folder: Path, own: Collection[str]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(own) if (folder / name).is_file()}


pack = stage_task("pack", request, make)
