"""One forward and backward for many organelles, and an AdamW whose every slot goes its own way.

The rows of a batch belong to different slots and meet nowhere in the model, so the gradient of the summed losses is the
gradient of each.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from evolora_core.engine.probes import reached
from evolora_core.errors import AdapterError
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import decoder_layers
from evolora_core.lora.population.lora import attached
from evolora_core.lora.population.packed import Packing, packed, packs
from evolora_core.lora.population.passes import in_room, pass_tokens, passes
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.surrogate import Surrogate

IGNORED = -100  # label of positions that are not trained on
CPU_BLOCK = 2**17  # elements that the optimizer works on at once
EPS = 1e-8  # beside the root of the mean square, as in torch


@dataclass(frozen=True)
class Batch:
    """Right-padded training rows, sorted by slot.

    ids       [N, T] prompt and answer
    labels    [N, T] the answer's ids in place, -100 elsewhere
    slots     [N] who learns the row
    weights   [N] weight of the row's tokens; negative weights push away
    surrogate the policy-gradient objective of its tokens; None: their negative log-likelihood
    """

    ids: Tensor
    labels: Tensor
    slots: Tensor
    weights: Tensor
    lengths: np.ndarray  # [N] tokens of prompt and answer
    surrogate: Surrogate | None = None

    @property
    def answer_lengths(self) -> np.ndarray:
        """Tokens of the answers `[N]`."""
        return (self.labels != IGNORED).sum(dim=1).numpy(force=True)

    def take(self, rows: np.ndarray) -> "Batch":
        """Some of its rows, which are to be ascending, as a batch of their own."""
        lengths = self.lengths[rows]
        chosen, width = torch.from_numpy(rows).to(self.ids.device), int(lengths.max())
        return Batch(
            ids=self.ids[chosen, :width],
            labels=self.labels[chosen, :width],
            slots=self.slots[chosen],
            weights=self.weights[chosen],
            lengths=lengths,
            surrogate=None if self.surrogate is None else self.surrogate.take(chosen),
        )


def build_batch(
    host: Host,
    prompt_ids: Sequence[Sequence[int]],
    answer_ids: Sequence[Sequence[int]],
    slots: Sequence[int] | np.ndarray,
    weights: Sequence[float] | np.ndarray,
) -> Batch:
    """Pad rows of prompt and answer (end token included) into one batch, sorted by slot, on the host's device."""
    prompts = np.fromiter(map(len, prompt_ids), dtype=np.int64, count=len(prompt_ids))
    answers = np.fromiter(map(len, answer_ids), dtype=np.int64, count=len(answer_ids))
    if not (prompts > 0).all() or not (answers > 0).all():
        raise ValueError("every row needs a prompt and an answer of at least one token")
    lengths = prompts + answers
    tokens = np.fromiter(
        chain.from_iterable(chain.from_iterable(zip(prompt_ids, answer_ids, strict=True))),
        dtype=np.int64,
        count=lengths.sum(),
    )
    column = np.arange(lengths.max())
    ids = np.full((len(lengths), lengths.max()), host.pad_id, dtype=np.int64)
    ids[column < lengths[:, None]] = tokens
    labels = np.where((column >= prompts[:, None]) & (column < lengths[:, None]), ids, IGNORED)
    slots = np.asarray(slots, dtype=np.int64)
    order = np.argsort(slots, kind="stable")
    device = host.model.device
    return Batch(
        ids=torch.from_numpy(ids[order]).to(device),
        labels=torch.from_numpy(labels[order]).to(device),
        slots=torch.from_numpy(slots[order]).to(device),
        weights=torch.from_numpy(np.asarray(weights, dtype=np.float32)[order]).to(device),
        lengths=lengths[order],
    )


