"""Full fine-tuning of a whole model: AdamW, linear warm-up over a tenth of the steps, linear decay to nothing.

Which rows are in a step is drawn from a stream of (seed, step), so a run depends on nothing that came before it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evolora_core.engine.rng import stream
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.progress import bars_on_terminals_only
from evolora_core.searches.merging.judging.scoring import batches, encoded, logits

CLIP = 1.0
WARMUP = 0.1
BACKWARD = 3  # forward and backward through all weights, in forwards


@dataclass(frozen=True)
class Spent:
    """What a fine-tuning cost, and its last loss (nats a token)."""

    flops: int
    tokens: int
    loss: float


def fine_tune(
    host: Host,
    model: Any,
    items: Sequence[Item],
    *,
    steps: int,
    rows: int,
    learning_rate: float,
    seed: int,
    role: str,
    weights: Sequence[float] | None = None,
    after: Callable[[int], None] | None = None,
) -> Spent:
    """Train all weights of `model`, in place and without dropout, on the answers of `items`. `weights` are the items'
    in the loss, all equal by default; `after(step)` is called when a step, counted from 1, is done. DataError for an
    item that is too long.
    """
    prompts, answers = encoded(host, items)
    shares = [1.0] * len(items) if weights is None else list(weights)
    cost = FlopModel.from_model(model)
    model.eval().requires_grad_(True)  # nothing drops out, which would depend on what was drawn before
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.0)
    flops, tokens, last = 0, 0, float("nan")
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * pace(step, steps)
        picked = picked_rows(len(items), rows, seed, step, role)
        own = [prompts[row] for row in picked], [answers[row] for row in picked]
        whole = sum(shares[row] * len(answers[row]) for row in picked) or 1.0  # none has weight: no gradient
        loss = 0.0
        for batch in batches(*own, host.pad_id):
            share = torch.tensor([shares[picked[item]] for item in batch.items.tolist()], device=host.device)
            batch = batch.to(host.device)
            each = torch.nn.functional.cross_entropy(logits(model, batch), batch.targets, reduction="none")
            part = (each * share).sum() / whole
            part.backward()
            loss += part.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total = [len(p) + len(a) for p, a in zip(*own, strict=True)]
        flops += BACKWARD * int(cost.score_flops(total, [len(a) for a in own[1]]).sum())
        tokens += sum(total)
        last = loss
        if after is not None:
            after(step + 1)
    model.requires_grad_(False)
    return Spent(flops, tokens, last)


def picked_rows(items: int, rows: int, seed: int, step: int, role: str) -> list[int]:
    """Which of so many items are in a step, counted from 0: `rows` different ones, or all."""
    found: list[int] = stream(seed, step, 0, role).choice(items, size=min(rows, items), replace=False).tolist()
    return found


def steps_within(left: float, cost: Callable[[int], int]) -> int:
    """How many steps are paid for by `left` (FLOPs), `cost` being that of a step, counted from 0, and more than 0."""
    steps, spent = 0, cost(0)
    while spent <= left:
        steps += 1
        spent += cost(steps)
    return steps


def save_model(model: Any, host: Host, folder: Path) -> None:
    """Write a model, with the tokenizer of its base and what ends an answer of it, as a folder that transformers
    loads."""
    own: Any = host.model.generation_config
    if own is not None and model.generation_config is not None:
        model.generation_config.eos_token_id = own.eos_token_id
    with bars_on_terminals_only():
        model.save_pretrained(folder)
    host.tokenizer.save_pretrained(folder)


def looks(steps: int, times: int) -> set[int]:
    """Steps, counted from 1, at which a training is evaluated; the last step is one of them."""
    return {round(number * steps / times) for number in range(1, times + 1)}


def early_looks(steps: int, times: int) -> set[int]:
    """The same at equal ratios: a fine-tuning of few items may be best after its first steps."""
    return {round(steps ** (number / times)) for number in range(1, times + 1)}


def pace(step: int, steps: int) -> float:
    """The learning rate at a step (from 0), as a fraction of its peak."""
    warm = max(1, round(WARMUP * steps))
    return (step + 1) / warm if step < warm else max(0.0, (steps - step) / max(1, steps - warm))
