"""The loss of supervised fine-tuning: the labels' likelihood, and on request the distance from the host."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


def loss_of_answers(model: Any, inputs: dict[str, Tensor], coefficient: float, tokens: Any) -> Tensor:
    """Summed negative log-likelihood of the labels plus `coefficient` times the summed divergence, over `tokens`.

    `model` is a PEFT model, which without its adapter is the frozen host; the host is asked only where `coefficient` is
    not 0. `inputs` has `input_ids`, `attention_mask` and `labels` (-100 where nothing is learned), all `[rows, width]`;
    every label but -100 counts alike. Logits are made from the first column on that any row has to predict.
    """
    wanted = inputs["labels"][:, 1:] != -100
    first = first_answer(inputs["labels"]) - 1
    wanted = wanted[:, first:]
    labels = inputs["labels"][:, 1 + first :][wanted]
    given: dict[str, Any] = {name: value for name, value in inputs.items() if name != "labels"}
    # Columns by number, which are copied together: of a slice PyTorch would multiply each row with a copy of the head.
    columns = torch.arange(first, first + wanted.shape[1], device=wanted.device)
    given |= {"use_cache": False, "logits_to_keep": columns}

    host_logits = None
    if coefficient:
        # The host goes first: switching the adapter off and on must not come between its forward and its backward.
        learning = model.training
        with torch.no_grad(), model.disable_adapter():
            # In training a host with dropout would be another each time.
            host_logits = model.eval()(**given).logits[wanted]
        model.train(learning)
    logits = model(**given).logits[wanted]
    loss = functional.cross_entropy(logits.float(), labels, reduction="sum")
    if host_logits is not None:
        loss = loss + coefficient * divergence(host_logits, logits).sum()
    result: Tensor = loss / tokens
    return result


def first_answer(labels: Tensor) -> int:
    """The first column after the first one in which a row `[rows, width]` has a label to learn."""
    return 1 + int((labels[:, 1:] != -100).any(dim=0).int().argmax())


def divergence(host_logits: Tensor, logits: Tensor) -> Tensor:
    """How far an adapter moves its host's next-token distributions: KL(host ‖ adapter) in nats at every position,
    `[positions, vocabulary]` twice -> `[positions]`, in float32.

    As a term of a loss, with the host fixed, its gradient is that of the cross-entropy with the host's own
    distribution, the distillation loss at temperature 1 of Learning without Forgetting (Li, Hoiem 2016, arXiv
    1606.09282); and it is the divergence by which Shenfeld et al. 2025 (arXiv 2509.04259) predict forgetting. It asks
    the adapter to keep probable whatever the host thinks probable; the reverse would let it drop such answers, as long
    as what it says is probable to the host.
    """
    host, own = host_logits.float().log_softmax(-1), logits.float().log_softmax(-1)
    return functional.kl_div(own, host, reduction="none", log_target=True).sum(-1)
