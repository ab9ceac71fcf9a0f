"""How well models know the gold answers: mean log-likelihoods of their tokens, and which of them greedy decoding gives.

One forward pass over prompt and gold answer says both. The log-likelihood is dense where exact match is flat: a merge
that is a little better is a little better. An item is solved if every gold token, the end included, is the most likely
one: then greedy decoding gives that answer.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from evolora_core.errors import DataError
from evolora_core.foreign.text import one_line
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host

MICRO_TOKENS = 2048  # of a pass, padding included: what a small model makes of them stays in the cache


@dataclass(frozen=True, eq=False)
class Judgement:
    """What a set of items says of a model.

    score    mean over the domains of `domains`, by their weights
    domains  `[domains]` mean log-likelihood of a gold token (nats)
    solved   `[items]` bool
    """

    score: float
    domains: np.ndarray
    solved: np.ndarray


@dataclass(frozen=True)
class Batch:
    """Rows of one pass: ids `[n, T]`, padded on the right, where causal attention never looks; the flat places `[k]`
    before the answers' tokens, those tokens `[k]`, and the item `[k]` of each.
    """

    ids: torch.Tensor
    places: torch.Tensor
    targets: torch.Tensor
    items: torch.Tensor

    def to(self, device: str) -> "Batch":
        """The same on a device."""
        return Batch(*(own.to(device) for own in (self.ids, self.places, self.targets, self.items)))


@dataclass(frozen=True)
class Questions:
    """Items, encoded once. `domain_of`: `[items]`; `weights`: `[domains]`, sum 1; lengths in tokens, `[items]`."""

    items: Sequence[Item]
    domain_of: np.ndarray
    weights: np.ndarray
    batches: Sequence[Batch]
    total: np.ndarray
    answered: np.ndarray

    @classmethod
    def of(cls, host: Host, by_domain: Mapping[str, Sequence[Item]], weights: Mapping[str, float]) -> "Questions":
        """Encode the items of each domain with the host's template and tokenizer."""
        items = [item for own in by_domain.values() for item in own]
        prompts, answers = encoded(host, items)
        raw = np.array([weights[name] for name in by_domain])
        return cls(
            items=items,
            domain_of=np.array([number for number, own in enumerate(by_domain.values()) for _ in own]),
            weights=raw / raw.sum(),
            batches=[batch.to(host.device) for batch in batches(prompts, answers, host.pad_id)],
            total=np.array([len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]),
            answered=np.array([len(a) for a in answers]),
        )

    def flops(self, model: FlopModel) -> int:
        """Budget FLOPs of measuring a model on all items."""
        return int(self.item_flops(model).sum())

    def item_flops(self, model: FlopModel) -> np.ndarray:
        """`[items]` budget FLOPs of asking a model each item."""
        found: np.ndarray = model.score_flops(self.total, self.answered)
        return found

    @property
    def tokens(self) -> int:
        """Tokens of a measurement."""
        return int(self.total.sum())


def encoded(host: Host, items: Sequence[Item]) -> tuple[list[list[int]], list[list[int]]]:
    """Token ids of the prompts and of the gold answers. DataError for an item that the host's context does not hold."""
    prompts = host.encode_prompts([item.prompt for item in items])
    answers = host.encode_answers([gold(item) for item in items])
    for item, prompt, answer in zip(items, prompts, answers, strict=True):
        if (length := len(prompt) + len(answer)) > host.max_context:
            raise DataError(
                f"{item.family}: prompt and right answer have {length} tokens, and the base's context holds "
                f"{host.max_context}; take out {one_line(item.prompt, 60)!r}"
            )
    return prompts, answers


def batches(prompts: Sequence[list[int]], answers: Sequence[list[int]], pad: int) -> list[Batch]:
    """Rows, sorted by length, in passes of at most `MICRO_TOKENS` tokens."""
    lengths = [len(p) + len(a) for p, a in zip(prompts, answers, strict=True)]
    order = sorted(range(len(prompts)), key=lambda row: (lengths[row], row))
    found: list[Batch] = []
    start = 0
    while start < len(order):
        end = start + 1
        while end < len(order) and (end + 1 - start) * lengths[order[end]] <= MICRO_TOKENS:
            end += 1
        found.append(_batch([(row, prompts[row], answers[row]) for row in order[start:end]], pad))
        start = end
    return found


def _batch(rows: Sequence[tuple[int, list[int], list[int]]], pad: int) -> Batch:
    width = max(len(prompt) + len(answer) for _, prompt, answer in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    places, targets, items = [], [], []
    for place, (row, prompt, answer) in enumerate(rows):
        ids[place, : len(prompt) + len(answer)] = prompt + answer
        first = place * width + len(prompt) - 1
        places.append(np.arange(first, first + len(answer)))
        targets += answer
        items += [row] * len(answer)
    return Batch(
        torch.from_numpy(ids),
        torch.from_numpy(np.concatenate(places)),
        torch.tensor(targets, dtype=torch.int64),
        torch.tensor(items, dtype=torch.int64),
    )


def logits(model: torch.nn.Module, batch: Batch) -> torch.Tensor:
    """Logits `[k, vocabulary]` at the answers' tokens; the head runs at no other place. The model itself is called:
    some scale or cap what their head gives.
    """
    head = model.get_output_embeddings()  # type: ignore[operator]
    narrowed = head.register_forward_pre_hook(lambda _, args: (args[0].flatten(0, 1)[batch.places][None],))
    try:
        result: torch.Tensor = model(input_ids=batch.ids, use_cache=False).logits[0]
    finally:
        narrowed.remove()
    return result


@torch.inference_mode()
def judge(model: torch.nn.Module, questions: Questions) -> Judgement:
    """Measure one model. Its numbers are NaN where its weights gave NaN."""
    return judge_by(lambda batch: torch.log_softmax(logits(model, batch).float(), dim=-1), questions)


def judge_by(log_probabilities: Callable[[Batch], torch.Tensor], questions: Questions) -> Judgement:
    """Measure whatever gives log-probabilities `[k, vocabulary]` of a batch's answer tokens."""
    likelihood = torch.zeros(len(questions.items), dtype=torch.float64)
    hits = torch.zeros(len(questions.items), dtype=torch.int64)
    for batch in questions.batches:
        scores = log_probabilities(batch)
        own = scores.gather(1, batch.targets[:, None])[:, 0]
        likelihood.index_add_(0, batch.items.cpu(), own.cpu().double())
        hits.index_add_(0, batch.items.cpu(), (scores.argmax(dim=1) == batch.targets).long().cpu())
    solved = hits.numpy() == questions.answered
    sums = np.bincount(questions.domain_of, weights=likelihood.numpy(), minlength=len(questions.weights))
    tokens = np.bincount(questions.domain_of, weights=questions.answered, minlength=len(questions.weights))
    domains = sums / tokens
    return Judgement(float(domains @ questions.weights), domains, solved)
