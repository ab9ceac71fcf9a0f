"""The clipped policy-gradient objective of sampled answers, token by token: its value here, its gradient in `train`."""

from dataclasses import dataclass

import torch
from torch import Tensor

FAR = 20.0  # nats of a log ratio at which it is cut off: its exponential must stay finite


@dataclass(frozen=True)
class Surrogate:
    """What a batch of sampled answers needs beside its tokens.

    advantages    [N] of the rows
    temperatures  [N] at which they were sampled: the policy is the softmax of the logits divided by it
    old           [N, T] log-probability of every answer token, in its place, when it was sampled
    host          [N, T] the same of the bare host; None where `kl` is 0
    clip          how far the ratio to `old` counts: from 1 - clip to 1 + clip
    kl            weight of the KL divergence from the host
    """

    advantages: Tensor
    temperatures: Tensor
    old: Tensor
    host: Tensor | None
    clip: float
    kl: float

    def take(self, rows: Tensor) -> "Surrogate":
        """That of some rows."""
        host = None if self.host is None else self.host[rows]
        return Surrogate(self.advantages[rows], self.temperatures[rows], self.old[rows], host, self.clip, self.kl)

    def losses(self, logprobs: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
        """Loss of every token at (`rows`, `columns`), `[tokens]`, from its log-probability in the present policy.

        The ratio to the sampling policy is clipped as in PPO (Schulman et al. 2017, arXiv 1707.06347, equation 7): an
        answer is not pushed further than `clip` in the direction of its advantage.
        """
        advantages = self.advantages[rows]
        ratio = (logprobs - self.old[rows, columns]).clamp(-FAR, FAR).exp()
        losses = -torch.minimum(ratio * advantages, ratio.clamp(1 - self.clip, 1 + self.clip) * advantages)
        if self.host is None:
            return losses
        return losses + self.kl * divergence(logprobs, self.host[rows, columns])


def divergence(logprobs: Tensor, reference: Tensor) -> Tensor:
    """Estimate of KL(policy || reference) from each token that the policy sampled, never negative.

    The estimator k3 = r - 1 - log r with r = reference / policy (Schulman 2020, "Approximating KL divergence"), as in
    GRPO (arXiv 2402.03300, equation 4).
    """
    log_ratio = (reference - logprobs).clamp(-FAR, FAR)
    return torch.expm1(log_ratio) - log_ratio
