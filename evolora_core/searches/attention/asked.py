"""Questions to models that a search asked: kept beside its candidates, and as rows of the table `proposer_calls`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolora_core.searches.attention.proposers.base import Call

FILE = "calls.json"
COLUMNS = ("model", "prompt_tokens", "completion_tokens", "seconds", "usd", "outcome", "request_hash")
Numbered = tuple[int, Call]  # number of the candidate that a question was asked for, and the question


def write_calls(calls: Sequence[Numbered], folder: Path) -> None:
    """Write questions as a file; none, where no model is asked."""
    if calls:
        rows = [{"candidate": number} | vars(call) for number, call in calls]
        (folder / FILE).write_text(json.dumps(rows), encoding="utf-8")


def read_calls(folder: Path) -> list[Numbered]:
    """What `write_calls` left."""
    if not (folder / FILE).exists():
        return []
    rows = json.loads((folder / FILE).read_text(encoding="utf-8"))
    return [(row.pop("candidate"), Call(**row)) for row in rows]


def call_rows(calls: Sequence[Numbered], candidates: int) -> list[dict[str, Any]]:
    """Rows of the table of questions. One whose program was asked for when the FLOPs ended has no candidate."""
    return [
        {"candidate": number if number < candidates else None} | {name: getattr(call, name) for name in COLUMNS}
        for number, call in calls
    ]
