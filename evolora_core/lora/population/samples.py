"""Sampled answers as training rows: what each token's probability was when it was drawn, and what the host gives it."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.generate import Sampled
from evolora_core.lora.population.passes import pass_tokens, passes
from evolora_core.lora.population.surrogate import Surrogate
from evolora_core.lora.population.train import IGNORED, Batch, build_batch, surprisals


def sampled_batch(
    host: Host,
    prompt_ids: Sequence[Sequence[int]],
    sampled: Sequence[Sampled],
    slots: np.ndarray,
    temperatures: np.ndarray,
    advantages: np.ndarray,
    *,
    clip: float,
    kl: float,
) -> Batch:
    """Sampled answers as one batch with the clipped policy-gradient objective, sorted by slot.

    With `kl` the bare host reads them all first (`FlopModel.score_flops` at rank 0 is what that costs). A slot's
    loss is the mean over its tokens, not of means over answers, which would spare long wrong ones (DAPO, arXiv
    2503.14476, section 3.3; Dr. GRPO, arXiv 2503.20783, section 3).
    """
    batch = build_batch(host, prompt_ids, [own.tokens for own in sampled], slots, np.ones(len(sampled)))
    order = np.argsort(slots, kind="stable")
    known = np.concatenate([sampled[row].logprobs for row in order]).astype(np.float32)
    old = torch.zeros(batch.ids.shape, device=batch.ids.device)
    old[batch.labels != IGNORED] = torch.from_numpy(known).to(old)
    by_row = torch.from_numpy(temperatures[order].astype(np.float32)).to(old)
    surrogate = Surrogate(
        advantages=torch.from_numpy(advantages[order].astype(np.float32)).to(old),
        temperatures=by_row,
        old=old,
        host=logprobs_of_host(host, batch, by_row) if kl else None,
        clip=clip,
        kl=kl,
    )
    return replace(batch, surrogate=surrogate)


def logprobs_of_host(host: Host, batch: Batch, temperatures: Tensor) -> Tensor:
    """Log-probabilities `[N, T]` of the answer tokens, in place, at `temperatures` `[N]`; the bare host's."""
    found = torch.zeros(batch.ids.shape, device=batch.ids.device)
    with torch.no_grad():
        for rows in passes(batch.lengths, batch.slots.cpu().numpy(), pass_tokens(host)):
            chosen, width = torch.from_numpy(rows).to(found.device), int(batch.lengths[rows].max())
            nll, row, column = surprisals(
                host, batch.ids[chosen, :width], batch.labels[chosen, :width], temperatures[chosen]
            )
            found[chosen[row], column] = -nll
    return found
