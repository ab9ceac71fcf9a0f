"""Progress of a long stage: a bar with rate and time left on a terminal, a line now and then in a log."""

import logging
import multiprocessing
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

log = logging.getLogger("evolora_core.stages")

LOG_SECONDS = 30.0


class Report(Protocol):
    """Called by long loops."""

    def __call__(self, done: float, total: float, text: str = "") -> None: ...


@contextmanager
def progress(label: str) -> Iterator[Report]:
    """A reporter for one stage. Its bar appears with the first report."""
    if sys.stderr.isatty():
        with _bar(label) as report:
            yield report
    else:
        yield _lines(label)


@contextmanager
def _bar(label: str) -> Iterator[Report]:
    from tqdm import tqdm

    worker = multiprocessing.current_process()._identity  # each process of a pool has a line of its own
    bar: tqdm | None = None

    def report(done: float, total: float, text: str = "") -> None:
        nonlocal bar
        if bar is None:
            bar = tqdm(total=total, desc=label, position=worker[-1] - 1 if worker else 0, leave=False, unit_scale=True)
        bar.total = total
        bar.set_postfix_str(text, refresh=False)
        bar.update(done - bar.n)

    try:
        yield report
    finally:
        if bar is not None:
            bar.close()


def _lines(label: str) -> Report:
    started = last = time.monotonic()

    def report(done: float, total: float, text: str = "") -> None:
        nonlocal last
        moment = time.monotonic()
        if moment - last >= LOG_SECONDS and 0 < done < total:
            last = moment
            left = (moment - started) * (total - done) / done
            log.info("%s %.0f %%, about %.0f s left%s", label, 100 * done / total, left, f", {text}" if text else "")

    return report
