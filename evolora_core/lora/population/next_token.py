"""Which token comes next, of the logits that a model gives."""

import torch
from torch import Tensor


def scaled(logits: Tensor, temperatures: Tensor) -> Tensor:
    """Logits `[rows, vocabulary]` at the rows' temperatures; as they are where the likeliest token is taken."""
    return logits / torch.where(temperatures > 0, temperatures, 1.0)[:, None]


def likeliest(logits: Tensor) -> Tensor:
    """The likeliest token of each row `[rows]`, the first of equals.

    On a CPU numpy's `argmax` takes a sixth of torch's time or less.
    """
    return logits.argmax(dim=1) if logits.device.type != "cpu" else torch.from_numpy(logits.numpy().argmax(axis=1))


def next_likeliest(logits: Tensor, chosen: Tensor, count: int) -> Tensor:
    """`[rows, count, 2]`: the chosen tokens `[rows]` and the likeliest others, each with its log-probability.

    Of tokens that are as likely, `topk` need not put the one that `argmax` took first; in bfloat16 many are.
    """
    logprobs, taken = torch.log_softmax(logits.float(), dim=1), chosen[:, None]
    own = logprobs.gather(1, taken)
    others = logprobs.scatter_(1, taken, -torch.inf).topk(count - 1, dim=1)
    return torch.stack([torch.cat([taken, others.indices], dim=1), torch.cat([own, others.values], dim=1)], dim=2)


def next_tokens(logits: Tensor, temperatures: Tensor, draw: Tensor) -> Tensor:
    """Next tokens `[rows]`, from logits `[rows, vocabulary]`."""
    logits = logits.float()
    best = likeliest(logits)
    if bool((temperatures > 0).any()):
        cumulative = torch.softmax(scaled(logits, temperatures), dim=1).cumsum(dim=1)
        total = cumulative[:, -1]
        # The first token whose cumulative probability exceeds the draw; rounding must not carry that to the total.
        target = torch.minimum(draw * total, torch.nextafter(total, torch.zeros_like(total)))
        drawn = torch.searchsorted(cumulative, target[:, None], right=True)[:, 0].clamp(max=logits.shape[1] - 1)
        best = torch.where(temperatures > 0, drawn, best)
    return best
