"""Solved examples in the prompt of an answer (Brown et al. 2020, arXiv 2005.14165): who shows how many, and which.

A *way* of showing is a candidate like an adapter's slot, with a number of its own in the table of routes. It says which
slot answers and what stands before the item: the same examples always, or those most like the item's prompt (Liu et
al. 2022, arXiv 2101.06804).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from evolora_core.engine import rng
from evolora_core.engine.progress import Progress, silent
from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.template import Example
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.outcome import Decoding, Manner, Outcome
from evolora_core.lora.population.slots import HOST, PROMPTED
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.learned import prompt_features
from evolora_core.searches.adapters.routing.likeness import likeness

FILE = "shots.json"


@dataclass(frozen=True)
class Way:
    """`slot` answers (-1: the host) after `count` examples: the `nearest`, or the `same` before every item."""

    slot: int
    count: int
    chosen: str


@dataclass(frozen=True)
class Solved:
    """An item of a family with a right answer."""

    family: str
    prompt: str
    answer: str


@dataclass(frozen=True)
class Shots:
    """`ways` by their number as candidates, and the examples of each slot that answers, of which the `same` are the
    first.
    """

    ways: Mapping[int, Way]
    solved: Mapping[int, Sequence[Solved]]

    def before(
        self, host: Host, items: Sequence[Item], candidates: Sequence[int], told: Sequence[str] | None
    ) -> tuple[list[int], list[list[Example]], list[int]]:
        """For each item and its candidate: the slot that answers, the examples before it, and what choosing them took
        in FLOPs, the features of the examples apart, which are kept. A family that is `told` shows its own examples;
        where none is, all are shown, and an item's own family is not looked at.
        """
        slots = [self.ways[number].slot if number in self.ways else number for number in candidates]
        examples: list[list[Example]] = [[] for _ in items]
        flops = [0] * len(items)
        together: dict[tuple[int, str], list[int]] = {}
        for place, number in enumerate(candidates):
            if number in self.ways:
                together.setdefault((number, told[place] if told else ""), []).append(place)
        for (number, family), places in together.items():
            way = self.ways[number]
            known = [one for one in self.solved[way.slot] if not family or one.family == family]
            chosen = np.tile(np.arange(min(way.count, len(known))), (len(places), 1))
            if way.chosen == "nearest" and known:
                alike, each, _ = likeness(host, [items[place] for place in places], [as_item(one) for one in known])
                chosen = np.argsort(alike, axis=1, kind="stable")[:, -way.count :]
                for place, cost in zip(places, each.tolist(), strict=True):
                    flops[place] = cost
            for place, row in zip(places, chosen, strict=True):
                examples[place] = [(known[n].prompt, known[n].answer) for n in row]
        return slots, examples, flops


def feature_flops(host: Host, shots: Shots) -> int:
    """FLOPs of the features by which the nearest examples are found, which are computed once."""
    slots = {way.slot for way in shots.ways.values() if way.chosen == "nearest"}
    known = [as_item(one) for slot in sorted(slots) for one in shots.solved[slot]]
    return int(prompt_features(host, known)[1].sum()) if known else 0


def as_item(one: Solved) -> Item:
    """An example as an item whose prompt alone matters."""
    return Item(one.prompt, None, one.family, "", "")


def answer_shown(
    host: Host,
    population: Population | None,
    items: Sequence[Item],
    candidates: Sequence[int],
    shots: Shots | None,
    told: Sequence[str] | None,
    *,
    decoding: Decoding,
    prompts: Sequence[str] | None = None,
    progress: Progress = silent,
    folder: Path | None = None,
) -> list[Outcome]:
    """`answer_items` for candidates that may be ways of showing examples. The slot of an outcome is the one that
    answered, `PROMPTED` where that is the host after examples. Where prompt, examples and token cap do not fit the
    host's context, the first examples are left out.
    """
    answer = partial(
        answer_items, host, population, items, decoding=decoding, prompts=prompts, progress=progress, folder=folder
    )
    if shots is None or not any(number in shots.ways for number in candidates):
        return answer(candidates)
    asked = [item.prompt for item in items] if prompts is None else list(prompts)
    said = [replace(item, prompt=prompt) for item, prompt in zip(items, asked, strict=True)]
    slots, examples, flops = shots.before(host, said, candidates, told)
    examples = fitting(host, asked, examples, decoding.max_new_tokens)
    outcomes = answer(slots, Manner(examples=examples))
    answered = [PROMPTED if slot == HOST and own else slot for slot, own in zip(slots, examples, strict=True)]
    return [
        replace(outcome, slot=slot, flops=outcome.flops + extra)
        for outcome, slot, extra in zip(outcomes, answered, flops, strict=True)
    ]


def fitting(
    host: Host, prompts: Sequence[str], examples: Sequence[Sequence[Example]], new_tokens: int
) -> list[list[Example]]:
    """The examples of each prompt, without the first ones where all of them leave no room for an answer."""
    left = [list(own) for own in examples]
    unsure = [place for place, own in enumerate(left) if own]
    while unsure:
        encoded = host.encode_prompts([prompts[place] for place in unsure], [left[place] for place in unsure])
        long = [len(ids) + new_tokens > host.max_context for ids in encoded]
        unsure = [place for place, is_long in zip(unsure, long, strict=True) if is_long]
        for place in unsure:
            del left[place][0]
        unsure = [place for place in unsure if left[place]]
    return left


def foretold_flops(
    host: Host, asked: Sequence[Item], known: Sequence[Item], counts: Sequence[int], new_tokens: int
) -> list[float]:
    """What an answer of the host would take after so many examples, one number for each of `counts`, in FLOPs: the mean
    over the items asked, with the first of the known items of the same family before them, and an answer of so many
    tokens. An item without a right answer counts with its prompt in the place of that.
    """
    if not counts:
        return []
    texts: dict[str, list[Example]] = {}
    for item in known:
        answer = "" if item.target is None else gold(item)
        texts.setdefault(item.family, []).append((item.prompt, answer or item.prompt))
    prompts, model, found = [item.prompt for item in asked], FlopModel.from_model(host.model), []
    for count in counts:
        examples = fitting(host, prompts, [texts.get(item.family, [])[:count] for item in asked], new_tokens)
        lengths = [len(ids) for ids in host.encode_prompts(prompts, examples)]
        found.append(float(np.mean(model.generate_flops(lengths, [new_tokens] * len(lengths)))) if lengths else 0.0)
    return found


def in_drawn_order(solved: Sequence[Solved], seed: int) -> list[Solved]:
    """The examples in an order that the seed draws; those that are the `same` before every item are its first."""
    return [solved[n] for n in rng.stream(seed, 0, 0, "shots").permutation(len(solved))]


def write_shots(folder: Path, shots: Shots) -> None:
    """Write as JSON."""
    document = {
        "ways": {str(number): asdict(way) for number, way in shots.ways.items()},
        "solved": {str(slot): [asdict(one) for one in own] for slot, own in shots.solved.items()},
    }
    (folder / FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_shots(folder: Path) -> Shots | None:
    """What `write_shots` wrote; None where nothing is shown. DataError names the file and what is wrong with it."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        ways = {int(number): Way(**way) for number, way in document["ways"].items()}
        solved = {int(slot): [Solved(**one) for one in own] for slot, own in document["solved"].items()}
        return Shots(ways, solved)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: not a file of examples ({error}); run the stage that chose them again") from error
