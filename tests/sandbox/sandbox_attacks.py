"""What a hostile program might do. Each function is the entry of a real child; one that returns has succeeded."""

import contextlib
import ctypes
import fcntl
import importlib
import itertools
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from evolora_core.errors import StageError
from evolora_core.sandbox.run import Sandbox, refusal

SECRET = "sandbox-attack-secret"
LIBC = ctypes.CDLL(None, use_errno=True)


def told(folder: Path) -> str:
    """What the test wrote into the folder for the attack: a path or a number."""
    return (folder / "told").read_text(encoding="utf-8")


def say(folder: Path, content: object) -> None:
    (folder / "said").write_text(json.dumps(content), encoding="utf-8")


def nothing(folder: Path) -> None: ...


# Reading


def read_passwords(folder: Path) -> None:
    Path("/etc/passwd").read_bytes()


def read_told(folder: Path) -> None:
    Path(told(folder)).read_bytes()


def read_by_link(folder: Path) -> None:
    (folder / "link").read_bytes()


def read_upwards(folder: Path) -> None:
    (folder / ".." / "other" / "held-out").read_bytes()


def list_root(folder: Path) -> None:
    os.listdir("/")


def import_topics(folder: Path) -> None:
    importlib.import_module("pydoc_data.topics")


def read_own_environment(folder: Path) -> None:
    Path("/proc/self/environ").read_bytes()


def read_parents_environment(folder: Path) -> None:
    Path(f"/proc/{os.getppid()}/environ").read_bytes()


def read_parents_memory(folder: Path) -> None:
    Path(f"/proc/{os.getppid()}/mem").open("rb").close()


def read_parents_pipe(folder: Path) -> None:
    Path(f"/proc/{os.getppid()}/fd/0").open("rb").close()


def read_device(folder: Path) -> None:
    with open("/dev/zero", "rb", buffering=0) as device:
        device.read(1)


# Writing


def write_told(folder: Path) -> None:
    Path(told(folder)).write_text("forged", encoding="utf-8")


def append_told(folder: Path) -> None:
    with open(told(folder), "a", encoding="utf-8") as file:
        file.write("forged")


def truncate_told(folder: Path) -> None:
    os.truncate(told(folder), 0)


def truncate_by_opening(folder: Path) -> None:
    os.close(os.open(told(folder), os.O_RDONLY | os.O_TRUNC))


def remove_told(folder: Path) -> None:
    os.unlink(told(folder))


def move_told_here(folder: Path) -> None:
    os.rename(told(folder), folder / "stolen")


def link_told_here(folder: Path) -> None:
    os.link(told(folder), folder / "stolen")


def open_told_to_all(folder: Path) -> None:
    os.chmod(told(folder), 0o777)


def make_link(folder: Path) -> None:
    os.symlink("/etc/passwd", folder / "result.json")


def make_pipe(folder: Path) -> None:
    os.mkfifo(folder / "result.json")


def make_folder(folder: Path) -> None:
    os.mkdir(folder / "result.json")


# Reaching others


def use_socket(folder: Path) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM).close()


def use_abstract_socket(folder: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.bind("\0evolora-sandbox-attack")


def use_socket_pair(folder: Path) -> None:
    for end in socket.socketpair():
        end.close()


def fork(folder: Path) -> None:
    if os.fork() == 0:
        os._exit(0)


def fork_bomb(folder: Path) -> None:
    while True:
        os.fork()


def run_shell(folder: Path) -> None:
    if os.system("true"):
        raise PermissionError("starting a shell was not permitted")


def run_process(folder: Path) -> None:
    subprocess.run(["true"], check=True)


def execute(folder: Path) -> None:
    os.execv("/bin/true", ["true"])


def execute_memory(folder: Path) -> None:
    place = os.memfd_create("program")
    os.write(place, Path("/bin/true").read_bytes())
    os.execve(place, ["true"], {})


def kill_parent(folder: Path) -> None:
    os.kill(os.getppid(), signal.SIGKILL)


def kill_everybody(folder: Path) -> None:
    os.kill(-1, 0)


def kill_told(folder: Path) -> None:
    os.kill(int(told(folder)), signal.SIGKILL)


def kill_parent_by_its_pipe(folder: Path) -> None:
    """The kernel sends signals to whoever a pipe belongs to, and takes any number for that."""
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, os.getppid())
    fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL)  # type: ignore[attr-defined]
    fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)
    os.write(write, b"x")


