"""What a panel keeps, so that a stage that was killed does not train again what it had."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from searches.attention.attention_attacks import program

from evolora_core.engine.meter import Meter
from evolora_core.errors import StageError
from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Outcome, Sandbox
from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.curves import Curve, joined, load_curve, save_curve
from evolora_core.searches.attention.host.training import SAVED
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.measuring import measure_all
from evolora_core.searches.attention.panel import KERNEL_KILL, NO_ROOM, Panel, Task
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
        assert after.check(TASK.source, "", ["xs"]) == verdict and verdict.rejection is None
        other = after.measure(Task(TASK.source, "xs", 4))
        assert other.losses is not None and not np.array_equal(other.losses, first.losses)
    assert [path.name for path in tmp_path.iterdir()] == [".work"]  # which is no part of a finished stage


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


def test_who_interrupts_does_not_wait_for_what_is_trained(tmp_path: Path) -> None:
    """These trainings take minutes, and those that wait for a sandbox are not begun."""
    own = make_corpus(SETTINGS, 1)
    training = Training(steps=1_000_000, batch=2, warmup=1, rates=[0.01])
    began = time.monotonic()

    def interrupt(task: Task) -> None:
        if task.seed:
            made.measure(task)
        while not any(sandbox._lock.locked() for sandbox in made._sandboxes):
            time.sleep(0.01)
        raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        Panel(own, training, {"xs": 0.01}, Bounds(), trusted=True, parallel=2, keep=tmp_path) as made,
    ):
        list(made.map(interrupt, [Task(TASK.source, "xs", seed) for seed in (0, 1, 2)]))
    assert time.monotonic() - began < 300  # Bounds() has half an hour


def test_a_sandbox_that_is_lost_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What killed it may be the machine."""
    outcomes: list[Outcome] = []
    run = Sandbox.run

    def counted(self: Sandbox, folder: Path, entry: str, limits: Limits) -> Outcome:
        if len(outcomes) < lost:
            self._start()  # what was lost before
            assert self._nursery is not None
            threading.Timer(0.2, self._nursery.kill).start()
        outcomes.append(run(self, folder, entry, limits))
        return outcomes[-1]

    monkeypatch.setattr(Sandbox, "run", counted)
    for lost, stage in ((1, None), (2, "train")):
        outcomes.clear()
        with panel(tmp_path / str(lost), steps=400) as made:
            made.trusted = False
            found = made.measure(TASK)
        assert len(outcomes) == 2 and math.isnan(outcomes[0].cpu_seconds) and math.isfinite(found.cpu_seconds)
        assert (found.rejection and found.rejection.stage) == stage


def test_a_child_that_the_machine_killed_is_asked_again_and_never_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel ends such a child first when memory is short: another one would have come to its end."""
    run = Sandbox.run
    killed = iter([True, True, True, True, False])

    def short_of_memory(self: Sandbox, folder: Path, entry: str, limits: Limits) -> Outcome:
        outcome = run(self, folder, entry, limits)
        return replace(outcome, status="killed", reason=KERNEL_KILL) if next(killed) else outcome

    monkeypatch.setattr(Sandbox, "run", short_of_memory)
    with pytest.raises(KeyboardInterrupt), panel(tmp_path) as before:
        before.trusted = False
        refused, verdict = before.measure(TASK), before.check(TASK.source, "", ["xs"])
        assert refused.rejection and verdict.rejection
        assert refused.rejection.reason == verdict.rejection.reason == KERNEL_KILL
        raise KeyboardInterrupt
    with panel(tmp_path) as after:
        assert after.measure(TASK).losses is not None


def test_a_program_of_ours_that_is_lost_twice_is_an_error_and_no_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage that ends is not asked again: a search would have thrown away a good program for good."""
    run = Sandbox.run

    def short_of_memory(self: Sandbox, folder: Path, entry: str, limits: Limits) -> Outcome:
        return replace(run(self, folder, entry, limits), status="killed", reason=KERNEL_KILL)

    asked = (["xs"], [3], Meter(), "evaluation", lambda *_: None, Curve())
    with panel(tmp_path) as made, monkeypatch.context() as short:
        short.setattr(Sandbox, "run", short_of_memory)
        for ask, where in (
            (lambda: measure_all(made, "mha", TASK.source, *asked), "at size xs with seed 3"),
            (lambda: made.measure(TASK), "at size xs with seed 3"),
            (lambda: made.check(TASK.source, "", ["xs"]), "while it was examined"),
        ):
            with pytest.raises(StageError, match=rf"lost twice {where} .*may be out of memory: lower budget.parallel"):
                ask()
        made.trusted = False
        other = measure_all(made, "mha", TASK.source, *asked)
        assert other.mean("xs", 3) == pytest.approx(math.log(made.corpus.vocab)) and other.refused
        made.trusted = True
        short.undo()
        assert not measure_all(made, "mha", TASK.source, *asked).refused


