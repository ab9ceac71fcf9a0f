"""`evolora attention check`: the stages that a program has to pass before it is trained."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Sandbox, refusal
from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.corpus.alphabet import VOCAB
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.judging.measure import CHILD, LADDER, Checked, Contract, baseline_costs, check
from evolora_core.searches.attention.settings import Budget

SECONDS = 300.0  # of all stages together
_FILE_BYTES = 1 << 24


@dataclass(frozen=True)
class Climbed:
    """A row for each stage, and why the program is refused; "" if it is not."""

    rows: list[dict[str, Any]]
    refused: str


def climb_ladder(program: Named, framework: str | None, sizes: Sequence[str]) -> Climbed:
    """Examine a program in the sandbox, as a member of a framework or as a whole file of its own."""
    context = CorpusSettings().context
    own = tuple(SIZES[size] for size in sizes)
    contract = Contract(own, context, VOCAB, baseline_costs(own, context, VOCAB))
    limits = Limits(seconds=SECONDS, memory=Budget().megabytes << 20, file_bytes=_FILE_BYTES)
    with (
        tempfile.TemporaryDirectory(prefix="evolora-check-") as folder,
        Sandbox((CHILD,), confined=not (program.trusted and refusal())) as sandbox,
    ):
        found = check(sandbox, program.source, framework, contract, Path(folder) / "program", limits)
    why = found.rejection
    if why is None:
        return Climbed(_rows(found), "")
    return Climbed(
        _rows(found), f"refused at stage {why.stage}: {why.reason}" + (f" ({why.place})" if why.place else "")
    )


def _rows(found: Checked) -> list[dict[str, Any]]:
    rows = []
    for number, stage in enumerate(LADDER):
        result, says, place, seconds = "not reached", "", "", None
        if number < len(found.steps):
            step = found.steps[number]
            result, says, place = "passed" if step.passed else "failed", step.reason, step.place
            seconds = round(step.seconds, 3)
        elif found.rejection and number == len(found.steps) and all(step.passed for step in found.steps):
            result, says = "failed", found.rejection.reason  # its process was ended here
        rows.append({"stage": stage, "result": result, "found": says, "place": place, "seconds": seconds})
    return rows
