"""Where a machine cannot confine programs, those of this project run all the same, and no others."""

import numpy as np
import pytest

from evolora_core.errors import StageError
from evolora_core.sandbox import run
from evolora_core.searches.attention import panel as panels
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.panel import Panel, Task, select
from evolora_core.searches.attention.settings import Budget, Training


def made(trusted: bool) -> Panel:
    settings = CorpusSettings(shares={"markov": 1.0}, train=64, held_out=48, context=32)
    corpus = select(make_corpus(settings, 1), "selection")
    return Panel(corpus, Training(steps=4, batch=4, warmup=1), {"xs": 0.004}, Budget(), trusted=trusted)


def test_without_confinement_ours_run_to_the_same_losses_and_foreign_ones_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = Task(KNOWN["rope"].source, "xs", 5)
    confined = None
    if not run.refusal():
        with made(trusted=True) as panel:
            confined = panel.measure(task).losses
    for module in (panels, run):
        monkeypatch.setattr(module, "refusal", lambda: "the kernel offers no Landlock")
    with made(trusted=True) as panel:
        found = panel.measure(task)
    assert found.losses is not None and np.isfinite(found.losses).all()
    assert confined is None or (found.losses == confined).all()
    with pytest.raises(StageError, match="no Landlock"):
        made(trusted=False)