# Whether it returns numbers is drawn with its weights.
MOODY = program("self.well = float(torch.rand(())) < 0.5", after="y = y if self.well else y * math.inf")


def test_a_training_that_fails_at_the_end_counts_as_a_model_that_knows_nothing(tmp_path: Path) -> None:
    with panel(None) as made:
        ends = {seed: made.measure(Task(MOODY, "xs", seed)).losses is not None for seed in range(12)}
        well, ill = (next(seed for seed, ended in ends.items() if ended is kind) for kind in (True, False))
        asked = (["xs"], [ill, well], Meter(), "evaluation", lambda *_: None)
        with pytest.raises(StageError, match=f"xs with seed {ill}: train: .*; name lower training.rates .*, or leave"):
            measure_all(made, "moody", MOODY, *asked)
        found = measure_all(made, "moody", MOODY, *asked, Curve())
        assert found.mean("xs", ill) == pytest.approx(math.log(made.corpus.vocab))
        assert found.mean("xs", well) != found.mean("xs", ill) and found.n["xs"] > 0
        alone = (["xs"], [ill], Meter(), "evaluation", lambda *_: None)
        assert measure_all(made, "moody", MOODY, *alone, found).flops == found.flops
        plain = measure_all(made, "mha", TASK.source, *alone)
        single = measure_all(made, "moody", MOODY, *alone, Curve())  # with no other seed does it train
        assert (single.n, single.flops) == (plain.n, plain.flops) and single.mean("xs", ill) == found.mean("xs", ill)
        assert list(found.refused) == list(single.refused) == [("xs", ill)] and not plain.refused
        assert single.refused["xs", ill].startswith("train: the loss is not finite")
        save_curve(single, tmp_path / "curve")
        assert load_curve(tmp_path / "curve").refused == joined([plain, single]).refused == single.refused


KILLED = """
import sys
from pathlib import Path
from searches.attention.test_attention_panel import LONG, TASK, panel
with panel(Path(sys.argv[1]), steps=LONG) as made:
    made.measure(TASK)
"""


def test_a_disk_without_room_is_no_fault_of_a_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logits are what does not fit: whether the disk is full says the parent, since a program may say anything."""
    run = Sandbox.run

    def full(self: Sandbox, folder: Path, entry: str, limits: Limits) -> Outcome:
        outcome = run(self, folder, entry, limits)
        words = {"status": "rejected", "stage": "train", "reason": f"OSError: [Errno 28] {NO_ROOM}", "place": ""}
        (folder / "result.json").write_text(json.dumps(words))
        return outcome

    usage = shutil.disk_usage(tmp_path)
    with panel(tmp_path) as made, monkeypatch.context() as short:
        short.setattr(Sandbox, "run", full)
        made.trusted = False
        said = made.measure(TASK)
        assert said.lost and said.rejection and said.rejection.stage == "train"
        short.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
        with pytest.raises(OSError, match=NO_ROOM):
            made.measure(TASK)
        short.undo()
        assert made.measure(TASK).losses is not None


@pytest.mark.slow
def test_a_long_training_goes_on_from_its_last_state(tmp_path: Path) -> None:
    """kill -9 once its first state is there."""
    with panel(None, steps=LONG) as made:
        whole = made.measure(TASK)
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=environment, start_new_session=True)
    deadline = time.monotonic() + 300
    while not (states := list(tmp_path.glob(".work/measured/*/state.safetensors"))):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert states
    with panel(tmp_path, steps=LONG) as made:
        found = made.measure(TASK)
    assert whole.losses is not None and found.losses is not None and np.array_equal(whole.losses, found.losses)
    assert found.cpu_seconds > whole.cpu_seconds / 2  # a tenth of the steps, and what the others had taken
