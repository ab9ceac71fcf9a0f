"""The finished pack of a suite, copied to where people look for it."""

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from evolora_core.engine.stage import StageResult
from evolora_core.report.pack_folder import put

if TYPE_CHECKING:
    from evolora_core.report.sections import Sections


def publish(result: StageResult, out: Path, sections: "Sections") -> Path:
    """Put a copy of a finished pack, which has these sections, in the place of `out`, unless an equal one is there;
    returns `out`. What `evolora pack export` added to an equal one stays.
    """
    source, made = result.path / "pack", sections.files - sections.exported
    if out.exists() and _contents(out, made) == _contents(source, made):
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        put(Path(shutil.copytree(source, Path(work) / "new")), out, sections.files)
    return out


def _contents(folder: Path, own: Collection[str]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(own) if (folder / name).is_file()}
