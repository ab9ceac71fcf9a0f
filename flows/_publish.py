"""The finished pack of a suite, copied to where people look for it."""

import shutil
import tempfile
from collections.abc import Collection
from pathlib import Path

from evolora_core.engine.stage import StageResult
from evolora_core.report.pack_folder import put


def publish(result: StageResult, out: Path, own: Collection[str]) -> Path:
    """Put a copy of a finished pack in the place of `out`, unless an equal one is there; returns `out`. `own` are the
    files that a pack of its search may have.
    """
    source = result.path / "pack"
    if out.exists() and _contents(out, own) == _contents(source, own):
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        put(Path(shutil.copytree(source, Path(work) / "new")), out, own)
    return out


def _contents(folder: Path, own: Collection[str]) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in sorted(own) if (folder / name).is_file()}
