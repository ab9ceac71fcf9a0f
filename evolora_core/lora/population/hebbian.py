"""A three-factor Hebbian step: what a module's input was, what the policy would rather have said, and how good it was.

Forward passes only, no gradient is taken. In each module that writes to the residual stream, B grows by
reward factor · Σ over tokens of error ⊗ eligibility (Gerstner et al. 2018, arXiv 1801.05219; with a broadcast learning
signal as in e-prop, Bellec et al. 2020, doi 10.1038/s41467-020-17236-y). The pre-synaptic factor is the module's input
as its own A projects it, with a trace that decays over the answer's tokens. A purely local post-synaptic factor cannot
work here: a fresh adapter's own output is zero, and the host's output is the same whatever was sampled from it, so
neither correlates with the choice that was rewarded. The error does: the sampled token less the policy's expectation,
carried back through the LM head's weights. Modules that do not write to the residual stream would need the layers above
them, that is a gradient; they stay as they are.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from evolora_core.errors import ConfigError
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population.lora import attached
from evolora_core.lora.population.passes import pass_tokens, passes
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import Batch, answer_logits

WRITERS = ("o_proj", "down_proj")  # modules whose output is added to the residual stream


def hebbian_step(
    host: Host,
    population: Population,
    batch: Batch,
    learning_rates: Tensor,
    temperatures: Tensor,
    cap: float,
    trace_decay: float,
) -> Tensor:
    """One update of B of every slot in the batch; returns the updates' norms `[P]` before cap and rate.

    `learning_rates` and sampling `temperatures` are `[P]`; `batch.weights` are the reward factors; `cap` bounds the
    norm of a slot's update over all modules, before the rate. NaN stands for slots that are absent, and for slots whose
    update is not finite: those stay as they are.
    """
    present, updates = hebbian_updates(host, population, batch, temperatures, trace_decay)
    squares = torch.stack([update.square().sum(dim=(1, 2)) for update in updates.values()])
    own = squares.sum(dim=0).sqrt().to(population.device)
    norms = torch.full((population.capacity,), torch.nan, device=population.device)
    slots, sound = present.to(population.device), own.isfinite()
    norms[slots[sound]] = own[sound]
    factor = learning_rates.to(own)[slots[sound]] * (cap / (own[sound] + 1e-6)).clamp(max=1.0)
    for name, update in updates.items():
        population.B[name][slots[sound]] += factor[:, None, None] * update.to(population.device)[sound]
    return norms


def hebbian_updates(
    host: Host, population: Population, batch: Batch, temperatures: Tensor, trace_decay: float
) -> tuple[Tensor, dict[str, Tensor]]:
    """Slots in the batch `[G]`, and of each writing module the update of B `[G, out, r]`: the mean over a slot's tokens
    of reward factor · error ⊗ trace.
    """
    device = host.model.device
    present, group = torch.unique(batch.slots, return_inverse=True)
    answers = torch.from_numpy(batch.answer_lengths).to(device)
    tokens = torch.zeros(len(present), device=device).index_add(0, group, answers.float())
    own_slots = present.to(population.device)
    factors = {name: population.A[name][own_slots].to(device) for name in writers(host)}
    updates = {
        name: torch.zeros(len(present), population.shapes[name][0], population.max_rank, device=device)
        for name in factors
    }
    temperatures = temperatures.to(device)[batch.slots]
    with torch.no_grad(), attached(host.model, population) as adapters, _inputs(host) as inputs:
        for rows in passes(batch.lengths, batch.slots.cpu().numpy(), pass_tokens(host)):
            chosen, width = torch.from_numpy(rows).to(device), int(batch.lengths[rows].max())
            adapters.rows(batch.slots[chosen])
            labels = batch.labels[chosen, :width]
            logits, row, column = answer_logits(host, batch.ids[chosen, :width], labels)
            # Rows of a slot in a block of their own: a batched matmul sums over them, in a fixed order, and what is not
            # finite stays where it is.
            own, first = group[chosen], torch.from_numpy(batch.lengths[rows]).to(device) - answers[chosen]
            counts = torch.bincount(own, minlength=len(present))
            seat = torch.arange(len(rows), device=device) - (counts.cumsum(0) - counts)[own]
            there = own[row], seat[row], column - first[row]  # slot, row of the slot, token of the answer
            block = len(present), int(counts.max()), int(answers[chosen].max())
            temperature = temperatures[chosen][row][:, None]
            error = _errors(host, logits / temperature, labels[row, column]) / temperature
            post = error.new_zeros(*block, error.shape[1])
            post[there] = (batch.weights[chosen] / tokens[own])[row][:, None] * error
            for name, A in factors.items():
                x = A.new_zeros(*block, A.shape[2])
                x[there] = inputs[name][row, column - 1].to(A)  # where the token is predicted
                pre = torch.bmm(x.flatten(1, 2), A.mT).view(*block, -1)
                updates[name] += torch.bmm(post.flatten(1, 2).mT, _trace(pre, trace_decay).flatten(1, 2))
    return present, updates


def hebbian_flops(host: Host, model: FlopModel, batch: Batch, ranks: np.ndarray) -> np.ndarray:
    """Budget FLOPs of each row `[N]` with adapters of `ranks` `[N]`: a pass that reads the answer, the errors' way back
    through the LM head, and at the answer's tokens both factors of the writing modules.
    """
    layers = adapted_layers(host.model)
    written = sum(layers[name].in_features + layers[name].out_features for name in writers(host))
    answers = batch.answer_lengths
    result: np.ndarray = model.score_flops(batch.lengths, answers, ranks) + 2 * answers * (model.head + ranks * written)
    return result


def writers(host: Host) -> list[str]:
    """Names of the modules that write to the residual stream. ConfigError if those of the host have other names."""
    found = [name for name in adapted_layers(host.model) if name.endswith(WRITERS)]
    if lacking := [word for word in WRITERS if not any(name.endswith(word) for name in found)]:
        raise ConfigError(
            f"ecology.plasticity.rule: hebbian changes the modules {' and '.join(WRITERS)}, and the host has no "
            f"{' or '.join(lacking)}; choose another rule"
        )
    return found


def _errors(host: Host, logits: Tensor, tokens: Tensor) -> Tensor:
    """The sampled tokens less what the policy expects, carried back to the hidden state, `[tokens, hidden]`."""
    error = torch.softmax(logits, dim=1).neg_()
    error[torch.arange(len(tokens), device=tokens.device), tokens] += 1
    result: Tensor = error @ host.model.get_output_embeddings().weight.float()
    return result


def _trace(pre: Tensor, decay: float) -> Tensor:
    """Σ over s ≤ t of decay^(t-s) · pre[s], for every token t: `[..., T, r]`."""
    steps = torch.arange(pre.shape[-2], device=pre.device)
    age = steps[:, None] - steps
    kernel = torch.where(age >= 0, torch.tensor(decay, device=pre.device) ** age.clamp(min=0), 0.0)
    return kernel @ pre


@contextmanager
def _inputs(host: Host) -> Iterator[dict[str, Tensor]]:
    """What went into each writing module in the last pass `[rows, T, in]`, by name."""
    layers, known = adapted_layers(host.model), {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        def hook(layer: nn.Module, args: tuple[Tensor, ...]) -> None:
            known[name] = args[0]

        return hook

    handles = [layers[name].register_forward_pre_hook(keep(name)) for name in writers(host)]
    try:
        yield known
    finally:
        for handle in handles:
            handle.remove()
