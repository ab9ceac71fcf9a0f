"""RMS norms of a frozen host with a backward pass of their own.

What autograd makes of transformers' norms goes over their activations a dozen times on the way back; here it is five.
"""

from typing import Any

import torch
from torch import Tensor, nn


def quicken_norms(model: nn.Module) -> None:
    """Give a model's RMS norms that kind of backward pass, where they compute x · rsqrt(mean x² + ε) · weight."""
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm") and _is_plain(module):
            kind = type(module)
            module.__class__ = _QUICK.get(kind) or _QUICK.setdefault(kind, _quick(kind))


class RmsNorm(torch.autograd.Function):
    """x · rsqrt(mean x² + ε) · weight over the last dimension; the weight is frozen."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        inverse = x.pow(2).mean(-1, keepdim=True).add_(epsilon).rsqrt_()
        ctx.save_for_backward(x, weight, inverse)
        return (x * inverse).mul_(weight)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        x, weight, inverse = ctx.saved_tensors
        scaled = gradients[0] * weight
        along = (scaled * x).sum(-1, keepdim=True).mul_(inverse.pow(3)).div_(-x.shape[-1])
        return scaled.mul_(inverse).addcmul_(x, along), None, None


_QUICK: dict[type[nn.Module], type[nn.Module]] = {}


def _quick(kind: type[nn.Module]) -> type[nn.Module]:
    """The same class but for the gradient in float32, the arithmetic in which norms are computed anyway."""

    def forward(self: Any, hidden_states: Tensor) -> Tensor:
        wanted = torch.is_grad_enabled() and hidden_states.requires_grad and not self.weight.requires_grad
        if not wanted or hidden_states.dtype != torch.float32 or self.weight.dtype != torch.float32:
            plain: Tensor = kind.forward(self, hidden_states)
            return plain
        quick: Tensor = RmsNorm.apply(hidden_states, self.weight, self.variance_epsilon)
        return quick

    return type(f"Quick{kind.__name__}", (kind,), {"forward": forward})


def _is_plain(module: Any) -> bool:
    """Whether a norm computes as ours: of some architectures the weight is one less, or has another place."""
    weight, epsilon = getattr(module, "weight", None), getattr(module, "variance_epsilon", None)
    if not isinstance(weight, Tensor) or not isinstance(epsilon, float) or weight.dtype != torch.float32:
        return False
    probe = torch.linspace(-2, 3, len(weight), device=weight.device)[None]
    with torch.no_grad():
        return torch.allclose(module(probe), RmsNorm.apply(probe, weight, epsilon), rtol=1e-5, atol=1e-6)
