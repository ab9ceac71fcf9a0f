"""Recorded answers in the place of an endpoint, so that a run that asked a model can be run again without one."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from evolora_core.engine.identity import digest
from evolora_core.errors import ConfigError, StageError
from evolora_core.searches.attention.proposers.base import Call
from evolora_core.searches.attention.proposers.client import Answer, Ask

_CALL = TypeAdapter(Call)


def call_line(call: Call) -> str:
    """A call as a line of a record."""
    return json.dumps(asdict(call), sort_keys=True) + "\n"


def read_calls(path: Path) -> list[Call]:
    """The calls of a record. ConfigError names the line that is none."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the recorded calls cannot be read: {error}") from error
    calls = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            calls.append(_CALL.validate_json(line, strict=True))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "the line"
            raise ConfigError(f"{path}: line {number}: no recorded call: {place}: {first['msg']}") from error
    return calls


class Recorded:
    """Answers requests by their hash. Equal requests have one answer, the first. `otherwise` is asked for the rest."""

    def __init__(self, calls: Iterable[Call], source: str, otherwise: Ask | None = None) -> None:
        self._source = source
        self._otherwise = otherwise
        self._calls: dict[str, Call] = {}
        for call in calls:
            self._calls.setdefault(call.request_hash, call)

    def __call__(self, payload: Mapping[str, Any]) -> Answer:
        """The recorded answer. StageError, one line, if that was never asked."""
        call = self._calls.get(digest(payload))
        if call is None and self._otherwise is not None:
            return self._otherwise(payload)
        if call is None:
            raise StageError(
                f"{self._source}: no recorded answer to the request {digest(payload)} to {payload['model']}: this run "
                "asks what the recorded one did not; its settings, seed and code must be the same"
            )
        return Answer(call.response, call.prompt_tokens, call.completion_tokens, call.seconds)
