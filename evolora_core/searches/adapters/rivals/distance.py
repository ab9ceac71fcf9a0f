"""How far an adapter moves its host's next-token distributions.

KL(host ‖ adapter) at a token. As a term of a loss, with the host fixed, its gradient is that of the cross-entropy with
the host's own distribution, the distillation loss at temperature 1 of Learning without Forgetting (Li, Hoiem 2016,
arXiv 1606.09282); and it is the divergence by which Shenfeld et al. 2025 (arXiv 2509.04259) predict forgetting. It asks
the adapter to keep probable whatever the host thinks probable; the reverse would let it drop such answers, as long as
what it says is probable to the host.
"""

from torch import Tensor
from torch.nn import functional


def divergence(host_logits: Tensor, logits: Tensor) -> Tensor:
    """KL(host ‖ adapter) in nats at every position: `[positions, vocabulary]` twice -> `[positions]`, in float32."""
    host, own = host_logits.float().log_softmax(-1), logits.float().log_softmax(-1)
    return functional.kl_div(own, host, reduction="none", log_target=True).sum(-1)
