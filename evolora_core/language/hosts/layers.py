"""The layers of a host: those that are adapted, and those of its decoder."""

from collections.abc import Sequence
from typing import Any

from torch import nn
from transformers import PreTrainedModel


def adapted_layers(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """The linear layers that adapters change, by name: all but the LM head (what PEFT calls `all-linear`)."""
    head = model.get_output_embeddings()
    return {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head
    }


def decoder_layers(model: PreTrainedModel) -> Sequence[nn.Module]:
    """The layers of the decoder, which some architectures call `h`; none where they have another name."""
    decoder: Any = model.get_decoder()
    found: Sequence[nn.Module] = getattr(decoder, "layers", None) or getattr(decoder, "h", None) or []
    return found


def last_mlp(model: PreTrainedModel) -> nn.Module | None:
    """The MLP of the decoder's last layer, behind which only logits are read; None where it has another name."""
    layers = getattr(model.get_decoder(), "layers", [])
    return getattr(layers[-1], "mlp", None) if len(layers) else None
