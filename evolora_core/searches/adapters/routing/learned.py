"""A router that sees the prompt alone: which family it looks like to the frozen host, and whether to any.

A prompt's features are the mean of its tokens' embeddings in the host, so asking costs next to nothing. Each family is
a Gaussian with the covariance that all share (linear discriminant analysis); a prompt goes to the nearest by
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
from torch import nn

from evolora_core.engine.meter import Meter
from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host

FILE = "router.safetensors"
NOTHING = ""  # family of a prompt that looks like none
OUTSIDE = 0.01  # share of selection prompts beyond the limit
SHRINKAGE = 0.1  # of the covariance towards a multiple of the identity
FOLDS = 4


@dataclass(frozen=True)
class Classifier:
    """Families, their means in whitened features `[families, hidden]`, the whitening `[hidden, hidden]`, the limit."""

    families: tuple[str, ...]
    means: np.ndarray
    whitening: np.ndarray
    limit: float

    @property
    def flops(self) -> int:
        """FLOPs of a guess from features: the whitening, then a difference, a square and a sum for each family."""
        hidden = len(self.whitening)
        return 2 * hidden**2 + 3 * hidden * len(self.families)

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
    return np.stack([((whitened - mean) ** 2).sum(axis=1) for mean in means], axis=1)  # [n, hidden] at a time


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


def prompt_features(host: Host, items: Sequence[Item]) -> tuple[np.ndarray, np.ndarray]:
    """Mean embedding of each prompt's tokens `[n, hidden]`, and what it took in FLOPs `[n]`, one a number added."""
    prompts = host.encode_prompts([item.prompt for item in items])
    lengths = np.array([len(ids) for ids in prompts], dtype=np.int64)
    with torch.inference_mode():
        tokens, places = torch.unique(torch.tensor([token for ids in prompts for token in ids]), return_inverse=True)
        vectors = host.model.get_input_embeddings()(tokens.to(host.model.device)).float().cpu()
        starts = torch.from_numpy(np.cumsum(lengths) - lengths)
        features = nn.functional.embedding_bag(places, vectors, starts, mode="mean")
    return features.double().numpy(), lengths * vectors.shape[1]


def guess_families(
    host: Host, classifier: Classifier, items: Sequence[Item], meter: Meter | None = None
) -> tuple[list[str], np.ndarray]:
    """The family that each prompt looks like, `NOTHING` for none, and what asking took in FLOPs `[n]`, which is charged
    to `evaluation` if there is a meter.
    """
    started = time.perf_counter()
    features, flops = prompt_features(host, items)
    guessed = classifier.guess(features)
    flops = flops + classifier.flops
    if meter is not None:
        meter.add("evaluation", int(flops.sum()), 0, time.perf_counter() - started)
    return guessed, flops
