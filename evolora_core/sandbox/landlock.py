"""Which files a process may open: Landlock, https://docs.kernel.org/userspace-api/landlock.html.

Three system calls through ctypes. The package `landlockpy` would save about forty lines and cost a dependency of
version 0.2 at the place where a mistake costs most, so this is written out.

A child may read, write and create plain files in its folder and read some folders of libraries. It may create nothing
else in its folder: a symbolic link or a pipe under the name of a result would catch whoever reads the result.

Landlock has no say in metadata: a child may still ask for the size of a file that it cannot open. What else it does not
cover (chmod, extended attributes, signals to others, sockets of other families) is refused by seccomp.
"""

import os
import struct
from collections.abc import Iterable
from pathlib import Path

from evolora_core.sandbox import libc

OLDEST = 3  # Linux 6.2: the first that covers truncation

# The same numbers on every architecture.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_ABI = 1
_PATH_BENEATH = 1

# Bits of `access`, linux/landlock.h
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_REMOVE_FILE, _MAKE_FILE, _TRUNCATE = 1 << 5, 1 << 8, 1 << 14
READ = _READ_FILE | _READ_DIR
# Removal is for a file that replaces another of the same name; seccomp refuses unlink itself.
READ_AND_WRITE = READ | _WRITE_FILE | _TRUNCATE | _MAKE_FILE | _REMOVE_FILE

_FILE_RIGHTS = {3: 15, 5: 16}  # ABI: how many bits of files it knows; ABI 5 adds ioctl on devices
_TCP = 0b11  # ABI 4: bind, connect
_SCOPES = 0b11  # ABI 6: abstract Unix sockets, signals


def abi() -> int:
    """The version of Landlock that the kernel has; 0 where it has none or it is switched off."""
    try:
        return libc.syscall(_CREATE, None, 0, _ASK_ABI)
    except OSError:
        return 0


def restrict(folder: Path, readable: Iterable[Path] = ()) -> None:
    """From now on this thread, and those that it starts, open files beneath `folder` and `readable` alone. For ever."""
    version = abi()
    if version < OLDEST:
        raise OSError(f"Landlock has version {version}; {OLDEST} is needed")
    files = (1 << max(bits for known, bits in _FILE_RIGHTS.items() if known <= version)) - 1
    handled = [files, *([_TCP] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    packed = struct.pack(f"={len(handled)}Q", *handled)
    rules = libc.syscall(_CREATE, packed, len(packed), 0)
    try:
        for path, access in ((folder, READ_AND_WRITE), *((path, READ) for path in readable)):
            place = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                libc.syscall(_ADD, rules, _PATH_BENEATH, struct.pack("=Qi", access, place), 0)
            finally:
                os.close(place)
        libc.syscall(_RESTRICT, rules, 0)
    finally:
        os.close(rules)
