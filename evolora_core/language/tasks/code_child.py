"""What runs in the sandbox for the verifier `code`: an answer, and then the tests of its row.

From the moment that the answer runs, this process is the answer's. So that it cannot end early and count as right, the
parent's secret comes back only behind the last test. So that it cannot change what the tests mean, these are compiled
before it runs, and have builtins of their own. What it can still do: return an object that says it equals everything,
change a module that the tests use, or look for the secret in this function's frame.
"""

import builtins
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

# A confined child can import nothing that is not loaded: what answers and tests may import.
MODULES = (
    "__future__", "abc", "bisect", "calendar", "cmath", "collections", "copy", "dataclasses", "datetime", "decimal",
    "enum", "fractions", "functools", "hashlib", "heapq", "itertools", "json", "math", "numbers", "operator", "random",
    "re", "statistics", "string", "sys", "textwrap", "time", "typing", "unicodedata",
)  # fmt: skip
_LATE = ("_strptime",)  # what these load when they are first used, in the name of who asks
PRELOAD = (*MODULES, *_LATE, __name__)
JOB, PASSED = "job.json", "passed"  # what the parent leaves in the folder, and what it looks for


def check(folder: Path) -> None:
    """Run the answer and the tests of a job; the secret lies in the folder afterwards if the tests pass."""
    job = json.loads((folder / JOB).read_text(encoding="utf-8"))
    random.seed(0)
    tests = compile(job["tests"], "tests", "exec")
    own = {**vars(builtins), "__import__": _import}
    answer = ModuleType("answer")
    sys.modules["answer"] = answer  # dataclasses look their module up
    names = answer.__dict__
    names["__builtins__"] = dict(own)
    run, unwatch = exec, _unwatch()  # an answer may put others in their place
    (folder / JOB).write_bytes(b"")  # what goes wrong from here on is the answer's fault, and the secret is here alone
    run(compile(job["code"], "answer", "exec"), names)
    for own_call in unwatch:
        own_call()
    run(tests, {name: value for name, value in names.items() if name not in own} | {"__builtins__": own})
    (folder / PASSED).write_text(job["secret"], encoding="utf-8")


def _unwatch() -> list[Callable[[], object]]:
    """Calls that end all tracing: a trace function of the answer could jump over the lines of the tests."""
    calls: list[Callable[[], object]] = [partial(sys.settrace, None), partial(sys.setprofile, None)]
    if monitoring := getattr(sys, "monitoring", None):  # Python 3.12 and later
        calls += [partial(_end_tool, monitoring.get_tool, monitoring.set_events, tool) for tool in range(6)]
    return calls


def _end_tool(get_tool: Callable[[int], object], set_events: Callable[[int, int], object], tool: int) -> None:
    if get_tool(tool) is not None:
        set_events(tool, 0)


def _import(
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] = (),
    level: int = 0,
) -> ModuleType:
    """Import as `__import__` does, but only the modules above and their submodules."""
    if level or name.split(".")[0] not in (*MODULES, *_LATE):
        raise ImportError(f"{name} may not be imported here")
    return __import__(name, globals, locals, fromlist)
