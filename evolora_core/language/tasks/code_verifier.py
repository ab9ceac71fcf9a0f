"""`code`: the answer is Python, and right if the tests of its row pass after it.

What a model wrote runs in the sandbox or not at all. A process has one sandbox, which starts with the first answer.
"""

import ast
import atexit
import builtins
import json
import math
import os
import secrets
import signal
import tempfile
import textwrap
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from evolora_core.errors import StageError
from evolora_core.language.families.answers import extract_snippet
from evolora_core.language.families.base import CORRECT, NO_ANSWER, Grade, wrong
from evolora_core.language.families.matching import TIMEOUT
from evolora_core.language.tasks.base import Verifier, spelled
from evolora_core.language.tasks.code_child import JOB, PASSED, PRELOAD, check
from evolora_core.language.tasks.columns import Template, columns_of, filled
from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Outcome, Sandbox, refusal
from evolora_core.sandbox.untrusted import Unreadable, read_bytes

LONGEST = 100_000  # characters of a row's tests
KILLS = 2  # after which an answer has another try
PATIENCE = 10  # seconds of the clock for one of the processor, in the last try
FILE_BYTES = 1 << 20
_ENTRY = f"{check.__module__}:{check.__name__}"


class Code(Verifier):
    """The answer is Python, and the tests of the row pass after it. A row may give a right answer too."""

    kind: Literal["code"]
    tests: Template = Field(
        "tests", description="column of the tests, Python statements such as asserts, or a template of columns"
    )
    seconds: float = Field(2.0, ge=0.1, le=60, description="processor time of an answer and its tests")
    megabytes: int = Field(256, ge=16, le=16384, description="memory of an answer and its tests")
    labelled: ClassVar[bool] = False

    def hindrance(self) -> str:
        """Answers are foreign programs."""
        why = refusal()
        return f"answers that are code are not run here: {why}" if why else ""

    def columns(self) -> Mapping[str, Sequence[str]]:
        """Those of the tests."""
        return {"tests": columns_of(self.tests)}

    def target(self, answer: Any, row: Mapping[str, Any]) -> Any:
        """The tests, and the answer where there is one. A list of tests becomes a line for each, a gap nothing."""
        cells = {
            name: "\n".join(map(str, cell)) if isinstance(cell, list) else spelled(cell) for name, cell in row.items()
        }
        return {"tests": filled(self.tests, cells), "answer": answer}

    def complaint(self, target: Any) -> str | None:
        """The tests have to be Python, and to refuse an answer that does nothing."""
        if not isinstance(target, dict) or not {"tests"} <= set(target) <= {"tests", "answer"}:
            return "must be an object with `tests`, and with an `answer` if there is one"
        tests, answer = target["tests"], target.get("answer")
        if answer is not None and not (isinstance(answer, str) and answer.strip()):
            return "must be code, as text"
        if own := answer and _hidden(answer):
            return f"defines {own}, and the tests see Python's own under that name; rename it in both"
        if not isinstance(tests, str) or not tests.strip():
            return "has no tests"
        if len(tests) > LONGEST:
            return f"has tests of more than {LONGEST} characters"
        try:
            with warnings.catch_warnings(action="ignore"):
                compile(tests, "tests", "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
            return f"has tests that are no Python ({error})"
        return "has tests that pass without any code" if self.verify(target, "pass").correct else None

    def has_gold(self, target: Any) -> bool:
        """Tests are no answer."""
        return bool(target.get("answer"))

    def gold(self, target: Any) -> str:
        """The row's own code; nothing where it gives none."""
        return str(target.get("answer") or "")

    def verify(self, target: Any, answer: str) -> Grade:
        """The last fenced block is the code, or all of the answer."""
        code = textwrap.dedent("\n".join(extract_snippet(answer)))  # a block in a list stands further in
        return _graded(code, target["tests"], self.seconds, self.megabytes) if code else NO_ANSWER


def _hidden(code: str) -> str:
    """Name of a function or class in the code that shadows a built-in, which the tests still use; "" if none does."""
    try:
        with warnings.catch_warnings(action="ignore"):
            body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""  # what is no Python is refused by its tests
    named = (node.name for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return next((name for name in named if hasattr(builtins, name)), "")


@lru_cache(maxsize=4096)
def _graded(code: str, tests: str, seconds: float, megabytes: int) -> Grade:
    """The grade of a piece of code. StageError where the sandbox failed, which says nothing of the code.

    Time is the processor's, so that a busy machine makes nothing wrong: code that the clock ended before is tried again
    with twice the time, while that is at most ten times as much. So is code that was killed, as the kernel does where
    memory is short, unless it is killed every time.
    """
    clock, kills = 1.25 * seconds, 0
    while True:
        limits = Limits(seconds=clock, memory=megabytes << 20, file_bytes=FILE_BYTES)
        outcome, sound, passed = _tried(code, tests, limits)
        if outcome.status == "killed" and signal.SIGKILL.name in outcome.reason and kills < KILLS:
            kills += 1
            continue
        clock *= 2
        if outcome.status != "timeout" or outcome.cpu_seconds > seconds or clock > PATIENCE * seconds:
            break
    if not sound:
        raise StageError(f"the sandbox in which answers are tried failed ({outcome.reason}); start again")
    if outcome.status == "timeout" or outcome.cpu_seconds > seconds:
        return TIMEOUT
    if outcome.status == "ok":
        return CORRECT if passed else Grade(0.0, False, "ended early")
    if outcome.status != "failed":
        return Grade(0.0, False, outcome.status)
    name = outcome.reason.partition(":")[0]  # what an exception says besides may be different every time
    return wrong() if name == "AssertionError" or not name.isidentifier() else Grade(0.0, False, f"raises {name[:40]}")


def _tried(code: str, tests: str, limits: Limits) -> tuple[Outcome, bool, bool]:
    """How a child ended, whether the sandbox brought it to the code, and whether all tests passed."""
    secret = secrets.token_hex(16)
    job = json.dumps({"code": code, "tests": tests, "secret": secret}).encode()
    with tempfile.TemporaryDirectory(prefix="evolora-code-") as place:
        folder = Path(place)
        (folder / JOB).write_bytes(job)
        outcome = _sandbox(os.getpid()).run(folder, _ENTRY, limits)
        sound = math.isfinite(outcome.cpu_seconds) and _left(folder / JOB, len(job)) != job
        return outcome, sound, _left(folder / PASSED, len(secret)) == secret.encode()


def _left(path: Path, largest: int) -> bytes:
    """What a child left in a file; nothing where there is none that can be read."""
    try:
        return read_bytes(path, largest)
    except Unreadable:
        return b""


@cache
def _sandbox(process: int) -> Sandbox:
    """The sandbox of this process: a copy of the process must not talk to the sandbox of the original."""
    sandbox = Sandbox(PRELOAD)
    atexit.register(sandbox.close)
    return sandbox
