"""How many evaluations of attention programs an hour, and what the sandbox adds to the same work in this process."""

import importlib
import tempfile
import time
from functools import partial
from pathlib import Path

import torch

from evolora_core.errors import StageError
from evolora_core.sandbox import warming
from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Outcome, Sandbox, refusal
from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.host.training import TrainSpec
from evolora_core.searches.attention.judging.measure import CHILD, measure
from evolora_core.searches.attention.known.registry import get_known
from flows.bench.timing import Row, row, side_by_side

LIMITS = Limits(seconds=3600, memory=2 << 30, file_bytes=1 << 28)
RATE, WARMUP = 0.004, 0.1


class Here(Sandbox):
    """Does what a sandbox does, in this process and unconfined."""

    def __init__(self) -> None:
        super().__init__(confined=False)

    def run(self, folder: Path, entry: str, limits: Limits) -> Outcome:
        module, function = entry.split(":")
        started = time.perf_counter()
        getattr(importlib.import_module(module), function)(folder)
        return Outcome("ok", "", time.process_time(), time.perf_counter() - started, 0)


def _evaluate(place: Sandbox, source: str, size: str, spec: TrainSpec, corpus: Corpus, work: Path) -> None:
    """One evaluation in a folder of its own, since a long training goes on from the state that another one left. Raises
    StageError where the program is refused: then nothing was measured.
    """
    folder = Path(tempfile.mkdtemp(dir=work))
    found = measure(place, source, SIZES[size], spec, corpus, 0, folder, LIMITS)
    if found.rejection is not None:
        raise StageError(f"bench attention at size {size}: the program was refused: {found.rejection}")


def measure_all(program: str, sizes: list[str], steps: int, batch: int, texts: int, repeats: int) -> list[Row]:
    """Rows for each size, and for all of them together."""
    torch.set_num_threads(1)
    warming.load((CHILD,))  # as in the sandbox: else the first program here seems to change torch
    corpus = make_corpus(CorpusSettings(held_out=texts), 0)
    source, rows = get_known(program).source, []
    note = f"{program}, {steps} steps of {batch} rows, {texts} texts: in the sandbox, and in this process"
    ours = theirs = 0.0
    with tempfile.TemporaryDirectory(prefix="evolora-bench-") as work, Sandbox((CHILD,), confined=not refusal()) as box:
        for size in sizes:
            spec = TrainSpec(steps, batch, corpus.context, RATE, int(WARMUP * steps))
            ways = {
                name: partial(_evaluate, place, source, size, spec, corpus, Path(work))
                for name, place in (("sandbox", box), ("here", Here()))
            }
            taken = side_by_side(ways, repeats, f"size {size}")
            ours, theirs = ours + taken["sandbox"], theirs + taken["here"]
            rows.append(row(f"evaluation at {size}", taken["sandbox"], taken["here"], "s", note))
    every = ", ".join(sizes)
    rows.append(row(f"evaluation at {every}", ours, theirs, "s", f"{note}; 1.05 is an overhead of 5 %"))
    rows.append(row(f"evaluations an hour at {every}", 3600 / ours, 3600 / theirs, "1/h", f"{note}, one at a time"))
    return rows
