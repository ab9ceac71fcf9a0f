"""Progress of a long stage: a bar with rate and time left on a terminal, a line now and then in a log, and a progress
artifact of its task run in Prefect's UI.
"""

import logging
import multiprocessing
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, cast
from uuid import UUID

from evolora_core.engine.progress import Progress

log = logging.getLogger("evolora_core.stages")

LOG_SECONDS = 30.0
PUBLISH_SECONDS = 5.0


@contextmanager
def progress(label: str, *, lead: str = "") -> Iterator[Progress]:
    """A reporter for one stage. Its bar appears with the first report, its artifact when it has taken a while. `lead`
    stands before the lines of the log, where nothing else says what they are about.
    """
    publish = _artifact(label)
    with _bar(label) if sys.stderr.isatty() else nullcontext(_lines(lead)) as show:

        def report(done: float, total: float, text: str = "") -> None:
            show(done, total, text)
            publish(done, total)

        yield report
        publish(1, 1)


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    from tqdm import tqdm

    worker = multiprocessing.current_process()._identity  # each process of a pool has a line of its own
    bar: tqdm[Any] | None = None

    def report(done: float, total: float, text: str = "") -> None:
        nonlocal bar
        if bar is None:
            place = worker[-1] - 1 if worker else 0  # what a resumed stage has done already says nothing of its rate
            bar = tqdm(total=total, initial=done, desc=label, position=place, leave=False, unit_scale=True)
        bar.total = total
        bar.set_postfix_str(text, refresh=False)
        bar.update(done - bar.n)

    try:
        yield report
    finally:
        if bar is not None:
            bar.close()


def _artifact(label: str) -> Callable[[float, float], None]:
    """Keeps a progress artifact in Prefect, if a task runs here. A server that does not answer is no reason to stop; it
    is not asked again, as Prefect's client takes more than a minute to give up.
    """
    last = time.monotonic()
    known: UUID | None = None
    gone = False

    def publish(done: float, total: float) -> None:
        nonlocal last, known, gone
        if gone or "prefect" not in sys.modules:  # its import takes seconds; where no flow was started, no task runs
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact
        from prefect.context import TaskRunContext

        over = done >= total
        if time.monotonic() - last < PUBLISH_SECONDS and not (over and known) or TaskRunContext.get() is None:
            return
        last = time.monotonic()
        percent = 100 * done / total
        try:
            if known is None:
                key = "progress-" + re.sub("[^a-z0-9]+", "-", label.lower())
                known = cast(UUID, create_progress_artifact(percent, key=key, description=label))
            else:
                update_progress_artifact(known, percent)
        except Exception as error:
            gone = True
            log.debug("no progress artifact: %s", error)

    return publish


def _lines(lead: str) -> Progress:
    last = time.monotonic()
    first: tuple[float, float] | None = None  # when the first report came, and how much was done then

    def report(done: float, total: float, text: str = "") -> None:
        nonlocal last, first
        moment = time.monotonic()
        if first is None or done < first[1]:
            first = moment, done
        if moment - last >= LOG_SECONDS and 0 < done < total:
            last = moment
            # A stage that goes on has much done already: its rate is that since the first report, which tells none.
            since, before = first
            left = f", about {(moment - since) * (total - done) / (done - before):.0f} s left" if done > before else ""
            log.info("%s%.0f %%%s%s", lead, 100 * done / total, left, f", {text}" if text else "")

    return report
