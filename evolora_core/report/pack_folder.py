"""Where a pack stands: what it may replace, and what it leaves alone."""

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evolora_core.errors import PackError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import read_text

log = logging.getLogger(__name__)

STAMP = "provenance.json"  # a folder with this file is a pack
DATA = "data"  # the folder with the rows that its numbers are computed from


def check_place(out: Path) -> None:
    """Raise PackError if `out` holds something that a pack must not replace, or if nothing can be written beside it."""
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.").cleanup()
    except OSError as error:
        raise PackError(f"{out}: no pack can be put there ({error.strerror}); choose another folder") from error
    if out.exists() and (out.is_file() or (any(out.iterdir()) and not (out / STAMP).is_file())):
        raise PackError(f"{out}: holds something that is not a pack; choose another folder, or move what is there")


def put(new: Path, out: Path, own: Collection[str]) -> None:
    """Let the finished pack `new`, which is moved, take the place of `out`, whole or not at all.

    Files in `out` that are none of `own`, which are those that such a pack may have, are kept. That it was another
    suite's is logged, with the command that brings it back. Another process that puts a pack there waits. What a kill
    left half done is repaired first.
    """
    with _alone(out.parent):
        begun = f".{out.name}."
        for left in sorted(out.parent.glob(".*/old")):
            name = left.parent.name  # what follows has no dot, or it is of another pack, such as NAME.v2
            if name.startswith(begun) and "." not in name.removeprefix(begun) and not out.exists():
                os.replace(left, out)
        _replace(new, out, own)


def _replace(new: Path, out: Path, own: Collection[str]) -> None:
    check_place(out)
    if out.exists():
        before, now = suite_of(out), suite_of(new)
        if before not in ("", now):
            log.warning("%s had %s, now %s; `evolora pack %s --out FOLDER` makes it anew", out, before, now, before)
        for file in sorted(path for path in out.rglob("*") if path.is_symlink() or path.is_file()):
            name = file.relative_to(out)
            if name.as_posix() not in own:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, new / name, follow_symlinks=False)  # what a link leads to is not the pack's
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as work:
        old = Path(work) / "old"
        if out.exists():
            os.replace(out, old)
        try:
            os.replace(new, out)
        except BaseException:
            if old.exists():
                os.replace(old, out)
            raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold an existing folder against other processes that ask for it like this."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def read_stamp(pack: Path) -> dict[str, Any]:
    """The provenance of a pack. Raises PackError for a folder that is none, or whose provenance is damaged."""
    try:
        stamp = read_json(read_text(pack / STAMP), constants=True)
        if not isinstance(stamp["suite"], str) or not isinstance(stamp["config"], dict):
            raise TypeError("its suite is no text, or its config no object")
    except (FileNotFoundError, NotADirectoryError) as error:
        what = f"it has no {STAMP}" if pack.exists() else "there is no such folder"
        raise PackError(f"{pack}: is not a pack, {what}; name one that `evolora run` or `evolora pack` made") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PackError(f"{pack / STAMP}: damaged ({error}); build the pack again") from error
    return dict(stamp)


def suite_of(pack: Path) -> str:
    """The suite id of a pack; "" if that cannot be read."""
    try:
        return str(read_json(read_text(pack / STAMP), constants=True)["suite"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
