"""Answers of many organelles in one batch: prompts of a slot share their beginnings, rows leave when they are finished.

Decoding is ours, the forward pass is the Hugging Face model's. Knows nothing of text, items or grades.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import DynamicCache, PreTrainedModel

from evolora_core.engine import rng
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import last_mlp
from evolora_core.lora.population.cache import cache_for, counts_columns, keep_rows, place
from evolora_core.lora.population.lora import Attachment, attached
from evolora_core.lora.population.next_token import next_likeliest, next_tokens, scaled
from evolora_core.lora.population.passes import pass_tokens, passes
from evolora_core.lora.population.prefixes import shared_prefixes
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population

ABSENT = -1  # in place of a token, left of a prompt
LEAVING = 0.25  # finished rows are removed when they are at least this share


@dataclass(frozen=True)
class Alternatives:
    """What greedy decoding did not take: for each sampled token its log-probability, and the next likeliest tokens."""

    taken: np.ndarray  # float32 [new tokens]
    tokens: np.ndarray  # int64 [new tokens, asked for]
    logprobs: np.ndarray  # float32 [new tokens, asked for]


@dataclass(frozen=True)
class Sampled:
    """What a policy-gradient step needs of an answer: every sampled token, the end token included, and its
    log-probability in the distribution that it was drawn from, the temperature's.
    """

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True)
class Answer:
    """One answer.

    tokens          sampled token ids, the end token excluded
    finished        whether an end token was sampled, or `stop` said so
    prompt_tokens   length of the prompt
    new_tokens      sampled tokens, the end token included
    executed_flops  what the engine spent on it: with padding and the batch's highest rank, samples sharing a prefill
    alternatives    the tokens not taken, if they were asked for
    sampled         all sampled tokens, if they were asked for
    """

    tokens: list[int]
    finished: bool
    prompt_tokens: int
    new_tokens: int
    executed_flops: int
    alternatives: Alternatives | None = None
    sampled: Sampled | None = None


def generate(
    host: Host,
    population: Population | None,
    prompt_ids: Sequence[Sequence[int]],
    slots: Sequence[int] | np.ndarray | Tensor,
    *,
    max_new_tokens: int | np.ndarray,
    temperatures: float | Sequence[float] = 0.0,
    keys: np.ndarray | None = None,
    batch_rows: int = 256,
    alternatives: int = 0,
    sampled: bool = False,
    stop: Callable[[Tensor], Tensor] | None = None,
) -> list[Answer]:
    """Answer `prompt_ids[i]` with the adapter in `slots[i]` (-1 = bare host); the answers keep the order of the rows.

    An answer has at most `max_new_tokens` tokens, which may differ by row (`[rows]`).
    Temperature 0 takes the likeliest token, a higher one samples by inverse CDF from the uniforms of the row's own
    stream `keys[i]` (uint64), so that a row's answer depends on the rows beside it only through floating-point
    rounding. At most `batch_rows` rows are decoded together. `alternatives` asks for that many next likeliest tokens at
    each step of a greedy answer, `sampled` for the sampled tokens one by one. `stop` says of new tokens
    `[rows, so far]` which rows shall end, `[rows]` bool. Raises ValueError where a row does not fit the context, or
    samples without a key or with alternatives.
    """
    rows = len(prompt_ids)
    if not rows:
        return []
    slots = np.asarray(slots.cpu() if isinstance(slots, Tensor) else slots, dtype=np.int64)
    lengths = np.fromiter(map(len, prompt_ids), dtype=np.int64, count=rows)
    by_row = np.broadcast_to(np.asarray(temperatures, dtype=np.float32), (rows,))
    caps = np.broadcast_to(np.asarray(max_new_tokens, dtype=np.int64), (rows,))
    _check(host, population, slots, lengths, by_row, keys, caps)
    longest = int(caps.max())
    if alternatives and by_row.any():
        raise ValueError("alternatives are those of greedy answers: they need temperature 0")
    prompts = _padded(prompt_ids, lengths)
    draws = rng.uniforms(keys, longest) if keys is not None and by_row.any() else np.zeros((rows, 1))
    by_length = np.argsort(lengths, kind="stable")
    answers: dict[int, Answer] = {}
    with torch.inference_mode(), _last_position_only(host.model), attached(host.model, population) as adapters:
        for start in range(0, rows, batch_rows):
            batch = by_length[start : start + batch_rows]
            # Rows of one slot stand together, and in them rows of one prompt: `Layout` and the shared prefill want it.
            columns = prompts[batch][:, prompts.shape[1] - lengths[batch].max() :]
            distinct, which = np.unique(np.column_stack([slots[batch], columns]), axis=0, return_inverse=True)
            order = np.argsort(which.reshape(-1), kind="stable")
            batch, which = batch[order], which.reshape(-1)[order]
            found = _Decoding(
                host,
                adapters,
                slots[batch],
                lengths[batch],
                by_row[batch],
                draws[batch],
                caps[batch],
                alternatives=alternatives,
                sampled=sampled,
                stop=stop,
            )
            found.run(distinct, which)
            answers |= {row: found.answer(place) for place, row in enumerate(batch.tolist())}
    return [answers[row] for row in range(rows)]


def _alternatives(own: np.ndarray) -> Alternatives | None:
    """From (token, log-probability) of the likeliest tokens `[steps, 1 + asked for, 2]`, the taken one first."""
    if not own.size:
        return None
    tokens, logprobs = own[..., 0].astype(np.int64), own[..., 1].astype(np.float32)
    return Alternatives(logprobs[:, 0], tokens[:, 1:], logprobs[:, 1:])


class _Decoding:
    """One batch on its way: rows in the order of slot and prompt, and what they have answered so far."""

    def __init__(
        self,
        host: Host,
        adapters: Attachment,
        slots: np.ndarray,
        lengths: np.ndarray,
        temperatures: np.ndarray,
        draws: np.ndarray,
        caps: np.ndarray,
        *,
        alternatives: int,
        sampled: bool,
        stop: Callable[[Tensor], Tensor] | None,
    ) -> None:
        self.host, self.adapters, self.device = host, adapters, host.model.device
        self.slots, self.lengths, self.caps, self.max_new_tokens = slots, lengths, caps, int(caps.max())
        self.temperatures = torch.tensor(temperatures, device=self.device)
        self.draws = torch.tensor(draws, dtype=torch.float32, device=self.device)
        self.ends = np.array(host.eos_ids)
        self.tokens = np.zeros((len(slots), self.max_new_tokens), dtype=np.int64)
        self.counts = np.zeros(len(slots), dtype=np.int64)
        self.finished = np.zeros(len(slots), dtype=bool)
        self.ended = np.zeros(len(slots), dtype=bool)  # finished by an end token
        self.stop = stop
        self.executed = np.zeros(len(slots))
        # [rows, steps, tokens, (id, log-probability)] and [rows, steps] log-probability; no steps if not wanted
        self.likeliest = np.zeros((len(slots), self.max_new_tokens if alternatives else 0, 1 + alternatives, 2))
        self.taken = np.zeros((len(slots), self.max_new_tokens if sampled else 0), dtype=np.float32)
        self.flops = FlopModel.from_model(host.model)

    def run(self, distinct: np.ndarray, which: np.ndarray) -> None:
        """Prefill the distinct (slot, prompt) rows once each, then decode; row i continues `distinct[which[i]]`."""
        logits, cache, real = self._prefill(distinct, which)
        active = np.arange(len(which))  # rows still in the batch
        positions = torch.from_numpy(self.lengths).to(self.device)
        width = real.shape[1]
        # Where no row is padded no mask is needed, and attention is faster without.
        mask = None if bool(real.all()) else functional.pad(real.long(), (0, self.max_new_tokens), value=1)
        alive = np.ones(len(which), dtype=bool)
        temperatures, draws = self.temperatures, self.draws
        for step in range(self.max_new_tokens):
            chosen = next_tokens(logits, temperatures, draws[:, min(step, draws.shape[1] - 1)])
            said, rows = chosen.cpu().numpy(), active[alive]
            self.tokens[rows, step] = said[alive]
            self.counts[rows] += 1
            if self.likeliest.shape[1]:
                found = next_likeliest(logits, chosen, self.likeliest.shape[2])
                self.likeliest[rows, step] = found.cpu().numpy()[alive]
            if self.taken.shape[1]:
                own = torch.log_softmax(scaled(logits.float(), temperatures), dim=1).gather(1, chosen[:, None])[:, 0]
                self.taken[rows, step] = own.cpu().numpy()[alive]
            stopped = np.isin(said, self.ends)
            self.ended[active[alive & stopped]] = True
            if self.stop is not None:
                so_far = torch.from_numpy(self.tokens[active, : step + 1]).to(self.device)
                stopped |= self.stop(so_far).cpu().numpy()
            self.finished[active[alive & stopped]] = True
            alive = alive & ~stopped & (step + 1 < self.caps[active])
            if not alive.any():
                return
            if (~alive).mean() >= LEAVING:
                indices = self._index(np.flatnonzero(alive))
                keep_rows(cache, indices)
                active, chosen, positions, alive = active[alive], chosen[indices], positions[indices], alive[alive]
                temperatures, draws = temperatures[indices], draws[indices]
                mask = mask[indices] if mask is not None else None
                self.adapters.rows(self.slots[active])
            elif step == 0:
                self.adapters.rows(self.slots[active])
            # The sequence is as long as the padded batch, for rows that have finished but not left too.
            self.executed[active] += self.flops.step_flops(width + step + 1, self.adapters.rank)
            logits = self.host.model(
                input_ids=chosen[:, None],
                attention_mask=mask[:, : width + step + 1] if mask is not None else None,
                position_ids=positions[:, None],
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            positions = (positions + 1).clamp(max=self.host.max_context - 1)  # rows that ended may still be here

    def answer(self, row: int) -> Answer:
        """What a row has answered."""
        count = int(self.counts[row])
        own = self.tokens[row, :count].tolist()
        logprobs = self.taken[row, :count].tolist()
        return Answer(
            tokens=own[: count - int(self.ended[row])],
            finished=bool(self.finished[row]),
            prompt_tokens=int(self.lengths[row]),
            new_tokens=count,
            executed_flops=round(self.executed[row]),
            alternatives=_alternatives(self.likeliest[row, :count]),
            sampled=Sampled(tuple(own), tuple(logprobs)) if logprobs else None,
        )

    def _prefill(self, distinct: np.ndarray, which: np.ndarray) -> tuple[Tensor, DynamicCache, Tensor]:
        """Logits `[rows, vocabulary]` of the first new token, the cache, and which of its columns a row has
        `[rows, columns]`: first those of the prefix that it shares, then its own.
        """
        slots, prompts = distinct[:, 0], distinct[:, 1:]
        lengths, width = (prompts != ABSENT).sum(axis=1), prompts.shape[1]
        group, prefix = np.zeros_like(lengths), np.zeros_like(lengths)
        if not counts_columns(self.host.model):  # else a row's tokens must stand together
            group, prefix = shared_prefixes(slots, prompts, lengths)
        shared, spent = self._shared(slots, prompts, lengths, group, prefix)
        before, own = int(prefix.max()), lengths - prefix
        there = np.arange(before) >= (before - prefix)[:, None]
        samples = np.bincount(which)
        logits, cache, after = torch.empty(0), DynamicCache(), int(own.max())
        for chosen in passes(own, slots, pass_tokens(self.host)):
            longest = int(own[chosen].max())
            mine = np.arange(longest) >= (longest - own[chosen])[:, None]
            ids = np.where(mine, prompts[chosen, width - longest :], self.host.pad_id)
            known = None
            if shared is not None:
                known = cache_for(self.host.model, shared, len(chosen), before, longest)
                place(known, shared, self._index(group[chosen]), self._index(np.arange(len(chosen))))
            output = self._forward(slots[chosen], ids, np.hstack([there[chosen], mine]), known)
            index = np.full(len(distinct), -1)
            index[chosen] = np.arange(len(chosen))
            rows = np.flatnonzero(index[which] >= 0)
            self.executed[rows] += self.flops.extend_flops(before, longest, self.adapters.rank) / samples[which[rows]]
            sources, targets = self._index(index[which[rows]]), self._index(rows)
            last = output.logits[:, -1]
            if not len(logits):
                logits = last.new_empty(len(which), last.shape[1])
                room = self.max_new_tokens
                cache = cache_for(self.host.model, output.past_key_values, len(which), before + after, room)
            logits.index_copy_(0, targets, last.index_select(0, sources))
            place(cache, output.past_key_values, sources, targets, skip=before)
        if shared is not None:
            place(cache, shared, self._index(group[which]), self._index(np.arange(len(which))), until=before)
            self.executed += (spent / np.bincount(group[which], minlength=len(spent)))[group[which]]
        real = np.hstack([there, np.arange(after) >= (after - own)[:, None]])[which]
        return logits, cache, torch.from_numpy(real).to(self.device)

    def _shared(
        self, slots: np.ndarray, prompts: np.ndarray, lengths: np.ndarray, group: np.ndarray, prefix: np.ndarray
    ) -> tuple[DynamicCache | None, np.ndarray]:
        """The cache of every group's prefix, padded on the left, and what each took; None if there are none."""
        if not prefix.any():
            return None, np.zeros(1)
        _, first = np.unique(group, return_index=True)
        own, width, before = prefix[first], prompts.shape[1], int(prefix.max())
        cache, spent = None, np.zeros(len(first))
        for chosen in passes(own, slots[first], pass_tokens(self.host)):
            longest = max(int(own[chosen].max()), 1)
            rows = first[chosen]
            mine = np.arange(longest) >= (longest - own[chosen])[:, None]
            columns = np.arange(longest) + (width - lengths[rows] + own[chosen] - longest)[:, None]
            ids = np.where(mine, np.take_along_axis(prompts[rows], np.maximum(columns, 0), axis=1), self.host.pad_id)
            output = self._forward(slots[rows], ids, mine, None)
            spent[chosen] = self.flops.extend_flops(0, longest, self.adapters.rank)
            if cache is None:
                cache = cache_for(self.host.model, output.past_key_values, len(first), before, 0)
            place(cache, output.past_key_values, self._index(np.arange(len(chosen))), self._index(chosen))
        return cache, spent

    def _forward(self, slots: np.ndarray, ids: np.ndarray, real: np.ndarray, known: DynamicCache | None) -> Any:
        """The model's output for new tokens `ids` `[rows, T]`, of whose columns, and of those known before, `real` are
        there.
        """
        self.adapters.rows(slots)
        mask = torch.from_numpy(real).to(self.device)
        return self.host.model(
            input_ids=torch.from_numpy(ids).to(self.device),
            attention_mask=None if bool(real.all()) and known is None else mask.long(),
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :],
            past_key_values=known,
            use_cache=True,
            logits_to_keep=1,
        )

    def _index(self, numbers: np.ndarray) -> Tensor:
        return torch.from_numpy(numbers).to(self.device)


