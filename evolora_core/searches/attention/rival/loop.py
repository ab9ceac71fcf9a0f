"""OpenEvolve as a strategy: it says which program is changed, the grammar how, and the panel what that is worth.

Its programs are candidates as those of every strategy are, charged alike and committed one by one. Four things differ:

- OpenEvolve is not reproducible: its ids are random and its programs stand in sets, so that equal seeds do not give
  equal runs. A search that was killed keeps its candidates and what is left of its budget, and OpenEvolve begins again
  from the baseline, whose children are new ones.
- To OpenEvolve a program that was refused is worth 0, and programs weigh by their score: it has to be positive for all
  that live. It is told exp(score), which orders programs as the score does; the baseline has 1.
- It has no crossing: programs have one parent.
- It proposes while others are measured, so that a parent may not know the last generation.
"""

import json
import logging
import math
import os
import signal
import socketserver
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

from evolora_core.engine.commits import commit
from evolora_core.engine.progress import Progress
from evolora_core.errors import StageError
from evolora_core.searches.attention.candidates import Candidate
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.evolution import Run, judge, outside, restore, stopped, write, write_state
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.panel import Panel
from evolora_core.searches.attention.programs.normal import program_id
from evolora_core.searches.attention.proposers.base import Proposal, Proposer, Request, Scored
from evolora_core.searches.attention.rival.talk import SOCKET
from evolora_core.searches.attention.strategies import BASELINE, TRIES

log = logging.getLogger(__name__)
CHILD = "evolora_core.searches.attention.rival.child"
LONGEST = 1_000_000  # characters of a program
PATIENCE = 0.1  # seconds between looks at whether OpenEvolve is still there


