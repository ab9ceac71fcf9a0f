"""The log of a run: one JSON object a line, beside its artefacts, whichever process wrote it."""

import json
import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from evolora_core.errors import EvoloraError

LOG = "log.jsonl"


@contextmanager
def run_log(folder: Path, stage: str) -> Iterator[list[str]]:
    """Append what the project logs inside to `folder/log.jsonl`: time (UTC), level, stage, process, message, and the
    traceback of an error. The list that it gives fills with the warnings.
    """
    logger = logging.getLogger("evolora_core")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)
    handler = _Json(folder / LOG, stage)
    logger.addHandler(handler)
    try:
        yield handler.warnings
    except EvoloraError as error:  # said on the console by whoever asked for the stage
        handler.handle(logger.makeRecord(logger.name, logging.ERROR, __file__, 0, "%s", (error,), None))
        raise
    finally:
        logger.removeHandler(handler)
        handler.close()


class _Json(logging.FileHandler):
    def __init__(self, path: Path, stage: str) -> None:
        super().__init__(path, encoding="utf-8", delay=True)
        self.stage = stage
        self.warnings: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Write, and remember a warning."""
        if record.levelno == logging.WARNING:
            self.warnings.append(record.getMessage())
        super().emit(record)

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
