"""Training of one model: the same batches in the same order for every program.

It knows nothing of sandboxes, programs or scores.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.host.state import load_state, save_state
from evolora_core.searches.attention.programs.rejection import Rejected

CLIP = 1.0  # the largest norm of a gradient
BETAS = (0.9, 0.95)  # of AdamW; there is no weight decay
SAVED = 1000  # steps from one saved state to the next


@dataclass(frozen=True)
class TrainSpec:
    """How a model is trained. Models are compared only at one spec for each size."""

    steps: int
    batch: int  # examples a step
    context: int  # tokens of an example that are predicted
    rate: float  # the highest learning rate
    warmup: int  # steps of linear warm-up

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.context) < 1 or not 0 <= self.warmup <= self.steps or self.rate <= 0:
            raise ValueError(f"steps, batch, context and rate must be above 0, and warmup at most steps: {self}")

    def rate_at(self, step: int) -> float:
        """The learning rate of step 0, 1, …: linear warm-up, then half a cosine to 0."""
        if step < self.warmup:
            return self.rate * (step + 1) / self.warmup
        return self.rate * 0.5 * (1 + math.cos(math.pi * (step - self.warmup) / max(1, self.steps - self.warmup)))


def train(model: nn.Module, rows: Tensor, spec: TrainSpec, seed: int, state: Path | None = None) -> list[float]:
    """Train `model` in place on `rows` [N, context + 1] (integers), which it gets by batches drawn with replacement.
    Returns the loss of each step in nats a token, before the step was taken.

    The batch of a step comes from the stream (seed, step) and from nothing else. `state` is a file that is written
    every SAVED steps, and from which a training goes on that was killed. Rejected at stage `train` when the loss is not
    finite.
    """
    if rows.shape[1] != spec.context + 1:
        raise ValueError(f"an example has {rows.shape[1]} tokens; context {spec.context} needs {spec.context + 1}")
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=spec.rate, betas=BETAS, weight_decay=0.0, fused=True)
    model.train()
    losses, before = load_state(state, model, optimizer) if state else ([], 0.0)
    began = time.process_time() - before
    for step in range(len(losses), spec.steps):
        optimizer.param_groups[0]["lr"] = spec.rate_at(step)  # before the step, so that the first is not at full rate
        batch = batch_of(rows, spec, seed, step)
        loss = loss_of(model, batch)
        value = loss.item()
        if not math.isfinite(value):
            raise Rejected("train", "the loss is not finite", f"step {step}")
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, CLIP, foreach=True)
        optimizer.step()
        losses.append(value)
        if state and len(losses) % SAVED == 0 and len(losses) < spec.steps:
            save_state(state, model, optimizer, losses, time.process_time() - began)
    return losses


def batch_of(rows: Tensor, spec: TrainSpec, seed: int, step: int) -> Tensor:
    """The examples [batch, context + 1] of one step."""
    chosen = stream(seed, step, 0, "batch").integers(0, len(rows), size=spec.batch)
    return rows[torch.from_numpy(chosen).to(rows.device)].long()


def loss_of(model: nn.Module, batch: Tensor) -> Tensor:
    """The mean loss in nats over all predicted tokens of `batch` [B, context + 1]."""
    logits = model(batch[:, :-1])
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[:, 1:].reshape(-1))
