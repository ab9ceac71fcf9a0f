"""A PEFT model that trains faster on a CPU: LoRA layers as one matmul with W + ΔW where that is faster than beside W,
and attention as the search's.
"""

from typing import Any, cast

import torch
from peft import PeftModel
from peft.tuners.lora import Linear
from torch import Tensor, nn
from transformers import PreTrainedModel

from evolora_core.lora.population.attention import quicken_attention
from evolora_core.lora.population.dense import Dense, worthwhile
from evolora_core.lora.population.low_rank import LowRank


def quicken(model: PeftModel) -> None:
    """Let a PEFT model that trains on a CPU compute so: the same numbers but for rounding."""
    quicken_attention(cast(PreTrainedModel, model.get_base_model()))
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = QuickLinear


class QuickLinear(Linear):
    """A LoRA layer of PEFT's that puts W + ΔW in place of W while it is trained."""

    def forward(self, x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        """What PEFT's layer gives."""
        base = cast(nn.Linear, self.get_base_layer())
        name = self.active_adapters[0]
        A, B = (cast(Tensor, factors[name].weight) for factors in (self.lora_A, self.lora_B))
        tokens = x.numel() // x.shape[-1]
        if (
            arguments
            or options
            or self.disable_adapters
            or self.merged
            or len(self.active_adapters) > 1
            or not torch.is_grad_enabled()
            or x.dtype != base.weight.dtype
            or A.dtype != torch.float32
            or x.device.type != "cpu"
        ):
            plain: Tensor = super().forward(x, *arguments, **options)
            return plain
        scale = self.scaling[name]
        if x.dtype == torch.float32 and worthwhile(1, tokens, len(A)):
            found: Tensor = Dense.apply(x, base.weight, base.bias, A[None], B[None], scale, (0, tokens))
            return found
        # In bfloat16 W + ΔW would round ΔW away. PEFT's layer widens x to float32 and back, the search's does not.
        beside: Tensor = LowRank.apply(base(x), x, A[None].to(x.dtype), B[None].to(x.dtype), scale, None)
        return beside