def evolve(proposer: Proposer, panel: Panel, run: Run, *, limit: int, checkpoints: Path, report: Progress) -> None:
    """Let OpenEvolve search until `limit` operations are spent or a stop rule of the budget holds. Fills `run.past`."""
    restore(run, checkpoints)
    search = _Search(proposer, panel, run, limit, checkpoints)
    if search.is_over():
        return
    with tempfile.TemporaryDirectory(prefix="evolora-rival-") as name:
        folder = Path(name)
        address, said = folder / "socket", folder / "log"
        (folder / "program.py").write_text(run.template, encoding="utf-8")
        asked = {"seed": run.seed, "longest": LONGEST, "parallel": run.budget.parallel}
        asked["iterations"] = TRIES * run.budget.programs * len(run.seeds)
        (folder / "settings.json").write_text(json.dumps(asked), encoding="utf-8")
        with _Server(str(address), search) as server, said.open("wb") as output:
            listening = Thread(target=server.serve_forever, kwargs={"poll_interval": PATIENCE})
            listening.start()
            command = [sys.executable, "-m", CHILD, name]
            environment = _environment(folder) | {SOCKET: str(address)}
            process = subprocess.Popen(
                command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
            try:
                while not search.over.wait(PATIENCE) and process.poll() is None:
                    report(run.meter.total(), limit, f"{len(run.past)} programs")
            except BaseException as error:
                panel.interrupt(error)  # the server waits for its threads
                raise
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                server.shutdown()
                listening.join()
        if search.fault is not None:
            raise search.fault
        if not search.over.is_set() and process.returncode:
            lines = said.read_text(encoding="utf-8", errors="replace").strip().splitlines()
            last = lines[-1][:300] if lines else "it said nothing"
            raise StageError(f"OpenEvolve ended with status {process.returncode}: {last}")
        if not search.over.is_set():
            left = 1 - run.meter.total() / limit
            log.warning("OpenEvolve ended by itself, with %.0f %% of its budget left", 100 * left)


class _Search:
    """The side of the search. Its questions come from several threads."""

    def __init__(self, proposer: Proposer, panel: Panel, run: Run, limit: int, checkpoints: Path) -> None:
        self._proposer, self._panel, self._run = proposer, panel, run
        self._limit, self._checkpoints, self._lock = limit, checkpoints, Lock()
        baseline = Proposal(run.template, get_grammar(run.framework).baseline(), "baseline", ())
        self._made = {run.template.strip(): baseline}  # by the text as OpenEvolve has it, without the blanks around it
        self._parents: dict[str, str] = {}  # text of the parent by text
        self._tried = [Scored(own.program_id, "", own.genome) for own in run.past]
        self.over = Event()
        self.fault: BaseException | None = None

    def is_over(self) -> bool:
        """Whether nothing more is measured."""
        return self._run.meter.total() >= self._limit or stopped(self._run)

    def answer(self, question: dict[str, str]) -> dict[str, Any] | None:
        """The answer to a question; None once the search is over."""
        try:
            if "change" in question:
                return {"program": self._change(question["change"].strip())}
            return self._measure(question["measure"].strip())
        except BaseException as error:  # the thread that waits for `over` raises it
            self.fault = error
            self.over.set()
            return None

    def _change(self, text: str) -> str:
        with self._lock:
            giver = self._made[text]
            parent = Scored(program_id(giver.source), giver.source, giver.genome)
            key = (self._run.seed, len(self._tried), 0)
            made = self._proposer.propose(Request(self._run.framework, (parent,), tuple(self._tried), key))
            self._tried.append(Scored(program_id(made.source), "", made.genome))
            self._made[made.source.strip()] = made
            self._parents[made.source.strip()] = text
            return made.source

    def _measure(self, text: str) -> dict[str, Any] | None:
        if text == self._run.template.strip():
            return _told(0.0, "")
        with self._lock:
            if self.over.is_set():
                return None
            made = self._made[text]
            own = self._candidate(made, self._parents[text])
            first = next((one for one in self._run.past if one.program_id == own.program_id), None)
        if first is None:
            own = judge(own, self._panel, self._run)
        else:
            own = replace(
                own, status="twin", score=first.score, lo=first.lo, hi=first.hi, rejection=first.rejection,
                twin=first.number if first.twin is None else first.twin,
            )  # fmt: skip
        with self._lock:
            if self.over.is_set():
                outside(self._run, own)
                return None
            self._enter(own)
        return _told(own.score, f"stage {own.rejection.stage}: {own.rejection.reason}" if own.rejection else "")

    def _candidate(self, made: Proposal, parent: str) -> Candidate:
        """A program that nothing is known of. It gets its number when it is measured."""
        identity = program_id(self._made[parent].source)
        number = next((own.number for own in self._run.past if own.program_id == identity), BASELINE)
        return Candidate(
            0, 0, 0, program_id(made.source), made.source, made.genome, made.operator, (number,),
            "proposed", None, None, None, None, Curve(), None, 0,
        )  # fmt: skip

    def _enter(self, own: Candidate) -> None:
        run = self._run
        own = replace(own, number=len(run.past), generation=len(run.past))
        run.past.append(own)
        run.meter.add("selection", own.flops, 0, own.seconds)
        commit(self._checkpoints, len(run.past), partial(write_state, run), partial(write, [own]))
        if self.is_over():
            self.over.set()


class _Server(socketserver.ThreadingUnixStreamServer):
    """Hands questions to a search, each a line of JSON, as is its answer. Waits for its threads when it ends."""

    def __init__(self, address: str, search: _Search) -> None:
        self.search = search
        super().__init__(address, _Handler)


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Answer one question."""
        line = self.rfile.readline()
        answer = self.server.search.answer(json.loads(line)) if line else None
        if answer is not None:
            with suppress(OSError):  # it was killed while it waited
                self.wfile.write(json.dumps(answer).encode() + b"\n")


def _told(score: float | None, reason: str) -> dict[str, Any]:
    """What OpenEvolve is told: a positive number for what lives, 0 for the rest."""
    return {"score": 0.0 if score is None else math.exp(score), "reason": reason}


def _environment(folder: Path) -> dict[str, str]:
    """What its processes need, and no more: no keys, and what they write lies in the folder."""
    return {
        "PATH": os.defpath,
        "PYTHONPATH": os.pathsep.join(os.path.abspath(path) for path in sys.path),
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "LC_ALL": "C.UTF-8",
        "OMP_NUM_THREADS": "1",
    }
