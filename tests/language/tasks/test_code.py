"""The verifier `code`: answers of a model as real children of the sandbox, right, wrong and hostile ones."""

import json
import os
import re
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from confinement import confined

from evolora_core.errors import ConfigError, StageError
from evolora_core.language.families.registry import gold
from evolora_core.language.tasks import code_verifier
from evolora_core.language.tasks.code_child import MODULES
from evolora_core.language.tasks.code_verifier import Code
from evolora_core.language.tasks.own import enter_tasks
from evolora_core.language.tasks.pools import read_pool
from evolora_core.language.tasks.settings import TaskConfig

ROOT = Path(__file__).parents[3]
SHIPPED = ROOT / "configs" / "tasks" / "functions.jsonl"
ADD = "def add(a, b):\n    return a + b"
TESTS = "assert add(1, 2) == 3\nassert all(add(n, n) == 2 * n for n in range(9))"
OS = "import sys\nos = sys.modules['os']\n"  # as hostile code comes to what it may not import


def reason(answer: str, tests: str = TESTS, **settings: Any) -> str:
    """Why an answer is right or wrong."""
    grade = Code(kind="code", **settings).verify({"tests": tests}, answer)
    assert grade.correct == (grade.reason == "correct") == (grade.score == 1)
    return grade.reason


@confined
@pytest.mark.parametrize(
    "answer",
    [
        ADD,
        f"```python\n{ADD}\n```",
        f"First I thought of this:\n```\ndef add(a, b): return a\n```\nBut here it is:\n```py\n{ADD}\n```\nDone.",
        f"```python\n{ADD}",  # cut off by the cap on tokens
        "`add = lambda a, b: a + b`",
        "```add = lambda a, b: a + b```",
        "1. So:\n   ```python\n   def add(a, b):\n       return a + b\n   ```",
        f"Use ```add```:\n```python\n{ADD}\n```",
        " def add(a, b):\n    return a + b",  # as a plain prompt form begins an answer
        f"{ADD}\nif __name__ == '__main__':\n    raise SystemExit",
        f"print('x' * 10_000_000)\n{ADD}",
        f"import random\nassert random.random() == 0.8444218515250481\n{ADD}",  # chance is the same every time
    ],
)
def test_right(answer: str) -> None:
    assert reason(answer) == "correct"


@confined
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("def add(a, b): return a - b", "wrong"),
        ("I do not know.", "raises SyntaxError"),
        ("def sub(a, b): return a - b", "raises NameError"),
        ("def add(a, b): return a / 0", "raises ZeroDivisionError"),
        ("```\n```", "no answer"),
        ("\ud800", "raises UnicodeEncodeError"),
    ],
)
def test_wrong(answer: str, words: str) -> None:
    assert reason(answer) == words


@confined
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("import sys\nsys.exit(0)", "raises SystemExit"),
        ("def add(a, b): raise SystemExit(0)", "raises SystemExit"),
        (f"{OS}os._exit(0)", "ended early"),
        (f"{OS}def add(a, b): os._exit(0)", "ended early"),
        (f"{OS}open('passed', 'w').write('1')\nos._exit(0)", "ended early"),
        (f"{OS}open('passed', 'w').write(open('job.json').read())\nos._exit(0)", "ended early"),
        ("import sys\nsys.modules['builtins'].exec = lambda *given: None", "raises NameError"),
        ("AssertionError = None\ndef add(a, b): return 3", "wrong"),
        ("import sys\nsys.modules['builtins'].all = lambda found: True\ndef add(a, b): return 3", "wrong"),
        ("all = lambda found: True\n__builtins__['all'] = all\ndef add(a, b): return 3", "wrong"),
    ],
)
def test_success_is_not_faked(answer: str, words: str) -> None:
    assert reason(answer) == words


@confined
def test_no_trace_function_jumps_over_the_tests() -> None:
    answer = """
import sys
def trace(frame, event, argument):
    if frame.f_code.co_filename == "tests" and event == "line" and frame.f_lineno == 1:
        frame.f_lineno = 3
    return trace
sys.settrace(trace)
"""
    assert reason(answer, "assert add(1, 2) == 3\nassert add(2, 2) == 4\nended = True") == "raises NameError"


