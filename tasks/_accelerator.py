"""One stage at a time on an accelerator, whichever process or suite of this user it belongs to."""

import gc
import logging
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from evolora_core.engine.progress import WAITS

log = logging.getLogger("evolora_core.stages")


@contextmanager
def accelerator(device: str) -> Iterator[None]:
    """Wait for the turn on `device` (cuda, cuda:1, ...) and leave its memory to the next. The CPU needs no turns: its
    threads are counted.
    """
    if device == "cpu":
        yield
        return
    lock = FileLock(_lock_file(device))
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        log.log(WAITS, "waiting for %s, which another stage uses", device)
        held = lock.acquire()
    with held:
        try:
            yield
        finally:
            _release_memory()  # raises where a kernel failed


def _lock_file(device: str) -> Path:
    """`cuda` is `cuda:0`, and which device that is depends on those that the process sees."""
    kind, _, number = device.partition(":")
    seen = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    index = int(number or 0)
    own = seen[index] if index < len(seen) else index
    return Path(tempfile.gettempdir()) / f"evolora-{os.getuid()}-{kind}-{own}.lock"


def _release_memory() -> None:
    import torch

    if torch.cuda.is_initialized():
        from evolora_core.language.hosts.kept import drop_host

        drop_host()  # an idle process that keeps a large host leaves no room for the next one's
        gc.collect()
        torch.cuda.empty_cache()