@contextmanager
def _last_position_only(model: PreTrainedModel) -> Iterator[None]:
    """Spare the last layer's MLP all positions but the last, which alone gives logits.

    Nothing reads what the residual stream holds elsewhere after the last attention; the one position's output is
    broadcast over it. The LM head gets the last positions as a matrix: from a view of all, torch would read the whole
    head once a row.
    """
    mlp, head = last_mlp(model), model.get_output_embeddings()
    handles = [head.register_forward_pre_hook(lambda _, args: (args[0].contiguous(),))]
    if mlp is not None:
        handles.append(mlp.register_forward_pre_hook(lambda _, args: (args[0][:, -1:],)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _padded(prompt_ids: Sequence[Sequence[int]], lengths: np.ndarray) -> np.ndarray:
    """Prompts `[rows, longest]`, left-padded with `ABSENT`."""
    width = int(lengths.max())
    padded = np.full((len(lengths), width), ABSENT, dtype=np.int64)
    flat = np.fromiter(chain.from_iterable(prompt_ids), dtype=np.int64, count=int(lengths.sum()))
    padded[np.arange(width) >= (width - lengths)[:, None]] = flat
    return padded


def _check(
    host: Host,
    population: Population | None,
    slots: np.ndarray,
    lengths: np.ndarray,
    temperatures: np.ndarray,
    keys: np.ndarray | None,
    caps: np.ndarray,
) -> None:
    if slots.shape != lengths.shape or (keys is not None and len(keys) != len(lengths)):
        raise ValueError(
            f"{len(lengths)} prompts, but {len(slots)} slots and {'no' if keys is None else len(keys)} keys"
        )
    if caps.min() < 1 or lengths.min() < 1:
        raise ValueError("every prompt needs a token, and every answer room for one")
    worst = int((lengths + caps).argmax())
    if lengths[worst] + caps[worst] > host.max_context:
        raise ValueError(f"{lengths[worst]} + {caps[worst]} tokens do not fit the context of {host.max_context}")
    capacity = population.capacity if population is not None else 0
    if slots.min() < HOST or slots.max() >= capacity:
        raise ValueError(f"slots {slots.min()} to {slots.max()}, but the population has {capacity}")
    if keys is None and temperatures.any():
        raise ValueError("rows with a temperature need keys")
