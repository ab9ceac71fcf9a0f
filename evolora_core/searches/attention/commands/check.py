"""`evolora attention check`: every stage that a program has to pass before it is trained."""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Sandbox, refusal
from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.commands.reading import Climbed, climbed
from evolora_core.searches.attention.corpus.alphabet import VOCAB
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.judging.measure import CHILD, Contract, baseline_costs, check
from evolora_core.searches.attention.settings import Budget

SECONDS = 300.0  # of all stages together
_FILE_BYTES = 1 << 24


def climb_ladder(program: Named, framework: str | None, sizes: Sequence[str]) -> Climbed:
    """Examine a program at every stage, in the sandbox, as a member of a framework or as a whole file of its own."""
    context = CorpusSettings().context
    own = tuple(SIZES[size] for size in sizes)
    contract = Contract(own, context, VOCAB, baseline_costs(own, context, VOCAB))
    limits = Limits(seconds=SECONDS, memory=Budget().megabytes << 20, file_bytes=_FILE_BYTES)
    with (
        tempfile.TemporaryDirectory(prefix="evolora-check-") as folder,
        Sandbox((CHILD,), confined=not (program.trusted and refusal())) as sandbox,
    ):
        found = check(sandbox, program.source, framework, contract, Path(folder) / "program", limits)
    return climbed(found.steps, found.rejection)