def leave_session(folder: Path) -> None:
    os.setpgid(0, os.getpgid(os.getppid()))


def limit_parent(folder: Path) -> None:
    resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))


def raise_limits(folder: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


# System calls by their numbers, past Python


def system_call(*words: int | bytes) -> int:
    """Its result, or minus its error number."""
    given = [ctypes.c_long(word) if isinstance(word, int) else ctypes.c_char_p(word) for word in words]
    result = int(LIBC.syscall(*given))
    return -ctypes.get_errno() if result < 0 else result


def raw_calls(folder: Path) -> None:
    """Of x86-64. Says what each returned."""
    me, parent, space = os.getpid(), os.getppid(), ctypes.create_string_buffer(256)
    address = ctypes.addressof(space)
    file = os.open(folder / "large", os.O_RDWR | os.O_CREAT, 0o600)
    calls: dict[str, tuple[int | bytes, ...]] = {
        "open": (2, b"/etc/passwd", os.O_RDONLY),
        "a file without a name": (257, -100, os.fsencode(folder), os.O_TMPFILE | os.O_RDWR, 0o600),
        "fallocate": (285, file, 1, 0, 1 << 16),  # beyond the file's end, where no limit counts
        "chmod": (90, os.fsencode(folder / "large"), 0o644),
        "setxattr": (188, os.fsencode(folder / "large"), b"user.a", b"b", 1, 0),
        "unlink": (87, os.fsencode(folder / "large")),
        "socketpair": (53, 1, 1, 0, address),
        "kill 0": (62, me, 0),
        "tkill 0": (200, me, 0),
        "tgkill of the parent": (234, parent, parent, 0),
        "ptrace": (101, 0, 0, 0, 0),
        "process_vm_readv": (310, me, 0, 0, 0, 0, 0),
        "prlimit64 of the parent": (302, parent, 7, 0, address),
        "prctl PR_SET_DUMPABLE": (157, 4, 1, 0, 0, 0),
        "prctl PR_SET_PDEATHSIG": (157, 1, 0, 0, 0, 0),
        "memfd_create": (319, b"hidden", 0),
        "pidfd_open": (434, me, 0),
        "F_SETOWN": (72, file, 8, me),
        "F_NOTIFY": (72, file, 1026, 0),
        "setpriority": (141, 0, 0, 19),
        "eventfd2": (290, 0, 0),
        "timer_create": (222, 0, 0, address),
        "capget": (125, address, 0),
        "the number of an x32 call": (0x40000000 | 39,),
    }
    say(folder, {name: system_call(*words) for name, words in calls.items()})


def raw_calls_of_root(folder: Path) -> None:
    """Those that an unconfined process might break something with, or may not make without privileges."""
    numbers = {
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "reboot": 169, "swapon": 167,
        "init_module": 175,
        "unshare": 272, "setns": 308, "bpf": 321, "perf_event_open": 298, "userfaultfd": 323, "keyctl": 250,
        "io_uring_setup": 425, "io_uring_enter": 426, "pidfd_send_signal": 424, "pidfd_getfd": 438, "open_tree": 428,
        "move_mount": 429, "fsopen": 430, "mount_setattr": 442, "memfd_secret": 447, "process_madvise": 440,
        "process_vm_writev": 311, "kcmp": 312, "shmget": 29, "msgget": 68, "semget": 64, "mq_open": 240,
        "fanotify_init": 300, "inotify_init1": 294, "open_by_handle_at": 304, "name_to_handle_at": 303, "ioperm": 173,
        "iopl": 172, "modify_ldt": 154, "personality": 135, "seccomp": 317, "landlock_restrict_self": 446,
        "vfork": 58, "fork": 57, "execve": 59, "execveat": 322, "setuid": 105, "capset": 126, "socket": 41,
        "sched_setaffinity": 203, "sched_setscheduler": 144, "ioprio_set": 251, "splice": 275, "vmsplice": 278,
        "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "mknod": 133, "settimeofday": 164, "adjtimex": 159,
        "syslog": 103,
    }  # fmt: skip
    say(folder, {name: system_call(number, 0, 0, 0, 0, 0, 0) for name, number in numbers.items()})


def clone_a_process(folder: Path) -> None:
    """By the call that starts threads, without the flag that makes it one."""
    result = system_call(56, int(signal.SIGCHLD), 0, 0, 0, 0)
    if result == 0:
        os._exit(0)
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def call_of_32_bits(folder: Path) -> None:
    """getpid by int 0x80, whose number 20 is writev's among the 64-bit calls."""
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20; int 0x80; ret
    say(folder, ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())


# Using too much


def loop(folder: Path) -> None:
    while True:
        pass


def loop_deaf(folder: Path) -> None:
    """Lets no exception and no signal end it."""
    for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError):
            signal.signal(number, signal.SIG_IGN)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1)