@confined
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("import os", "raises ImportError"),
        ("import collections.nothing", "raises ModuleNotFoundError"),
        ("open('/etc/passwd')", "raises PermissionError"),
        (f"{OS}os.listdir('/')", "raises PermissionError"),
        (f"{OS}os.fork()", "raises PermissionError"),
        (f"{OS}os.system('true') and 1 / 0", "raises ZeroDivisionError"),
        ("open('large', 'wb').write(bytes(1 << 24))", "raises OSError"),
        ("kept = []\nwhile True: kept.append(bytearray(1 << 20))", "memory"),
        ("input()", "raises EOFError"),
        ("import sys\nsys.modules['signal'].raise_signal(35)", "killed"),  # it has no name
    ],
)
def test_what_an_answer_may_not_reach_or_use_makes_it_wrong(answer: str, words: str) -> None:
    assert reason(answer) == words
    assert reason(ADD) == "correct"


@confined
def test_an_answer_that_does_not_end_is_wrong_and_the_next_one_is_graded() -> None:
    for answer in ("while True: pass", "def add(a, b):\n    while True: pass", "import time\ntime.sleep(60)"):
        began = time.monotonic()
        assert reason(answer, seconds=0.1) == "timeout"
        assert time.monotonic() - began < 30
    assert reason(ADD) == "correct"


@confined
def test_waiting_takes_no_time_of_the_processor() -> None:
    assert reason(f"import time\ntime.sleep(0.3)\n{ADD}", seconds=0.2) == "correct"


@confined
@pytest.mark.parametrize("module", MODULES)
def test_modules_that_may_be_imported(module: str) -> None:
    assert reason(f"import {module}", "assert True") == "correct"


def test_the_page_names_these_modules() -> None:
    page = (ROOT / "docs" / "extending.md").read_text()
    named = page.partition("Answers and tests may import")[2].partition("Random numbers")[0]
    assert tuple(re.findall(r"`(\w+)`", named)) == MODULES


@confined
def test_modules_work_without_those_that_they_load_late() -> None:
    answer = """
from __future__ import annotations
import calendar, collections.abc, copy, datetime, decimal, hashlib, statistics
from dataclasses import dataclass, field
from typing import ClassVar

@dataclass
class Pair:
    kind: ClassVar[str] = "pair"
    values: list[int] = field(default_factory=list)

def tried():
    day = datetime.datetime.strptime("2024-02-29", "%Y-%m-%d")
    assert day.strftime("%A") == "Thursday" and calendar.monthrange(2024, 2)[1] == 29
    assert statistics.median([3, 1, 2]) == 2 and decimal.Decimal("0.1") * 3 == decimal.Decimal("0.3")
    assert len(hashlib.md5(b"a").hexdigest()) == 32 and isinstance([], collections.abc.Sequence)
    return copy.deepcopy(Pair([1])) == Pair([1])
"""
    assert reason(answer, "assert tried()") == "correct"


@confined
def test_a_sandbox_that_fails_says_nothing_of_the_answer() -> None:
    assert reason(ADD) == "correct"
    nursery = code_verifier._sandbox(os.getpid())._nursery
    assert nursery is not None
    threading.Timer(0.5, nursery.kill).start()
    with pytest.raises(StageError, match=r"the sandbox in which answers are tried failed \(.*\); start again"):
        reason("while 'the nursery': pass", seconds=30)
    assert reason(f"{ADD}  # again") == "correct"


@confined
def test_a_child_that_the_kernel_killed_is_tried_again() -> None:
    """It takes the one that asks for it first where memory is short."""
    victims: list[int] = []

    def kill(times: int) -> None:
        while len(victims) < times:
            for process in psutil.Process().children(recursive=True):
                with suppress(OSError):
                    adjusted = Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip()
                    if adjusted == "1000" and process.pid not in victims:
                        os.kill(process.pid, signal.SIGKILL)
                        victims.append(process.pid)
            time.sleep(0.02)

    slow = "import time\ntime.sleep(0.4)\n"
    for times, expected in ((1, "correct"), (code_verifier.KILLS + 1, "killed")):
        victims.clear()
        thread = threading.Thread(target=kill, args=(times,), daemon=True)
        thread.start()
        assert reason(f"{slow}{ADD}  # {times}") == expected
        thread.join(10)
        assert len(victims) == times


