"""A router that sees the prompt alone: which family it looks like to the frozen host, and whether to any.

A prompt's features are the mean hidden state after the host's first layer, so asking costs one layer's prefill. Each
family is a Gaussian with the covariance that all share (linear discriminant analysis); a prompt goes to the nearest by
Mahalanobis distance, and to none where it is further off than all but 1 % of the selection prompts, which were measured
by Gaussians fitted without them (Lee et al. 2018, arXiv 1807.03888).
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn

from evolora_core.compute import FlopModel, Meter
from evolora_core.errors import DataError
from evolora_core.families import Item
from evolora_core.hosts import Host

FILE = "router.safetensors"
NOTHING = ""  # family of a prompt that looks like none
OUTSIDE = 0.01  # share of selection prompts beyond the limit
SHRINKAGE = 0.1  # of the covariance towards a multiple of the identity
FOLDS = 4
TOKENS = 8192  # in a pass


@dataclass(frozen=True)
class Classifier:
    """Families, their means in whitened features `[families, hidden]`, the whitening `[hidden, hidden]`, the limit."""

    families: tuple[str, ...]
    means: np.ndarray
    whitening: np.ndarray
    limit: float

    def guess(self, features: np.ndarray) -> list[str]:
        """The family of each row of features `[n, hidden]`, `NOTHING` for those that look like none."""
        distances = _distances(features @ self.whitening, self.means)
        nearest, far = distances.argmin(axis=1), distances.min(axis=1) > self.limit
        return [NOTHING if beyond else self.families[i] for i, beyond in zip(nearest, far, strict=True)]


def fit(features: np.ndarray, families: Sequence[str]) -> Classifier:
    """Learn from features `[n, hidden]` of the selection prompts and their families."""
    number = np.unique(families, return_inverse=True)[1]
    fold = np.empty(len(number), dtype=np.int64)
    for family in np.unique(number):  # every family in every fold
        members = np.flatnonzero(number == family)
        fold[members] = np.arange(len(members)) % FOLDS
    nearest = np.zeros(len(number))
    for one in range(FOLDS):
        means, whitening = _gaussians(features[fold != one], number[fold != one])
        nearest[fold == one] = _distances(features[fold == one] @ whitening, means).min(axis=1)
    means, whitening = _gaussians(features, number)
    return Classifier(tuple(sorted(set(families))), means, whitening, float(np.quantile(nearest, 1 - OUTSIDE)))


def _gaussians(features: np.ndarray, number: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Whitened means of the classes and the whitening of the covariance within them, shrunk."""
    means = np.stack([features[number == one].mean(axis=0) for one in np.unique(number)])
    centred = features - means[np.searchsorted(np.unique(number), number)]
    covariance = centred.T @ centred / len(features)
    size = len(covariance)
    covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.trace(covariance) / size * np.eye(size)
    values, vectors = np.linalg.eigh(covariance)
    whitening = vectors / np.sqrt(np.maximum(values, 1e-12))
    return means @ whitening, whitening


def _distances(whitened: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Squared distances `[n, classes]`."""
    return ((whitened[:, None] - means[None]) ** 2).sum(axis=2)


def write_classifier(path: Path, classifier: Classifier) -> None:
    """Write as safetensors."""
    tensors = {"means": classifier.means, "whitening": classifier.whitening, "limit": np.array([classifier.limit])}
    save_file(tensors, path, metadata={"families": json.dumps(classifier.families)})


def read_classifier(path: Path) -> Classifier:
    """Read what `write_classifier` wrote. DataError if it is not that."""
    try:
        with safe_open(path, framework="numpy") as file:
            families = tuple(json.loads((file.metadata() or {})["families"]))
            means, whitening, limit = (file.get_tensor(name) for name in ("means", "whitening", "limit"))
    except Exception as error:
        raise DataError(f"{path}: not a router ({error}); run the stage that trained it again") from error
    return Classifier(families, means, whitening, float(limit[0]))


def prompt_features(
    host: Host, items: Sequence[Item], meter: Meter | None = None, purpose: str = "routing"
) -> tuple[np.ndarray, np.ndarray]:
    """Mean hidden state of each prompt after the host's first layer `[n, hidden]`, and what it took in FLOPs `[n]`,
    which is charged to a meter if one is given.
    """
    started = time.perf_counter()
    prompts = host.encode_prompts([item.prompt for item in items])
    lengths = np.array([len(ids) for ids in prompts], dtype=np.int64)
    features = np.zeros((len(items), host.model.config.get_text_config().hidden_size))
    order = np.argsort(lengths, kind="stable")
    step = max(1, TOKENS // max(int(lengths.max(initial=1)), 1))
    with torch.inference_mode():
        for start in range(0, len(order), step):
            rows = order[start : start + step]
            width = int(lengths[rows].max())
            ids = torch.full((len(rows), width), host.pad_id, device=host.model.device)
            for place, row in enumerate(rows):
                ids[place, : lengths[row]] = torch.tensor(prompts[row])
            states = _after_first_layer(host, ids).float()
            real = torch.arange(width, device=ids.device) < torch.from_numpy(lengths[rows]).to(ids.device)[:, None]
            mean = (states * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
            features[rows] = mean.double().numpy(force=True)
    flops = FlopModel.from_model(host.model).first_layer_flops(lengths)
    if meter is not None:
        meter.add(purpose, int(flops.sum()), int(lengths.sum()), time.perf_counter() - started)
    return features, flops


class _Enough(Exception):
    """Ends a forward pass after the first layer; holds what came out of it."""

    def __init__(self, states: Tensor) -> None:
        self.states = states


def _after_first_layer(host: Host, ids: Tensor) -> Tensor:
    """Hidden states `[rows, tokens, hidden]`. Rows are padded on the right, which a causal model does not see."""

    def stop(layer: nn.Module, args: tuple, output: Tensor | tuple) -> None:
        raise _Enough(output[0] if isinstance(output, tuple) else output)

    handle = host.model.get_decoder().layers[0].register_forward_hook(stop)
    try:
        host.model(input_ids=ids, use_cache=False)
    except _Enough as enough:
        return enough.states
    finally:
        handle.remove()
    raise AssertionError("the first layer was not called")
