"""The system calls that a confined child may make, with their numbers. Whatever is not listed is refused.

A list of what is allowed, not of what is forbidden: a child computes, starts threads, and reads and writes files that
Landlock lets it open. That takes some sixty calls of more than four hundred, and a kernel that learns new ones stays
shut. So there are no sockets, processes, foreign signals, tracing, mounts, modules, keys, namespaces, io_uring, BPF,
userfaultfd, message queues; no memory that limits do not count (memfd, System V); no disk blocks that limits do not
count (fallocate); no owners, modes or attributes of files.
"""

import platform
from collections.abc import Mapping
from typing import NamedTuple


class Architecture(NamedTuple):
    audit: int  # AUDIT_ARCH_* of linux/audit.h, which the filter compares with the call's own
    column: int  # in the table below


ARCHITECTURES = {"x86_64": Architecture(0xC000003E, 0), "aarch64": Architecture(0xC00000B7, 1)}

Calls = Mapping[str, tuple[int, int | None]]

# name: (x86-64, aarch64), from asm/unistd_64.h and asm-generic/unistd.h of Linux 6; None where there is no such call
_MEMORY: Calls = {
    "mmap": (9, 222),
    "munmap": (11, 215),
    "mremap": (25, 216),
    "mprotect": (10, 226),
    "brk": (12, 214),
    "madvise": (28, 233),
    "msync": (26, 227),
}
_THREADS: Calls = {
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "arch_prctl": (158, None),  # oneDNN asks for the AMX registers by it
    "exit": (60, 93),
    "exit_group": (231, 94),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "restart_syscall": (219, 128),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
}
_QUESTIONS: Calls = {
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101),
    "gettimeofday": (96, 169),
    "time": (201, None),
    "times": (100, 153),
    "getrusage": (98, 165),
    "getrandom": (318, 278),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getppid": (110, 173),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getegid": (108, 177),
    "getrlimit": (97, 163),
    "uname": (63, 160),
    "sysinfo": (99, 179),
}
_FILES: Calls = {
    "read": (0, 63),
    "write": (1, 64),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "lseek": (8, 62),
    "close": (3, 57),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "ftruncate": (77, 46),
    "getdents64": (217, 61),
    "getcwd": (79, 17),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "newfstatat": (262, 79),
    "statx": (332, 291),
    "access": (21, None),
    "faccessat": (269, 48),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "rename": (82, None),  # a file is written beside its name and then renamed, as safetensors does
    "renameat": (264, 38),
    "pipe": (22, None),
    "pipe2": (293, 59),
}
ALLOWED: Calls = {**_MEMORY, **_THREADS, **_QUESTIONS, **_FILES}

# `seccomp.py` looks at what these are given.
EXAMINED: Calls = {
    "clone": (56, 220),
    "tgkill": (234, 131),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "fcntl": (72, 25),
    "open": (2, None),
    "openat": (257, 56),
}

# These are said not to exist, so that the C library does with an older call what it wanted to do.
UNKNOWN: Calls = {"clone3": (435, 435), "openat2": (437, 437), "faccessat2": (439, 439)}

# Whatever is asked of a device: nothing here is a terminal.
DEVICES: Calls = {"ioctl": (16, 29)}


def architecture() -> Architecture | None:
    """That of this machine; None where the numbers are not known."""
    return ARCHITECTURES.get(platform.machine())


def numbers(calls: Calls, column: int) -> dict[str, int]:
    """The numbers of those calls that an architecture has."""
    return {name: number for name, row in calls.items() if (number := row[column]) is not None}
