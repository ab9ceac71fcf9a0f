"""What a panel keeps, so that a stage that was killed does not train again what it had."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.training import SAVED
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.panel import Panel, Task
from evolora_core.searches.attention.settings import Bounds, Training

SETTINGS = CorpusSettings(shares={"markov": 1.0}, train=64, held_out=40, context=16)
TASK = Task(KNOWN["mha"].source, "xs", 3)
LONG = SAVED + SAVED // 10


def panel(keep: Path | None, *, steps: int = 5, minutes: float = 5, corpus: Corpus | None = None) -> Panel:
    own = corpus or make_corpus(SETTINGS, 1)
    training = Training(steps=steps, batch=2, warmup=1, rates=[0.01])
    return Panel(own, training, {"xs": 0.01}, Bounds(minutes=minutes), trusted=True, keep=keep)


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), panel(tmp_path) as before:
        first, verdict = before.measure(TASK), before.check(TASK.source, "", ["xs"])
        raise KeyboardInterrupt
    with panel(tmp_path) as after:
        again = after.measure(TASK)
        assert vars(again) | {"losses": None} == vars(first) | {"losses": None}  # processor time and all
        assert first.losses is not None and again.losses is not None and np.array_equal(first.losses, again.losses)
        assert after.check(TASK.source, "", ["xs"]) == verdict is None
        other = after.measure(Task(TASK.source, "xs", 4))
        assert other.losses is not None and not np.array_equal(other.losses, first.losses)
    assert not list(tmp_path.iterdir())  # a panel that was closed keeps nothing


def test_a_refusal_is_kept_too(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), panel(tmp_path, minutes=0.002, steps=5000) as before:
        refused = before.measure(TASK)
        raise KeyboardInterrupt
    assert refused.losses is None and refused.rejection is not None and refused.rejection.stage == "timeout"
    with panel(tmp_path, steps=5000) as after:
        assert after.measure(TASK) == refused


def test_equal_questions_at_the_same_time_have_one_answer(tmp_path: Path) -> None:
    own = make_corpus(SETTINGS, 1)
    training = Training(steps=5, batch=2, warmup=1, rates=[0.01])
    with Panel(own, training, {"xs": 0.01}, Bounds(), trusted=True, parallel=2, keep=tmp_path) as made:
        one, two = made.map(made.measure, [TASK, TASK])
    assert one.cpu_seconds == two.cpu_seconds


KILLED = """
import sys
from pathlib import Path
from searches.attention.test_attention_panel import LONG, TASK, panel
with panel(Path(sys.argv[1]), steps=LONG) as made:
    made.measure(TASK)
"""


@pytest.mark.slow
def test_a_long_training_goes_on_from_its_last_state(tmp_path: Path) -> None:
    """kill -9 once its first state is there."""
    with panel(None, steps=LONG) as made:
        whole = made.measure(TASK)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, start_new_session=True)
    deadline = time.monotonic() + 300
    while not (states := list(tmp_path.glob("measured/*/state.safetensors"))):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert states
    with panel(tmp_path, steps=LONG) as made:
        found = made.measure(TASK)
    assert whole.losses is not None and found.losses is not None and np.array_equal(whole.losses, found.losses)
    assert found.curve == whole.curve and found.steps == LONG
    assert found.cpu_seconds < whole.cpu_seconds  # a tenth of the steps
