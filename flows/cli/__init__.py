"""The console script `evolora`. Commands import torch and Prefect only when they need them."""

import os
import select
import sys
from collections.abc import Sequence
from typing import NoReturn

from cyclopts import CycloptsError

from evolora_core.errors import EvoloraError
from evolora_core.home import home_path, set_environment
from flows.cli import bench, doctor, evaluate, export, host, pack, regime_map, retry, run, serve, sql, status, store
from flows.cli._app import app

__all__ = ["app", "console", "main"]

for module in (run, serve, status, retry, sql, store, pack, regime_map, evaluate, host, export, bench, doctor):
    module.register(app)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and exit: 0 done, 1 it could not be done, 2 it was asked wrongly, 130 interrupted, 141
    nobody reads on (as with `| head`).
    """
    try:
        code = app(
            list(sys.argv[1:] if arguments is None else arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_int_as_exit_code_else_zero",
        )
        sys.stdout.flush()
    except CycloptsError as error:
        print(f"error: {' '.join(str(error).split())} See `evolora --help`.", file=sys.stderr)
        code = 2
    except EvoloraError as error:
        print(f"error: {error}", file=sys.stderr)
        code = 1
    except KeyboardInterrupt:
        print("interrupted; the same command goes on from here", file=sys.stderr)
        code = 130
    except BrokenPipeError:
        if not _unread():  # it is another pipe
            raise
        code = 141
    except OSError as error:
        print(f"error: {f'{error.filename}: ' if error.filename else ''}{error.strerror or error}", file=sys.stderr)
        _quiet()  # what cannot be written now cannot be written at the end either
        code = 1
    sys.exit(code)


def _unread() -> bool:
    """Whether whoever read our output is gone; what is left of it then goes nowhere, quietly."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    gone = any(event & select.POLLERR for _, event in poll.poll(0))
    if gone:
        _quiet()
    return gone


def _quiet() -> None:
    """Send what is still to be printed nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def console() -> NoReturn:
    """The console script: `main`, and out at once where it failed. Prefect would stay for minutes, to tell a server
    that may be gone what happened.
    """
    set_environment(home_path())  # before any library reads it
    try:
        main()
    except SystemExit as end:
        if end.code:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(end.code))
        raise
