"""Choosing among an SFT run's checkpoints on the selection split, within what is left of its budget."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from evolora_core.engine import rng
from evolora_core.engine.artifacts import write_json
from evolora_core.engine.meter import Meter
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.template import Example
from evolora_core.lora.answering.grading import answer_items, charge
from evolora_core.lora.answering.outcome import Decoding, Manner, Outcome
from evolora_core.lora.population.candidates import load_each
from evolora_core.searches.adapters.rivals.plan import FEWEST_QUESTIONS


@dataclass(frozen=True)
class Checkpoint:
    """One kept checkpoint: training FLOPs until then, accuracy on `n` selection items (None without any)."""

    step: int
    flops: int
    n: int
    accuracy: float | None
    chosen: bool


def tidy_adapter(folder: Path) -> None:
    """Make a saved PEFT adapter the same bytes for the same weights: sorted config, no model card."""
    path = folder / "adapter_config.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    document["target_modules"] = sorted(document["target_modules"])  # PEFT keeps a set, in no order
    write_json(path, document)
    (folder / "README.md").unlink(missing_ok=True)


def is_finite(folder: Path) -> bool:
    """Whether a saved adapter is free of NaN and infinity."""
    tensors = load_file(folder / "adapter_model.safetensors")
    return all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values())


def interleave(items: Sequence[Item], seed: int) -> list[Item]:
    """The items in an order of which every beginning is balanced over (family, depth) cells."""
    shuffled = [items[i] for i in rng.stream(seed, 0, 0, "sft selection").permutation(len(items))]
    turn: dict[tuple[str, str], int] = {}
    numbered = []
    for item in shuffled:
        cell = (item.family, item.depth)
        turn[cell] = turn.get(cell, 0) + 1
        numbered.append((turn[cell], cell, item))
    return [item for *_, item in sorted(numbered, key=lambda entry: entry[:2])]


def question_costs(
    host: Host, items: Sequence[Item], *, rank: int, examples: Sequence[Sequence[Example]] | None = None
) -> np.ndarray:
    """Expected FLOPs `[items]` of one answer each by an adapter that has learned to answer as briefly as the gold."""
    model = FlopModel.from_model(host.model)
    prompts = host.encode_prompts([item.prompt for item in items], examples)
    answers = host.encode_answers([gold(item) for item in items])
    result: np.ndarray = model.generate_flops([len(ids) for ids in prompts], [len(ids) for ids in answers], rank)
    return result


def choose_checkpoint(
    host: Host,
    kept: Mapping[int, Path],
    items: Sequence[Item],
    *,
    decoding: Decoding | None,
    allowance: int,
    spent: Mapping[int, int],
    meter: Meter,
    examples: Sequence[Sequence[Example]] | None = None,
) -> list[Checkpoint]:
    """Let every checkpoint answer the same items, their `examples` before them, as many as `allowance` FLOPs pay for,
    and mark the most accurate.

    A tie goes to the higher mean score, then to the earlier step, which has drifted less from the host. Without items
    (or with a single checkpoint), or if answers were so long that the allowance paid for fewer than FEWEST_QUESTIONS of
    them, the last one is chosen. The answers are charged to `meter` as selection and never cost more than the
    allowance.
    """
    steps = sorted(kept)
    outcomes: dict[int, list[Outcome]] = {step: [] for step in steps}
    if items and decoding is not None and len(steps) > 1:
        started = time.perf_counter()
        outcomes = _answers(host, [kept[step] for step in steps], steps, items, decoding, allowance, examples)
        every = [outcome for of_step in outcomes.values() for outcome in of_step]
        charge(meter, "selection", every, time.perf_counter() - started)
    n = len(outcomes[steps[0]])
    if not n:
        return [Checkpoint(step, spent[step], 0, None, step == steps[-1]) for step in steps]
    accuracy = {step: float(np.mean([o.grade.correct for o in given])) for step, given in outcomes.items()}
    score = {step: float(np.mean([o.grade.score for o in given])) for step, given in outcomes.items()}
    best = max(steps, key=lambda step: (accuracy[step], score[step], -step))
    if n < min(FEWEST_QUESTIONS, len(items)):
        best = steps[-1]
    return [Checkpoint(step, spent[step], n, accuracy[step], step == best) for step in steps]


def _answers(
    host: Host,
    folders: Sequence[Path],
    steps: Sequence[int],
    items: Sequence[Item],
    decoding: Decoding,
    allowance: int,
    examples: Sequence[Sequence[Example]] | None,
) -> dict[int, list[Outcome]]:
    """Ask in rounds: each round is as long as the allowance pays for if no answer ever ended by itself."""
    population = load_each(host, folders)
    model = FlopModel.from_model(host.model)
    shown = examples if examples is not None else [()] * len(items)
    lengths = [len(ids) for ids in host.encode_prompts([item.prompt for item in items], shown)]
    worst = model.generate_flops(lengths, decoding.max_new_tokens, population.max_rank) * len(steps)
    outcomes: dict[int, list[Outcome]] = {step: [] for step in steps}
    asked = 0
    while asked < len(items):
        affordable = int(np.searchsorted(np.cumsum(worst[asked:]), allowance, side="right"))
        if affordable == 0:
            break
        batch = items[asked : asked + affordable]
        slots = np.repeat(np.arange(len(steps)), len(batch))
        manner = Manner(examples=list(shown[asked : asked + affordable]) * len(steps))
        given = answer_items(host, population, list(batch) * len(steps), slots, manner, decoding=decoding)
        for i, step in enumerate(steps):
            outcomes[step] += given[i * len(batch) : (i + 1) * len(batch)]
        allowance -= sum(outcome.flops for outcome in given)
        asked += len(batch)
    return outcomes
