"""The console script `evolora`. Commands import torch and Prefect only when they need them."""

import io
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing import util
from types import FrameType
from typing import NoReturn

from cyclopts import CycloptsError

from evolora_core.engine.home import home_path, set_environment
from evolora_core.errors import EvoloraError
from evolora_core.foreign.text import one_line
from flows.cli import (
    ask,
    attention,
    bench,
    calibrate,
    compare,
    doctor,
    evaluate,
    export,
    export_data,
    host,
    merge,
    pack,
    regime_map,
    retry,
    run,
    scope,
    serve,
    serve_run,
    settings,
    sql,
    status,
    store,
    task,
    track,
)
from flows.cli._app import app

__all__ = ["app", "console", "main"]

KEEPING = ("run", "calibrate", "retry")  # the commands that make stages

for module in (
    run, settings, calibrate, serve, status, retry, sql, store, pack, compare, regime_map, task, evaluate, host, merge,
    attention, export, export_data, ask, serve_run, track, scope, bench, doctor,
):  # fmt: skip
    module.register(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and exit: 0 done, 1 it could not be done, 2 it was asked wrongly, 130 interrupted, 141
    nobody reads on (as with `| head`), 143 terminated.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    if blank := [number for number, word in enumerate(given) if not word.strip() or _without_value(word)]:
        before = f" (behind {given[blank[0] - 1]!r})" if blank[0] and not given[blank[0]].strip() else ""
        _say(f"error: argument {blank[0] + 1}{before} is empty; give it a value, or leave it out")
        sys.exit(2)
    try:
        code = app(
            given,
            exit_on_error=False,
            print_error=False,
            result_action="return_int_as_exit_code_else_zero",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        command = " ".join(["evolora", *(error.command_chain or [])])
        _say(f"error: {one_line(error)} See `{command} --help`.")
        code = 2
    except EvoloraError as error:
        _say(f"error: {one_line(error)}")
        code = 1
    except KeyboardInterrupt as end:
        how, code = ("terminated", 143) if isinstance(end, Terminated) else ("interrupted", 130)
        _say(f"{how}; the same command goes on from what is kept" if given[0] in KEEPING else how)
    except BrokenPipeError:
        if not _unread():  # it is another pipe
            raise
        code = 141
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _say(f"error: {one_line(f'{place}{error.strerror or error}')}")
        _quiet()  # what cannot be written now cannot be written at the end either
        code = 1
    except MemoryError:
        _say("error: the memory of this machine does not suffice for that")
        code = 1
    except Exception as error:  # a fault of ours: the border that should have caught it has to learn it
        _say(f"error: {one_line(_unexpected(error))}")
        code = 1
    sys.exit(code)


def _without_value(word: str) -> bool:
    """Whether a word is an option that ends in its equals sign, as in `--packs=`."""
    return word.startswith("--") and word.endswith("=") and word.count("=") == 1


class Terminated(KeyboardInterrupt):
    """SIGTERM, taken like Ctrl-C: a shell lets a command that a script starts with `&` ignore Ctrl-C for good, and
    `kill PID` is what ends it.
    """


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _unread() -> bool:
    """Whether whoever read our output is gone; what is left of it then goes nowhere, quietly."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    gone = any(event & select.POLLERR for _, event in poll.poll(0))
    if gone:
        _quiet()
    return gone


def _say(line: str) -> None:
    """Print an error's line. Nobody may read it: in `evolora run … 2>&1 | tee log`, Ctrl-C ends `tee` too."""
    with suppress(OSError):
        print(line, file=sys.stderr)


def _unexpected(error: Exception) -> str:
    """What to say of a fault of this program, whose traceback goes into a file for whoever reports it."""
    what = f"{type(error).__name__}: {one_line(error, 200)}"
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="evolora-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
    except OSError:
        return f"a fault of evolora ({what})"
    return f"a fault of evolora ({what}); please report it with {file.name}"


def _quiet() -> None:
    """Send what is still to be printed nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> NoReturn:
    """The console script: `main`, and out at once where it failed. Prefect would stay for minutes, to tell a server
    that may be gone what happened.
    """
    for name in ("stdout", "stderr"):  # closed by whoever started us
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    try:
        set_environment(home_path())  # before any library reads it
    except (OSError, RuntimeError) as error:  # no such user, or the working directory is gone
        print(f"error: EVOLORA_HOME: {one_line(error)}; set it to a folder that is there", file=sys.stderr)
        sys.exit(1)
    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)
    for stream in (sys.stdout, sys.stderr):  # a character that the terminal's encoding lacks must not end us
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        main()
    except SystemExit as end:
        if end.code:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError):  # nobody may read it
                    stream.flush()
            util._run_finalizers()  # type: ignore[attr-defined]  # or Python says that the workers' semaphores leak
            os._exit(int(end.code))
        raise
