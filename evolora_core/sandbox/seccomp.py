"""Which system calls a process may make: a BPF filter, https://docs.kernel.org/userspace-api/seccomp_filter.html.

The filter first compares the architecture, so that the numbers of 32-bit calls (int 0x80) are not taken for those of
64-bit ones. Calls of the x32 kind have a bit set in their number, which is none on the list.

What it looks at are the lower 32 bits of an argument, which is what the kernel itself takes of these.
"""

import ctypes
import errno
import struct
from collections.abc import Sequence
from typing import NamedTuple

from evolora_core.sandbox import libc, syscalls

# Operations of classic BPF, linux/bpf_common.h
_LOAD, _JUMP_EQUAL, _JUMP_BITS, _AND, _RETURN = 0x20, 0x15, 0x45, 0x54, 0x06

# What the filter can answer, linux/seccomp.h
ALLOW, KILL = 0x7FFF0000, 0x80000000


def refuse(number: int) -> int:
    """The answer that makes a call fail with `errno` set to `number`."""
    return 0x00050000 | number


# Offsets in struct seccomp_data, in bytes
_NUMBER, _ARCHITECTURE = 0, 4


def _low(argument: int) -> int:
    """The lower half of an argument, on a little-endian machine."""
    return 16 + 8 * argument


class Instruction(NamedTuple):
    code: int
    yes: int  # how many instructions to skip if a comparison holds
    no: int  # how many if it does not
    value: int


_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA = 15, 16, 0x53564D41
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC. Not F_SETOWN: the kernel would send signals for it.
_FCNTL = (0, 1, 2, 3, 4, 1030)
_CLONE_VM, _CLONE_FILES, _CLONE_THREAD = 0x100, 0x400, 0x10000
_TEMPORARY = 0o20000000  # the bit of O_TMPFILE that is its own: a file without a name, which nobody could count


def _answer(value: int) -> Instruction:
    return Instruction(_RETURN, 0, 0, value)


def _load(offset: int) -> Instruction:
    return Instruction(_LOAD, 0, 0, offset)


def _one_of(argument: int, values: Sequence[int]) -> list[Instruction]:
    """Allow the call if an argument is one of `values`."""
    tests = [Instruction(_JUMP_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load(_low(argument)), *tests, _answer(refuse(errno.EPERM)), _answer(ALLOW)]


def _named(argument: int) -> list[Instruction]:
    """Allow the call unless its argument of flags asks for a file without a name."""
    test = Instruction(_JUMP_BITS, 0, 1, _TEMPORARY)
    return [_load(_low(argument)), test, _answer(refuse(errno.EPERM)), _answer(ALLOW)]


def _a_thread() -> list[Instruction]:
    """Allow clone if it starts a thread of this process with the same table of open files: what each table may hold
    of files without a name is bounded, and not how many there are.
    """
    needed = _CLONE_VM | _CLONE_FILES | _CLONE_THREAD
    return [
        _load(_low(0)),
        Instruction(_AND, 0, 0, needed),
        Instruction(_JUMP_EQUAL, 1, 0, needed),
        _answer(refuse(errno.EPERM)),
        _answer(ALLOW),
    ]


def _own_limits() -> list[Instruction]:
    """Allow prlimit64 if it asks for the caller's limits and sets none: the new limit's address is 0, both halves."""
    tests = [
        part
        for left, offset in ((5, _low(0)), (3, _low(2)), (1, _low(2) + 4))
        for part in (_load(offset), Instruction(_JUMP_EQUAL, 0, left, 0))
    ]
    return [*tests, _answer(ALLOW), _answer(refuse(errno.EPERM))]


def program(architecture: syscalls.Architecture, process: int) -> list[Instruction]:
    """The filter of the process with that number, which may send signals to its own threads alone."""
    examined = {
        "clone": _a_thread(),
        "tgkill": _one_of(0, (process,)),
        "prctl": _one_of(0, (_PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA)),
        "prlimit64": _own_limits(),
        "fcntl": _one_of(1, _FCNTL),
        "open": _named(1),
        "openat": _named(2),
    }
    column = architecture.column
    parts = [
        *((number, [_answer(ALLOW)]) for number in syscalls.numbers(syscalls.ALLOWED, column).values()),
        *((number, examined[name]) for name, number in syscalls.numbers(syscalls.EXAMINED, column).items()),
        *((number, [_answer(refuse(errno.ENOSYS))]) for number in syscalls.numbers(syscalls.UNKNOWN, column).values()),
        *((number, [_answer(refuse(errno.ENOTTY))]) for number in syscalls.numbers(syscalls.DEVICES, column).values()),
    ]
    return [
        _load(_ARCHITECTURE),
        Instruction(_JUMP_EQUAL, 1, 0, architecture.audit),
        _answer(KILL),
        _load(_NUMBER),
        *(step for number, part in parts for step in (Instruction(_JUMP_EQUAL, 0, len(part), number), *part)),
        _answer(refuse(errno.EPERM)),
    ]


_PR_SET_SECCOMP, _MODE_FILTER = 22, 2


def known() -> bool:
    """Whether the kernel can filter system calls: asked for a filter at address 0, it then complains of the address."""
    try:
        libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER)
    except OSError as error:
        return error.errno == errno.EFAULT
    return False


def restrict(process: int) -> None:
    """From now on this thread, and those that it starts, make listed calls alone. Needs `no_new_privs`. For ever."""
    architecture = syscalls.architecture()
    if architecture is None:
        raise OSError("the numbers of this machine's system calls are not known")
    steps = program(architecture, process)
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    # struct sock_fprog: the number of instructions, and with the compiler's padding their address
    libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, struct.pack("@HP", len(steps), ctypes.addressof(code)))
