"""A process that runs stages: its threads and its log."""

import logging
import multiprocessing
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

from tqdm import tqdm

from evolora_core.engine.progress import WAITS
from tasks._log import Console


def start_worker(threads: int) -> None:
    """Prepare a process before it computes: its log, its end, and the number of threads of whatever it imports."""
    if os.environ.get("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL") == "CRITICAL":  # else Prefect shows our lines too
        show_log(worker=True)
    if parent := multiprocessing.parent_process():
        # A terminal sends Ctrl-C to all its processes. Not SIG_IGN, which whatever a worker starts would inherit.
        signal.signal(signal.SIGINT, _left_to_the_parent)
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    tqdm.set_lock(threading.RLock())  # its own is shared between processes, and Python warns that ours leave it behind


def _end_with(parent: Any) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent.join()
    os._exit(1)


def _left_to_the_parent(number: int, frame: FrameType | None) -> None:
    """The parent ends its workers when it is interrupted."""


def show_log(*, worker: bool = False) -> None:
    """Send the project's own log to stderr. On a terminal a worker has a bar, and says only what the bar cannot."""
    terminal = sys.stderr.isatty()
    logger = logging.getLogger("evolora_core")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, Console) for handler in logger.handlers):
        handler = Console("\r\x1b[K" if terminal else "")  # a line may hold what is left of a bar
        handler.setLevel(WAITS if terminal and worker else logging.INFO)
        logger.addHandler(handler)
