"""The log of a run: one JSON object a line, beside its artefacts, whichever process wrote it. On the console every line
of a stage begins with the stage's name, since several run at a time.
"""

import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from evolora_core.errors import EvoloraError
from evolora_core.foreign.text import printable_lines

LOG = "log.jsonl"
_said_by: ContextVar[str] = ContextVar("stage whose log this is", default="")


@contextmanager
def run_log(folder: Path, stage: str, label: str) -> Iterator[list[str]]:
    """Append what the project logs inside to `folder/log.jsonl`: time (UTC), level, stage, process, message, and the
    traceback of an error. The console calls the stage `label`. The list that it gives fills with the warnings.
    """
    logger = logging.getLogger("evolora_core")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    handler = _Json(folder / LOG, stage)
    logger.addHandler(handler)
    _name_stages()  # not when a worker starts: Prefect makes its handlers when the worker's first task begins
    named = _said_by.set(f"{label}: ")
    try:
        yield handler.warnings
    except EvoloraError as error:  # said on the console by whoever asked for the stage
        handler.handle(logger.makeRecord(logger.name, logging.ERROR, __file__, 0, "%s", (error,), None))
        raise
    finally:
        _said_by.reset(named)
        logger.removeHandler(handler)
        handler.close()


class Console(logging.StreamHandler[TextIO]):
    """The project's log on stderr: time, stage if one runs here, message. `before` goes before every line."""

    def __init__(self, before: str = "") -> None:
        super().__init__()
        self.before = before
        self.setFormatter(logging.Formatter("%(asctime)s %(said_by)s%(message)s", datefmt="%H:%M:%S"))

    def format(self, record: logging.LogRecord) -> str:
        """A line that says which stage speaks."""
        record.said_by = _said_by.get()
        return self.before + printable_lines(super().format(record))


def _name_stages() -> None:
    """Let the lines that Prefect shows of this project say which stage speaks, as on our own console."""
    for handler in logging.getLogger().handlers:
        if handler.formatter and not isinstance(handler.formatter, _StageNamed):
            handler.setFormatter(_StageNamed(handler.formatter))


class _StageNamed(logging.Formatter):
    """Another's format, with the stage that speaks before the message of this project's lines."""

    def __init__(self, inner: logging.Formatter) -> None:
        super().__init__()
        self.inner = inner

    def format(self, record: logging.LogRecord) -> str:
        """The line of `inner`."""
        named = copy(record)
        if record.name.startswith("evolora_core"):
            named.msg, named.args = _said_by.get() + record.getMessage(), None
        return self.inner.format(named)


class _Json(logging.FileHandler):
    def __init__(self, path: Path, stage: str) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.stage = stage
        self.warnings: list[str] = []

    def handleError(self, record: logging.LogRecord) -> None:
        """Once a line could not be written, as on a full disk, none is; the run goes on, and says so once."""
        self.setLevel(logging.CRITICAL + 1)
        self.warnings.append(f"warning: {self.baseFilename}: cannot be written")
        logging.getLogger("evolora_core.stages").warning("%s", self.warnings[-1])

    def close(self) -> None:
        """Close the file, whatever of it is lost."""
        with suppress(OSError):
            super().close()

    def emit(self, record: logging.LogRecord) -> None:
        """Write, and remember a warning."""
        if record.levelno == logging.WARNING:
            self.warnings.append(record.getMessage())
        try:
            super().emit(record)
        except OSError:  # the file cannot be opened
            self.handleError(record)

    def format(self, record: logging.LogRecord) -> str:
        """One line: short enough to be appended at once, also by two processes."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "stage": self.stage,
            "process": record.process,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[1]:
            line["traceback"] = "".join(traceback.format_exception(record.exc_info[1]))
        return json.dumps(line)
