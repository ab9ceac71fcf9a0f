"""Training beside a host without touching it: the weights are shared, everything else is a copy or is put back."""

import contextlib
import copy
import random
import warnings
from collections.abc import Iterator
from typing import Any

import datasets
import numpy as np
import torch
from transformers import PreTrainedModel

from evolora_core.language.hosts.host import Host


@contextlib.contextmanager
def isolated(host: Host) -> Iterator[PreTrainedModel]:
    """A copy of the host's module tree that shares its frozen weights, to be wrapped and patched at will. Nothing of it
    drops out, in training either, as in arms without a Trainer.

    At the end the weights' `requires_grad` flags and the global random generators (which Trainer seeds) are as
    before, and the progress bars of `datasets` are drawn again if they were.
    """
    shared: dict[int, Any] = {id(tensor): tensor for tensor in (*host.model.parameters(), *host.model.buffers())}
    model: Any = copy.deepcopy(host.model, shared).eval()
    model.train = lambda mode=True: model
    model.name_or_path = host.name  # goes into the adapter's config, where a path of this machine has no business
    flags = [(parameter, parameter.requires_grad) for parameter in host.model.parameters()]
    python, legacy, bars = random.getstate(), np.random.get_state(), datasets.is_progress_bar_enabled()
    datasets.disable_progress_bars()
    try:
        own = [host.model.device] if host.model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=own), warnings.catch_warnings():
            # transformers' own spelling of a flag that its libraries read under the old name
            warnings.filterwarnings("ignore", message="`is_gradient_checkpointing` is deprecated")
            yield model
    finally:
        for parameter, flag in flags:
            parameter.requires_grad_(flag)
        random.setstate(python)
        np.random.set_state(legacy)
        if bars:
            datasets.enable_progress_bars()
