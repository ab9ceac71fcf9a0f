"""Which of its memories an organelle is shown before an item: solved examples in the prompt (Brown et al. 2020, arXiv
2005.14165), by default the nearest (Liu et al. 2022, arXiv 2101.06804). Nothing of the item itself is among them.
"""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from evolora_core.language.hosts.template import Example
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.routing.likeness import likeness
from evolora_core.searches.adapters.routing.shots import fitting


def examples(run: Run, groups: Sequence[Group]) -> list[list[Example]]:
    """The examples of every group, the nearest last; none where the organelle remembers no answer of the family, and
    fewer where prompt, examples and token cap do not fit the host's context.

    What choosing takes is charged as rollouts.
    """
    found: list[list[Example]] = [[] for _ in groups]
    if not run.config.memory.shown:
        return found
    together: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, group in enumerate(groups):
        together[group.organelle.id, run.task.items[group.item].family].append(number)
    for (_, family), numbers in together.items():
        asked = np.array([groups[number].item for number in numbers])
        for number, own in zip(numbers, _chosen(run, groups[numbers[0]].organelle, family, asked), strict=True):
            found[number] = own
    prompts = [run.task.items[group.item].prompt for group in groups]
    return fitting(run.task.host, prompts, found, run.task.decoding.max_new_tokens)


def _chosen(run: Run, organelle: Organelle, family: str, asked: np.ndarray) -> list[list[Example]]:
    """For each item asked `[n]`, all of one family, what an organelle is shown."""
    items, host = run.task.items, run.task.host
    answers = {  # the latest answer to each item
        memory.item: memory.tokens
        for memory in run.state.buffers[organelle.id].memories.values()
        if items[memory.item].family == family
    }
    if not answers:
        return [[] for _ in asked]
    known = np.array(list(answers))
    likeness = _likeness(run, organelle, family, asked, known)
    likeness[asked[:, None] == known[None]] = -np.inf
    order = np.argsort(likeness, axis=1, kind="stable")[:, -run.config.memory.shown :]
    texts = [(items[item].prompt, host.decode(list(tokens)).strip()) for item, tokens in answers.items()]
    return [
        [texts[place] for place in places if row[place] > -np.inf] for places, row in zip(order, likeness, strict=True)
    ]


def _likeness(run: Run, organelle: Organelle, family: str, asked: np.ndarray, known: np.ndarray) -> np.ndarray:
    """How alike the prompts of asked and known items are `[asked, known]`; noise, where examples are drawn."""
    if run.config.memory.chosen == "drawn":
        noise: np.ndarray = run.stream(organelle.id, f"show {family}").random((len(asked), len(known)))
        return noise
    alike, each, once = likeness(run.task.host, *([run.task.items[item] for item in own] for own in (asked, known)))
    run.state.meter.add("rollout", int(each.sum()) + once, 0, 0.0)
    return alike
