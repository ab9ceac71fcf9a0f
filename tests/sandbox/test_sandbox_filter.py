"""The filter of system calls, interpreted for both architectures, and its numbers against those of Linux' headers."""

import errno
import re
import signal
from pathlib import Path

import pytest

from evolora_core.sandbox import seccomp, syscalls

ME = 4711
REFUSED, ALLOWED = seccomp.refuse(errno.EPERM), seccomp.ALLOW


def answer(machine: str, number: int, *arguments: int, audit: int | None = None) -> int:
    """What the filter answers to a call, as the kernel would run it."""
    architecture = syscalls.ARCHITECTURES[machine]
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = {0: number, 4: architecture.audit if audit is None else audit}
    data |= {16 + 8 * place: word & 0xFFFFFFFF for place, word in enumerate(words)}
    data |= {20 + 8 * place: word >> 32 & 0xFFFFFFFF for place, word in enumerate(words)}
    steps, place, register = seccomp.program(architecture, ME), 0, 0
    while True:
        code, yes, no, value = steps[place]
        place += 1
        match code:
            case 0x20:
                register = data[value]
            case 0x54:
                register &= value
            case 0x15:
                place += yes if register == value else no
            case 0x45:
                place += yes if register & value else no
            case 0x06:
                return value
            case _:
                raise AssertionError(f"instruction {code:#x}")


machines = pytest.mark.parametrize("machine", syscalls.ARCHITECTURES)


@machines
def test_what_is_not_listed_is_refused(machine: str) -> None:
    column = syscalls.ARCHITECTURES[machine].column
    free = set(syscalls.numbers(syscalls.ALLOWED, column).values())
    listed = {
        number
        for calls in (syscalls.EXAMINED, syscalls.UNKNOWN, syscalls.DEVICES)
        for number in syscalls.numbers(calls, column).values()
    }
    assert not free & listed and len(free) > 50
    assert {number for number in range(1000) if answer(machine, number) == ALLOWED} - listed == free
    assert {answer(machine, number) for number in set(range(1000)) - free - listed} == {REFUSED}
    assert {answer(machine, 0x40000000 | number) for number in range(1000)} == {REFUSED}
    assert {answer(machine, number, audit=0x40000003) for number in range(1000)} == {seccomp.KILL}


@machines
@pytest.mark.parametrize(
    ("call", "arguments", "wanted"),
    [
        ("clone", (0x3D0F00,), ALLOWED),  # what pthread_create asks for
        ("clone", (0x3D0F00 & ~0x400,), REFUSED),  # a thread with a table of open files of its own
        ("clone", (int(signal.SIGCHLD),), REFUSED),
        ("clone", (0x100,), REFUSED),  # vfork
        ("clone", (0x10000,), REFUSED),
        ("clone", (0x10100 << 32,), REFUSED),
        ("tgkill", (ME, ME, 6), ALLOWED),
        ("tgkill", (ME + 1, ME + 1, 9), REFUSED),
        ("tgkill", (2**32 - ME, 1, 9), REFUSED),
        ("prctl", (15,), ALLOWED),
        ("prctl", (4,), REFUSED),
        ("prlimit64", (0, 3, 0, 99), ALLOWED),
        ("prlimit64", (0, 3, 99, 0), REFUSED),
        ("prlimit64", (0, 3, 99 << 32, 0), REFUSED),
        ("prlimit64", (ME, 3, 0, 99), REFUSED),
        ("fcntl", (5, 3), ALLOWED),
        ("fcntl", (5, 1030), ALLOWED),
        ("fcntl", (5, 8, ME), REFUSED),
        ("openat", (5, 5, 0o2000102), ALLOWED),
        ("openat", (5, 5, 0o20200002), REFUSED),
        ("clone3", (5, 88), seccomp.refuse(errno.ENOSYS)),
        ("ioctl", (0, 0x5412), seccomp.refuse(errno.ENOTTY)),
    ],
)
def test_what_is_looked_at(machine: str, call: str, arguments: tuple[int, ...], wanted: int) -> None:
    calls = {**syscalls.EXAMINED, **syscalls.UNKNOWN, **syscalls.DEVICES}
    number = syscalls.numbers(calls, syscalls.ARCHITECTURES[machine].column)[call]
    assert answer(machine, number, *arguments) == wanted


HEADERS = {
    "x86_64": "/usr/include/x86_64-linux-gnu/asm/unistd_64.h",
    "aarch64": "/usr/include/asm-generic/unistd.h",  # its architecture adds none of those used here
}
OTHER_NAMES = {"newfstatat": "fstatat"}  # as asm-generic has it


@machines
def test_numbers_are_those_of_linux(machine: str) -> None:
    header = Path(HEADERS[machine])
    if not header.exists():
        pytest.skip(f"there is no {header}")
    lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", header.read_text(encoding="utf-8"))
    known = {name: int(number) for name, number in lines}
    column = syscalls.ARCHITECTURES[machine].column
    for calls in (syscalls.ALLOWED, syscalls.EXAMINED, syscalls.UNKNOWN, syscalls.DEVICES):
        for name, number in syscalls.numbers(calls, column).items():
            other = OTHER_NAMES.get(name, name) if machine == "aarch64" else name
            assert known[other] == number, name
