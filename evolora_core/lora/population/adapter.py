"""One LoRA adapter by itself."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Adapter:
    """Low-rank update ΔW = scale · B @ A of every adapted linear layer (Hu et al. 2021, LoRA).

    rank    rank of all factors
    scale   factor of ΔW; PEFT's `lora_alpha` is scale · rank
    A       module name -> [rank, in features]; names are relative to the Hugging Face model
    B       module name -> [out features, rank]
    """

    rank: int
    scale: float
    A: dict[str, Tensor]
    B: dict[str, Tensor]

    def delta(self, name: str) -> Tensor:
        """Dense ΔW of one module, `[out, in]`."""
        return self.scale * (self.B[name] @ self.A[name])

    def scaled(self, factor: float) -> "Adapter":
        """The same adapter with its ΔW times `factor`."""
        return replace(self, scale=self.scale * factor)

    def norm(self) -> float:
        """Frobenius norm of ΔW over all modules, computed from the factors."""
        total = sum(squared_norms(self.A[name], self.B[name]).item() for name in self.A)
        value: float = abs(self.scale) * total**0.5
        return value

    def shape(self, name: str) -> tuple[int, int]:
        """(out features, in features) of one module."""
        return self.B[name].shape[0], self.A[name].shape[1]

    def shapes(self) -> dict[str, tuple[int, int]]:
        """Module name -> (out features, in features)."""
        return {name: self.shape(name) for name in self.A}


def squared_norms(A: Tensor, B: Tensor) -> Tensor:
    """‖B @ A‖² of factors `[..., r, in]` and `[..., out, r]`, as `[...]` in float64, without the dense product.

    ‖BA‖² = tr(AᵀBᵀBA) = Σ (BᵀB ∘ AAᵀ): two r x r Gram matrices.
    """
    A, B = A.double(), B.double()
    # A sum of products of two positive semidefinite matrices: only rounding can take it below zero. NaN stays NaN.
    return torch.sum((B.mT @ B) * (A @ A.mT), dim=(-2, -1)).clamp(min=0)