class StackedAdamW:
    """AdamW (Loshchilov and Hutter 2019) over a population's rows: every slot has its own step count and moments."""

    def __init__(
        self,
        population: Population,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.0,
    ) -> None:
        self.population = population
        self.betas, self.weight_decay = betas, weight_decay
        self.steps = torch.zeros(population.capacity, dtype=torch.long, device=population.device)
        self.first = torch.zeros_like(population.weights)  # [P, D] running mean of gradients
        self.second = torch.zeros_like(population.weights)  # [P, D] running mean of their squares

    def step(self, slots: Tensor, gradients: Tensor, learning_rates: Tensor) -> None:
        """Update `slots` `[G]` by their gradients `[G, D]` and learning rates `[G]`; no other slot is touched."""
        beta1, beta2 = self.betas
        self.steps[slots] += 1
        steps = self.steps[slots].to(gradients.dtype)[:, None]
        rates = learning_rates.to(gradients)[:, None]
        whole = self.population.weights.shape[1]
        block = max(1, CPU_BLOCK // len(slots)) if gradients.device.type == "cpu" else whole
        for start in range(0, whole, block):  # what a block needs stays in the processor's cache
            part = slice(start, start + block)
            mask = self.population.rank_mask(slots, part)
            own = torch.where(mask, gradients[:, part], 0.0)
            first = self.first[slots, part].lerp_(own, 1 - beta1)
            second = self.second[slots, part].mul_(beta2).addcmul_(own, own, value=1 - beta2)
            self.first[slots, part], self.second[slots, part] = first, second
            weights = self.population.weights[slots, part] * (1 - rates * self.weight_decay)
            scale = second.sqrt_().div_((1 - beta2**steps).sqrt_()).add_(EPS)
            change = first.div_(scale).mul_(rates / (1 - beta1**steps))
            self.population.weights[slots, part] = torch.where(mask, weights - change, 0.0)

    def reset(self, slot: int) -> None:
        """Forget the moments and steps of a slot: another adapter has moved in."""
        self.steps[slot] = 0
        self.first[slot] = 0.0
        self.second[slot] = 0.0

    def copy(self, source: int, target: int) -> None:
        """Give a slot the steps and moments of another, whose adapter it has."""
        for own in (self.steps, self.first, self.second):
            own[target] = own[source]

    def state_dict(self) -> dict[str, Tensor]:
        """Steps and moments, for safetensors; not copies, so to be written at once."""
        return {"steps": self.steps, "first": self.first, "second": self.second}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave. AdapterError when it belongs to another population."""
        for name, own in (("steps", self.steps), ("first", self.first), ("second", self.second)):
            if name not in state or state[name].shape != own.shape:
                there = tuple(state[name].shape) if name in state else "nothing"
                raise AdapterError(
                    f"optimizer state: {name}: {there} stored, {tuple(own.shape)} needed; it is of another population"
                )
            own.copy_(state[name])


def train_step(
    host: Host,
    population: Population,
    batch: Batch,
    optimizer: StackedAdamW,
    learning_rates: Tensor,
    clip: float,
) -> Tensor:
    """One optimizer step of every slot in the batch; returns losses `[P]`, before the step.

    A slot's loss is the mean loss of its rows' label tokens, each weighted by its row: their negative log-likelihood,
    or what the batch's surrogate says.
    `learning_rates` are `[P]`; `clip` bounds the norm of a slot's gradient over all modules. NaN stands for slots that
    are absent, and for slots whose loss or gradient is not finite: those stay as they are, weights and moments, and the
    others are not affected.
    """
    losses = torch.full((population.capacity,), torch.nan, device=population.device)
    present, own, gradients = (part.to(population.device) for part in gradients_of(host, population, batch))
    norms = gradients.norm(dim=1)
    sound = own.isfinite() & norms.isfinite()
    slots = present[sound]
    losses[slots] = own[sound]
    if len(slots):
        factor = (clip / (norms[sound] + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
        finite = gradients if len(slots) == len(present) else gradients[sound]
        optimizer.step(slots, finite.mul_(factor[:, None]), learning_rates.to(population.device)[slots])
    return losses


def gradients_of(host: Host, population: Population, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Slots in the batch `[G]`, their losses `[G]` and the gradients of their weights `[G, D]`.

    Rows go through the model in passes of like length, whose gradients add up: little padding, and bounded memory.
    When memory runs out all the same, it is done again with less of it (`make_room`).
    """
    return in_room(host, batch.lengths, lambda: watched_gradients(host, population, batch))


def watched_gradients(
    host: Host,
    population: Population,
    batch: Batch,
    watch: Callable[[Tensor], AbstractContextManager[None]] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """`gradients_of` in the memory that there is. `watch` is entered for each pass, forward and backward, with the
    numbers of its rows, when the adapters are attached: hooks of the host's layers then see their whole output, of
    padded rows. Without it rows are packed where the host allows it.
    """
    if int(batch.slots.min()) < 0:
        raise ValueError("the bare host (slot -1) does not learn")
    present, group = torch.unique(batch.slots, return_inverse=True)
    answers = (batch.labels != IGNORED).sum(dim=1)
    share = batch.weights / _by_group(batch.weights.abs() * answers, group, len(present))[group]
    leaf = population.weights[present.to(population.device)].to(present.device).requires_grad_()
    losses, gradients = torch.zeros_like(share[: len(present)]), torch.zeros_like(leaf)
    with torch.enable_grad(), _recomputing(host), attached(host.model, population) as adapters:
        for rows in passes(batch.lengths, batch.slots.cpu().numpy(), pass_tokens(host)):
            chosen = torch.from_numpy(rows).to(leaf.device)
            own, place = torch.unique(group[chosen], return_inverse=True)
            packing = Packing.of(batch.lengths[rows], leaf.device) if watch is None and packs(host.model) else None
            slots = batch.slots[chosen]
            adapters.rows(packing.spread(slots) if packing else slots, leaf if len(own) == len(leaf) else leaf[own])
            width = int(batch.lengths[rows].max())
            with nullcontext() if watch is None else watch(chosen), packed(host.model, packing):
                tokens, row = _token_losses(host, batch, chosen, width, packing)
                partial = _by_group(share[chosen][row] * tokens, place[row], len(own))
                gradients += torch.autograd.grad(partial.sum(), leaf)[0]
            losses[own] += partial.detach()
    return present, losses, gradients


@contextmanager
def _recomputing(host: Host) -> Iterator[None]:
    """Activation checkpointing (Chen et al. 2016) of every decoder layer, if the host's room asks for it.

    Transformers' own does so in training mode only, in which a host would also drop out.
    """
    layers = decoder_layers(host.model) if host.memory_plan.recompute else []
    before = [layer.__dict__.get("forward") for layer in layers]
    for layer in layers:
        layer.forward = partial(checkpoint, layer.forward, use_reentrant=False, preserve_rng_state=False)
    try:
        yield
    finally:
        for layer, forward in zip(layers, before, strict=True):
            del layer.forward
            if forward is not None:
                layer.forward = forward


def _token_losses(
    host: Host, batch: Batch, chosen: Tensor, width: int, packing: Packing | None
) -> tuple[Tensor, Tensor]:
    """Loss of every labelled token of some rows, which are at most so wide, and its row's number among them."""
    surrogate = batch.surrogate
    temperatures = None if surrogate is None else surrogate.temperatures[chosen]
    ids, labels = batch.ids[chosen, :width], batch.labels[chosen, :width]
    losses, row, column = surprisals(host, ids, labels, temperatures, packing)
    return (losses if surrogate is None else surrogate.losses(-losses, chosen[row], column)), row


def surprisals(
    host: Host, ids: Tensor, labels: Tensor, temperatures: Tensor | None = None, packing: Packing | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Negative log-likelihood of every labelled token, its row and its column `[tokens]`. `temperatures` `[rows]` are
    temperatures by which logits are divided. With a packing the rows go through the host packed.
    """
    logits, row, column = answer_logits(host, ids, labels, packing)
    if temperatures is not None:
        logits = logits / temperatures[row][:, None]
    reached("training pass", tokens=ids.numel())
    return functional.cross_entropy(logits, labels[row, column], reduction="none"), row, column


def answer_logits(
    host: Host, ids: Tensor, labels: Tensor, packing: Packing | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits `[tokens, vocabulary]` that predict every labelled token, its row and its column `[tokens]`; the LM head
    runs for these only. With a packing the rows go through the host packed, for whose attention the caller cares.
    """
    row, column = (labels[:, 1:] != IGNORED).nonzero(as_tuple=True)
    # Right padding needs no attention mask: a causal model's real tokens never see what comes after them.
    given, place = {"input_ids": ids}, row * ids.shape[1] + column
    if packing is not None:
        given = {"input_ids": packing.pack(ids), "position_ids": packing.positions}
        place = packing.starts[row] + column
    head = host.model.get_output_embeddings()
    narrowed = head.register_forward_pre_hook(lambda _, args: (args[0].flatten(0, 1).index_select(0, place)[None],))
    try:
        logits = host.model(**given, use_cache=False).logits[0].float()
    finally:
        narrowed.remove()
    return logits, row, column + 1


def _by_group(values: Tensor, group: Tensor, groups: int) -> Tensor:
    """Sums of `values` `[N]` over their groups, `[groups]`."""
    return values.new_zeros(groups).index_add(0, group, values)
