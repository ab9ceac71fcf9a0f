"""Which layers of a host are adapted."""

from torch import nn
from transformers import PreTrainedModel


def adapted_layers(model: PreTrainedModel) -> dict[str, nn.Linear]:
    """The linear layers that adapters change, by name: all but the LM head (what PEFT calls `all-linear`)."""
    head = model.get_output_embeddings()
    return {
        name: module for name, module in model.named_modules() if isinstance(module, nn.Linear) and module is not head
    }
