"""The panel that programs are measured at: one corpus, a rate for each size, sandboxes that work at the same time.

Results come back in the order in which they were asked for, so that how many sandboxes there are changes nothing.
"""

import errno
import math
import os
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import numpy as np

from evolora_core.errors import StageError
from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Sandbox, refusal
from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.host.training import TrainSpec
from evolora_core.searches.attention.judging.kept import (
    Verdict,
    keep_measured,
    keep_verdict,
    kept_measured,
    kept_verdict,
    key_of,
)
from evolora_core.searches.attention.judging.measure import (
    CHILD,
    Checked,
    Contract,
    Measured,
    baseline_costs,
    check,
    measure,
)
from evolora_core.searches.attention.programs.rejection import Rejection
from evolora_core.searches.attention.settings import Bounds, Training

LADDER_STEPS = 60  # baseline steps at the smallest size that the ladder is charged as; its own training has 50
FILE_BYTES = 1 << 28
KERNEL_KILL = "it died of SIGKILL"  # in the words of evolora_core.sandbox.nursery
NO_ROOM = os.strerror(errno.ENOSPC)  # in the words of the library that could not write
ROOM = 64 << 20  # bytes that a disk which is not full has left

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Task:
    """One program at one size with one training seed. rate: None for that of the panel."""

    source: str
    size: str
    seed: int
    rate: float | None = None


def select(corpus: Corpus, split: str) -> Corpus:
    """The corpus with the texts of one split: `selection` has the even ones, `test` the odd ones."""
    own = slice(0 if split == "selection" else 1, None, 2)
    return replace(corpus, texts=corpus.texts[own], lengths=corpus.lengths[own], kinds=corpus.kinds[own])


