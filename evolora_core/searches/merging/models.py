"""A model of a configuration, and weights into it: what merges are measured, answered and trained with."""

from collections.abc import Callable, Mapping
from typing import Any

import torch


def shell(config: Mapping[str, Any], device: str) -> Any:
    """A model of this configuration in evaluation mode, its weights to be filled in."""
    from transformers import AutoConfig, AutoModelForCausalLM
    from transformers.initialization import no_init_weights

    own = AutoConfig.for_model(**{key: value for key, value in config.items() if key != "transformers_version"})
    with torch.random.fork_rng(devices=[]), no_init_weights():  # all replaced; drawing them takes most of the time
        model: Any = AutoModelForCausalLM.from_config(own, dtype=torch.float32)
    model.tie_weights()  # which goes with the initial values
    return model.eval().requires_grad_(False).to(device)


@torch.no_grad()
def fill(model: Any, tensor: Callable[[str], torch.Tensor]) -> None:
    """Write weights into a model, one `tensor` by its name after the other. KeyError where one is missing."""
    for name, parameter in model.named_parameters():
        parameter.copy_(tensor(name))
