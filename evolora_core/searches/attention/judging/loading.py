"""Turns the text of a program into its class. Only ever called in a child process for programs of others.

What a program can reach by name is cut down so that an honest mistake is found early and has a plain reason. It is no
boundary: whoever holds torch holds the process. The boundary is the sandbox.
"""

import builtins
import traceback
from typing import Any

from torch import nn

from evolora_core.sandbox.limits import is_memory
from evolora_core.searches.attention.programs.rejection import Rejected

FILE, PROGRAM = "program.py", "program"  # the names of its file and of its module in tracebacks and classes
MODULES = ("torch", "math")  # with what lies below them
_REFUSED = [
    "__import__",
    "breakpoint",
    "compile",
    "delattr",
    "eval",
    "exec",
    "exit",
    "globals",
    "help",
    "input",
    "locals",
    "memoryview",
    "open",
    "print",
    "quit",
    "vars",
]


def load_program(source: str) -> type[nn.Module]:
    """The class `Attention` of a program. Rejected where the text does not run or has none."""
    names: dict[str, Any] = {"__name__": PROGRAM, "__builtins__": _builtins()}
    try:
        exec(compile(source, FILE, "exec"), names)
    except (SyntaxError, ValueError) as error:  # ValueError: a NUL in the text
        raise Rejected("syntax", _words(error), f"line {getattr(error, 'lineno', None) or 1}") from error
    except Exception as error:
        raise failed("build", error, "when the file is loaded") from error
    found = names.get("Attention")
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise Rejected("signature", "there is no class Attention that is an nn.Module", "the file")
    return found


def failed(stage: str, error: Exception, where: str) -> Rejected:
    """A program's own error as a Rejected, with the program's line where it arose. A Rejected is returned as it is."""
    if isinstance(error, Rejected):
        return error
    walked = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in walked if frame.f_code.co_filename == FILE]
    place = ", ".join(part for part in (f"line {lines[-1]}" if lines else "", where) if part)
    if is_memory(error):
        return Rejected("memory", "it takes more memory than it may", place)
    return Rejected(stage, _words(error), place)


def _words(error: Exception) -> str:
    """An error in one line of bounded length."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _builtins() -> dict[str, Any]:
    """Python's own names, without those that read, write or run."""
    kept = {name: value for name, value in vars(builtins).items() if name not in _REFUSED}
    return kept | {"__import__": _import}


def _import(name: str, namespace: Any = None, local: Any = None, wanted: Any = (), level: int = 0) -> Any:
    """Python's import for torch and math."""
    if level or name.split(".")[0] not in MODULES:
        raise ImportError(f"a program may import {' and '.join(MODULES)}, not {name}")
    return builtins.__import__(name, namespace, local, wanted, level)