class Panel:
    """Measures programs. A context manager, which starts and ends the sandboxes.

    bounds    what one evaluation may use
    parallel  evaluations at a time
    trusted   all that will be measured are programs of this project: where the machine cannot confine programs, these
              alone are run, unconfined
    keep      folder of a stage: its measurements stand in its scratch until the stage is done, so that one that was
              killed goes on; none: nothing is kept
    """

    def __init__(
        self,
        corpus: Corpus,
        training: Training,
        rates: Mapping[str, float],
        bounds: Bounds,
        *,
        trusted: bool,
        parallel: int = 1,
        keep: Path | None = None,
    ) -> None:
        self.corpus, self.training, self.rates, self.trusted = corpus, training, rates, trusted
        self._limits = Limits(seconds=60 * bounds.minutes, memory=bounds.megabytes << 20, file_bytes=FILE_BYTES)
        confined = not (trusted and refusal())
        self._sandboxes = [Sandbox((CHILD,), confined=confined) for _ in range(parallel)]
        self._free: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()
        self._temporary = keep is None
        self._folder = keep / ".work" / "measured" if keep else Path(tempfile.mkdtemp(prefix="evolora-panel-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        self._contracts: dict[tuple[str, ...], Contract] = {}
        self._asked: dict[Path, threading.Lock] = {}  # equal questions at the same time have one answer
        self._counting = threading.Lock()  # operations are counted by hooks that all threads of the process share

    def __enter__(self) -> Self:
        try:
            for sandbox in self._sandboxes:
                self._free.put(sandbox.__enter__())
        except BaseException as error:
            self.__exit__(type(error), error)  # those that did start
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        self.interrupt(error)
        for sandbox in self._sandboxes:
            sandbox.close()
        if self._temporary:
            shutil.rmtree(self._folder, ignore_errors=True)

    def spec(self, task: Task) -> TrainSpec:
        """How a program is trained."""
        own, rate = self.training, task.rate or self.rates[task.size]
        return TrainSpec(own.steps, own.batch, self.corpus.context, rate, own.warmup)

    def check(self, source: str, framework: str, sizes: Sequence[str]) -> Verdict:
        """Whether a program is refused before it is trained, and why. `framework` "": the whole file is free."""
        contract = self._contract(tuple(sizes))
        place = self._folder / key_of("check", source, framework, *sizes)
        with self._asked.setdefault(place, threading.Lock()):
            if (kept := kept_verdict(place)) is not None:
                return kept
            with self._sandbox(place) as sandbox:
                found = _asked_twice(lambda: check(sandbox, source, framework or None, contract, place, self._limits))
            self._blame(found, "while it was examined")
            verdict = Verdict(found.rejection, found.cpu_seconds)
            if not found.lost:
                keep_verdict(place, verdict)
            return verdict

    def measure(self, task: Task) -> Measured:
        """Train and score one program at one size."""
        spec, size = self.spec(task), SIZES[task.size]
        place = self._folder / key_of("measure", task.source, task.size, task.seed, asdict(spec))
        with self._asked.setdefault(place, threading.Lock()):
            if (kept := kept_measured(place)) is not None:
                return kept
            with self._sandbox(place) as sandbox:
                found = _asked_twice(
                    lambda: measure(sandbox, task.source, size, spec, self.corpus, task.seed, place, self._limits)
                )
            self._blame(found, f"at size {task.size} with seed {task.seed}")
            if not found.lost:
                keep_measured(place, found)
            return found

    def _blame(self, found: Checked | Measured, where: str) -> None:
        """StageError where a program of this project was lost twice: it is the machine that is short of something, and
        a retry asks anew. Programs of others count as refused, for they could end the stage; OSError where the disk is
        indeed full.
        """
        if found.lost and shutil.disk_usage(self._folder).free < ROOM:
            raise OSError(errno.ENOSPC, NO_ROOM, str(self._folder))
        if found.lost and self.trusted:
            why = found.rejection.reason if found.rejection else "its sandbox was lost"
            raise StageError(
                f"a program was lost twice {where} ({why}); the machine may be out of memory: lower budget.parallel or "
                "processes, then retry"
            )

    def flops(self, measured: Measured, size: str, plain: Mapping[str, int]) -> int:
        """What a measurement is charged: its training, and its answers to the held-out prefixes.

        Of a program that was refused while it trained no count came back: it is charged as the baseline, of which
        `plain` has the operations of a training step by size.
        """
        step = measured.flops or plain[size]
        answers = step * len(self.corpus.texts) // (3 * self.training.batch)  # a forward is a third of a step
        return step * self.training.steps + answers

    def plain(self, curve: Curve, sizes: Sequence[str]) -> int:
        """What measuring a program once at these sizes is charged, such as the baseline. curve: of that program."""
        steps, texts, batch = self.training.steps, len(self.corpus.texts), self.training.batch
        return sum(own * steps + own * texts // (3 * batch) for own in (curve.flops[size] for size in sizes))

    def map(self, function: Callable[[Asked], Answer], asked: Sequence[Asked]) -> Iterator[Answer]:
        """`function` of each, at the same time as far as there are sandboxes, in order."""
        with ThreadPoolExecutor(len(self._sandboxes)) as pool:
            try:
                yield from pool.map(function, asked)
            except BaseException as error:
                self.interrupt(error)
                raise

    def interrupt(self, error: BaseException | None) -> None:
        """End what runs, where somebody wants to leave: whoever asks from threads waits for them."""
        if error is not None and not isinstance(error, Exception | GeneratorExit):
            for sandbox in self._sandboxes:
                sandbox.interrupt()

    def _contract(self, sizes: tuple[str, ...]) -> Contract:
        with self._counting:
            if sizes not in self._contracts:
                own = tuple(SIZES[size] for size in sizes)
                costs = baseline_costs(own, self.corpus.context, self.corpus.vocab)
                self._contracts[sizes] = Contract(own, self.corpus.context, self.corpus.vocab, costs)
            return self._contracts[sizes]

    @contextmanager
    def _sandbox(self, folder: Path) -> Iterator[Sandbox]:
        """A free sandbox. The folder in which it works is removed afterwards, and stays if it is interrupted."""
        sandbox = self._free.get()
        try:
            yield sandbox
            shutil.rmtree(folder, ignore_errors=True)
        finally:
            self._free.put(sandbox)


Ended = TypeVar("Ended", Checked, Measured)


def _asked_twice(ask: Callable[[], Ended]) -> Ended:
    """What came of a child process. Where somebody else ended it or its sandbox, as a machine that is out of memory
    does, or the disk had no room for its answers, the program may be all right, so it is asked again. One that is lost
    twice is charged the time that passed, and is not kept: if the stage is retried, it is asked anew.
    """
    found = ask()
    if _lost(found):
        found = ask()
    seconds = found.cpu_seconds if math.isfinite(found.cpu_seconds) else found.wall_seconds
    return replace(found, cpu_seconds=seconds, lost=_lost(found))


def _lost(found: Checked | Measured) -> bool:
    reason = found.rejection.reason if found.rejection else ""
    return reason == KERNEL_KILL or NO_ROOM in reason or not math.isfinite(found.cpu_seconds)


def diverged(rejection: Rejection) -> bool:
    """Whether a training was refused as its rate was too high."""
    return any(word in rejection.reason for word in ("not finite", "NaN"))


def mend(rejection: Rejection) -> str:
    """What a user can do where the training of a program that has to be measured was refused."""
    if diverged(rejection):
        return "name lower training.rates (--rates)"
    mends = {
        "timeout": "raise budget.minutes (--minutes)",
        "memory": "raise budget.megabytes or take smaller sizes",
    }
    return mends.get(rejection.stage, "mend the program")


def add(curve: Curve, size: str, seed: int, measured: Measured) -> None:
    """Enter a measurement that came to an end."""
    assert measured.losses is not None
    curve.n[size], curve.flops[size] = measured.parameters, measured.flops
    curve.texts[size, seed] = measured.losses.astype(np.float32)
    curve.seconds[size, seed] = measured.cpu_seconds
