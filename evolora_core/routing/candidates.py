"""The candidates' answers to the selection items, from which routes are chosen."""

from collections.abc import Callable, Sequence

import numpy as np

from evolora_core.evaluation.grading import Decoding, Outcome, answer_items
from evolora_core.families import Item
from evolora_core.hosts import Host
from evolora_core.population.stack import Population
from evolora_core.routing.routes import HOST


def answer_as_each(
    host: Host,
    population: Population | None,
    items: Sequence[Item],
    slots: Sequence[int],
    *,
    decoding: Decoding,
    progress: Callable[[int, int], None] | None = None,
) -> dict[int, list[Outcome]]:
    """Greedy outcomes of the host and of each of `slots` on the same items: `(1 + slots) x items` answers, batched."""
    candidates = [HOST, *(slot for slot in dict.fromkeys(slots) if slot != HOST)]
    n = len(items)
    questions, answering = list(items) * len(candidates), np.repeat(candidates, n)
    outcomes = answer_items(host, population, questions, answering, decoding=decoding, progress=progress)
    return {slot: outcomes[i * n : (i + 1) * n] for i, slot in enumerate(candidates)}
