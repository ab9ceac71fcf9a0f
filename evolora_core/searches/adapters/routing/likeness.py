"""How alike prompts are to the host: the cosine of their mean embeddings."""

from collections.abc import Sequence

import numpy as np

from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.searches.adapters.routing.learned import prompt_features


def likeness(host: Host, asked: Sequence[Item], known: Sequence[Item]) -> tuple[np.ndarray, np.ndarray, int]:
    """How alike the prompts of asked and known items are `[asked, known]`, what that took in FLOPs for each of the
    asked `[asked]`, and what the features of the known took, which could be kept.

    The mean of the known is taken off first: what all prompts share says nothing about which are alike.
    """
    features, flops = prompt_features(host, [*asked, *known])
    centred = features - features[len(asked) :].mean(axis=0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    alike: np.ndarray = centred[: len(asked)] @ centred[len(asked) :].T
    each = flops[: len(asked)] + 2 * features.shape[1] * len(known)
    return alike, each, int(flops[len(asked) :].sum())
