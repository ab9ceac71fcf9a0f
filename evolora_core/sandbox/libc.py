"""Calls into the C library that Python has no function for. Linux alone; failures raise OSError."""

import ctypes
import os
import struct

LIBC = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, name: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(number: int, *arguments: int | bytes | None) -> int:
    """A system call by its number. Integers are passed as C longs, bytes by their address."""
    words = [ctypes.c_long(word) if isinstance(word, int) else ctypes.c_char_p(word) for word in arguments]
    return _checked(LIBC.syscall(ctypes.c_long(number), *words), f"system call {number}")


def prctl(option: int, first: int = 0, second: bytes | None = None) -> int:
    """prctl(2) with up to two arguments of its own; the others have to be zero."""
    words = (ctypes.c_ulong(first), ctypes.c_char_p(second), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return _checked(LIBC.prctl(ctypes.c_int(option), *words), f"prctl {option}")


def drop_capabilities() -> None:
    """capset(2) of this thread to the empty set."""
    version_3, this_thread = 0x20080522, 0  # linux/capability.h
    none = struct.pack("=6I", *[0] * 6)  # effective, permitted, inheritable; the lower 32 and the upper
    _checked(LIBC.capset(struct.pack("=Ii", version_3, this_thread), none), "capset")
