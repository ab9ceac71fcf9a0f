"""Files of others: regular, of a bounded size, in UTF-8."""

import errno
import os
import stat
from pathlib import Path

MIB = 2**20


class Unfit(ValueError):
    """Why something foreign is not taken, in words that fit into a line."""


def check_regular(path: Path) -> None:
    """Raise Unfit if `path` is there and neither a regular file nor a folder: a pipe or a device may have no end."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise Unfit("is a pipe or a device, which may have no end; name an ordinary file")


def read_bytes(path: Path, limit: int = 64 * MIB) -> bytes:
    """The content of a regular file of at most `limit` bytes. Unfit, or OSError where it cannot be opened."""
    try:
        check_regular(path)
        # Between the check and the opening a pipe may have come: without O_NONBLOCK we would wait for its writer.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except Unfit:
        raise
    except ValueError as error:  # a NUL in the name
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), repr(str(path))) from error
    with os.fdopen(handle, "rb") as file:
        kind = os.fstat(handle).st_mode
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(kind):
            raise Unfit("is a pipe or a device, which may have no end; name an ordinary file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise Unfit(f"is larger than {_size(limit)}, the most that is read of such a file")
    return content


def read_text(path: Path, limit: int = 64 * MIB) -> str:
    """The same as text in UTF-8."""
    try:
        return read_bytes(path, limit).decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unfit("is no text in UTF-8") from error


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // 1024} KiB"