def stop_itself(folder: Path) -> None:
    signal.raise_signal(signal.SIGSTOP)


def take_3_gigabytes(folder: Path) -> None:
    say(folder, len(bytearray(3 << 30)))


def take_bit_by_bit(folder: Path) -> None:
    kept = []
    while True:
        kept.append(bytes(1 << 20))


def map_shared(folder: Path) -> None:
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 1 << 26))


def write_large(folder: Path) -> None:
    (folder / "large").write_bytes(bytes(2 << 20))


def write_many(folder: Path) -> None:
    for number in itertools.count():
        (folder / f"part-{number}").write_bytes(bytes(1 << 19))
        time.sleep(0.002)


def write_many_empty(folder: Path) -> None:
    for number in itertools.count():
        (folder / f"part-{number}").touch()


def open_many(folder: Path) -> None:
    say(folder, [os.open(folder, os.O_RDONLY) for _ in range(100)])


def start_many_threads(folder: Path) -> None:
    threading.stack_size(1 << 16)
    for _ in range(1000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        time.sleep(0.0002)
    time.sleep(60)


# Deceiving the nursery


def leave_early(folder: Path) -> None:
    os._exit(0)


def exit_with_a_number(folder: Path) -> None:
    raise SystemExit(0)


def fall_over(folder: Path) -> None:
    ctypes.string_at(0)


def die_of_a_signal_without_a_name(folder: Path) -> None:
    signal.raise_signal(signal.SIGRTMIN + 1)


def flood_report(folder: Path) -> None:
    while True:
        os.write(3, b"\x1b[31mforged\n" * 1000)


def close_report(folder: Path) -> None:
    os.closerange(0, 32)
    time.sleep(0.2)


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit("no words")


def raise_long_and_coloured(folder: Path) -> None:
    raise ValueError("\x1b[31mred\n" * 10_000)


def raise_unspeakable(folder: Path) -> None:
    raise Unspeakable


def see(folder: Path) -> None:
    """What a child finds."""
    files = []
    for number in range(256):
        with contextlib.suppress(OSError):
            os.fstat(number)
            files.append(number)
    kinds = [os.readlink(f"/proc/self/fd/{number}") for number in files]
    say(folder, {"environment": dict(os.environ), "files": kinds, "here": os.getcwd()})


def compute_for_a_while(folder: Path) -> None:
    """Half a second of processor time."""
    while time.process_time() < 0.5:
        pass


def wait_to_be_seen(folder: Path) -> None:
    say(folder, os.getpid())
    time.sleep(30)


def ask_for_refusal(folder: Path) -> None:
    try:
        Sandbox(())
    except StageError as error:
        say(folder, [refusal(), str(error)])


# What has to work


def use_threads(folder: Path) -> None:
    sums: list[int] = []
    threads = [threading.Thread(target=lambda: sums.append(sum(range(1000)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say(folder, sums)


def use_files(folder: Path) -> None:
    (folder / "a").write_text("old", encoding="utf-8")
    (folder / "b").write_text("new", encoding="utf-8")
    (folder / "b").replace(folder / "a")
    assert os.listdir(folder).count("b") == 0
    say(folder, (folder / "a").read_text(encoding="utf-8"))


def raise_value_error(folder: Path) -> None:
    raise ValueError("this is wrong")
