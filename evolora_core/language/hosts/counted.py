"""Whether the FLOPs of a host are those that we count: it is one decoder, all its matrices are linear layers or
embeddings, and its heads keep whole keys and values.
"""

from typing import Any

from evolora_core.errors import HostError


def check_counted(name: str, model: Any) -> None:
    """HostError for a model that reads more than text, for one that keeps keys and values compressed, and for one with
    matrices that no linear layer holds, such as experts or convolutions: budgets and prices would be wrong.
    """
    from torch import nn

    kind = type(model).__name__
    if model.config.get_text_config() is not model.config:
        raise HostError(f"host {name!r}: {kind} reads more than text; save its language model alone")
    if getattr(model.config, "kv_lora_rank", None):
        raise HostError(f"host {name!r}: {kind} keeps keys and values compressed, which is not supported; name another")
    for path, module in model.named_modules():
        # Cohere's norms have a row of weights for each head, and multiply no matrices.
        if isinstance(module, nn.Linear | nn.Embedding) or "Norm" in type(module).__name__:
            continue
        for own, parameter in module.named_parameters(recurse=False):
            if parameter.ndim > 1:
                raise HostError(
                    f"host {name!r}: {path}.{own} of {kind} is no linear layer, so that its FLOPs would not be "
                    "counted; name a model of linear layers and embeddings alone"
                )
