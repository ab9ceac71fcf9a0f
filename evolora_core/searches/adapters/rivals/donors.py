"""Where families come one after another, a specialist may begin with the weights of an earlier one."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import answer_items, charge
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.population.candidates import load_each
from evolora_core.lora.population.slots import HOST


def dearest_choice(host: Host, earlier: int, items: Sequence[Item], decoding: Decoding, rank: int) -> int:
    """FLOPs that the choice among so many earlier adapters of a rank, and the host, takes at most."""
    if not earlier or not items:
        return 0
    lengths = [len(ids) for ids in host.encode_prompts([item.prompt for item in items])]
    model, cap = FlopModel.from_model(host.model), decoding.max_new_tokens
    return int(sum(arms * model.generate_flops(lengths, cap, own).sum() for arms, own in ((1, 0), (earlier, rank))))


def best_start(
    host: Host, earlier: Sequence[Path], items: Sequence[Item], decoding: Decoding, meter: Meter
) -> Path | None:
    """The adapter folder, of those in `earlier`, that answers most of the items rightly; None where the host answers as
    many. The answers are charged to `meter` as selection.
    """
    if not earlier or not items:
        return None
    started = time.perf_counter()
    slots = np.repeat([HOST, *range(len(earlier))], len(items))
    asked = [*items] * (1 + len(earlier))
    outcomes = answer_items(host, load_each(host, earlier), asked, slots, decoding=decoding)
    charge(meter, "selection", outcomes, time.perf_counter() - started)
    right = np.array([outcome.grade.correct for outcome in outcomes]).reshape(1 + len(earlier), -1).sum(axis=1)
    best = int(right.argmax())  # of equals the first: the host, then the eldest
    return earlier[best - 1] if best else None
