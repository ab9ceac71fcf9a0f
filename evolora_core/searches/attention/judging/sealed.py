"""Scoring with the answers sealed: a child process gets prefixes and returns logits, the loss is taken here.

Of each held-out text one prefix is shown and the token behind it is the target. Texts do not overlap, so no target has
been in the child's memory: whatever a program does with what it sees, it cannot do better than predict.
"""

import math

import torch

from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.programs.rejection import Rejected


def prefixes(corpus: Corpus) -> torch.Tensor:
    """int64 `[M, context]`: what is shown of each text; behind its prefix stands 0."""
    shown = torch.arange(corpus.context)[None, :] < corpus.lengths[:, None]
    return torch.where(shown, corpus.texts[:, :-1], 0)


def losses(logits: torch.Tensor, corpus: Corpus) -> torch.Tensor:
    """float64 `[M]`: the loss in nats of each target, from a child's `logits [M, vocab]`.

    Rejected (stage `train`) where they have another shape or are not finite: no score stands for a failure.
    """
    wanted = (len(corpus.texts), corpus.vocab)
    if tuple(logits.shape) != wanted or not logits.is_floating_point():
        given = f"{str(logits.dtype).removeprefix('torch.')} {list(logits.shape)}"
        raise Rejected(
            "train", "the answers to the held-out prefixes have another form", f"{given}, not {list(wanted)}"
        )
    finite = torch.isfinite(logits).all(dim=1)
    if not finite.all():
        place = f"text {int((~finite).nonzero()[0, 0])} and {int((~finite).sum()) - 1} others"
        raise Rejected("train", "the answers to the held-out prefixes are not finite", place)
    logs = torch.log_softmax(logits.double(), dim=1)
    return -logs.gather(1, corpus.targets[:, None])[:, 0]


def texts_needed(deviation: float, error: float) -> int:
    """How many texts bring the standard error of a mean difference down to `error`, if one text's deviates by
    `deviation` (both in nats)."""
    if not (deviation >= 0 and error > 0):
        raise ValueError("a deviation is 0 or more, and an error above 0")
    return max(1, math.ceil((deviation / error) ** 2))