@confined
def test_a_copy_of_the_process_has_a_sandbox_of_its_own() -> None:
    assert reason(ADD) == "correct"
    child = os.fork()
    if child == 0:
        right = reason(f"{ADD}  # of the copy") == "correct"
        code_verifier._sandbox(os.getpid()).close()
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert reason(f"{ADD}  # of the original") == "correct"


def rows(path: Path, *changes: dict[str, Any], **settings: Any) -> TaskConfig:
    good = {"prompt": "Write add(a, b).", "answer": ADD, "tests": TESTS}
    path.write_text("".join(json.dumps(good | change) + "\n" for change in changes))
    verifier = {"kind": "code", **settings.pop("verifier", {})}
    return TaskConfig.model_validate({"name": "add", "data": str(path), "verifier": verifier} | settings)


@confined
def test_tests_come_from_a_template_and_from_lists(tmp_path: Path) -> None:
    task = rows(
        tmp_path / "rows.jsonl",
        {"tests": ["assert root(4) == sqrt(4)", "assert root(9) == 3"], "answer": "def root(n): return n ** 0.5"},
        verifier={"tests": "from math import sqrt\n{tests}"},
    )
    (item,) = read_pool(task).parts[""]
    assert item.target["tests"] == "from math import sqrt\nassert root(4) == sqrt(4)\nassert root(9) == 3"


@confined
def test_a_row_may_give_a_right_answer(tmp_path: Path) -> None:
    assert enter_tasks([rows(tmp_path / "gold.jsonl", {})]) == set()
    assert gold(read_pool(rows(tmp_path / "gold.jsonl", {})).parts[""][0]) == ADD
    assert enter_tasks([rows(tmp_path / "none.jsonl", {}, answer=None)]) == {"add"}
    assert enter_tasks([rows(tmp_path / "gaps.jsonl", {}, {"prompt": "Again.", "answer": None})]) == {"add"}


@confined
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"answer": "def add(a, b): 0"}, "the verifier refuses the row's own answer 'def add(a, b): 0' (wrong)"),
        ({"answer": "def add(a, b): return c"}, "return c' (raises NameError)"),
        ({"answer": 5}, "the answer '5' must be code, as text"),
        ({"answer": "def sum(a, b): return a + b"}, "defines sum, and the tests see Python's own under that name"),
        ({"tests": " "}, "has no tests"),
        ({"tests": None}, "has no tests"),
        ({"tests": "assert ("}, "has tests that are no Python ('(' was never closed (tests, line 1))"),
        ({"tests": "return 1"}, "has tests that are no Python"),
        ({"tests": "(" * 5000}, "has tests that are no Python"),
        ({"tests": "def check(add): assert add(1, 2) == 3"}, "has tests that pass without any code"),
        ({"tests": "x = 1\n" * 20_000}, "has tests of more than 100000 characters"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_row_is_one_line(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        read_pool(rows(tmp_path / "rows.jsonl", change))
    assert words in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith("tasks.add: ") and "rows.jsonl:1: " in str(error.value)


@confined
def test_a_column_that_is_not_there_and_a_template_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    with pytest.raises(
        ConfigError, match=r"tasks.add.verifier.tests: .* has no column 'test'; name one of prompt, answer"
    ):
        read_pool(rows(path, {}, verifier={"tests": "{test}"}))
    for settings in ({"verifier": {"tests": "{tests"}}, {"prompt": "{prompt"}):
        with pytest.raises(ValueError, match="expected '}' before end of string"):
            rows(path, {}, **settings)


@pytest.mark.parametrize("target", [None, "assert add(1, 2) == 3", {}, {"answer": ADD}, {"tests": TESTS, "more": 1}])
def test_a_target_of_another_form_is_refused(target: Any) -> None:
    assert "must be an object with `tests`" in str(Code(kind="code").complaint(target))


def test_without_confinement_the_task_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_verifier, "refusal", lambda: "the kernel offers no Landlock")
    with pytest.raises(ConfigError) as error:
        enter_tasks([rows(tmp_path / "rows.jsonl", {})])
    assert str(error.value) == (
        "tasks.add.verifier: answers that are code are not run here: the kernel offers no Landlock"
    )


@confined
def test_the_shipped_rows_are_sound() -> None:
    task = TaskConfig.model_validate({"name": "functions", "data": str(SHIPPED), "verifier": {"kind": "code"}})
    items = read_pool(task).parts[""]
    assert len(items) == 96 and all(item.target["answer"] for item in items)
