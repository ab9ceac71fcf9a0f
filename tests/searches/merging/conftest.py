"""A pool of four parents that differ from the shipped base by little, and what measures merges of them."""

import numpy as np
import pytest
import torch
from searches.merging.small_pool import DATA, DOMAINS, PARENTS

from evolora_core.engine.rng import stream
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.searches.merging.data import Splits, draw_splits
from evolora_core.searches.merging.judging.judge import Judge
from evolora_core.searches.merging.judging.scoring import Questions
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.weights import Loaded, Weights


@pytest.fixture(scope="session")
def merge_host() -> Host:
    """The shipped base."""
    torch.set_num_threads(1)
    return load_host("nano-merge")


@pytest.fixture(scope="session")
def pool(merge_host: Host) -> Pool:
    """Each parent is the base with a small random step of its own."""
    base = Loaded.of(merge_host.model)
    models: dict[str, Weights] = {"base": base}
    for number, name in enumerate(PARENTS):
        rng = stream(7, 0, number, "parents")
        models[name] = Loaded(base.config, {own: _moved(base.get(own), rng) for own in base.names})
    return Pool(merge_host, PARENTS, models)


def _moved(tensor: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    step = torch.from_numpy(rng.standard_normal(tuple(tensor.shape))).float()
    return tensor + 0.03 * tensor.std(unbiased=False) * step


@pytest.fixture(scope="session")
def splits() -> Splits:
    """Few items of three domains."""
    return draw_splits(DOMAINS, DATA, 3)


@pytest.fixture
def judge(pool: Pool, splits: Splits) -> Judge:
    """A judge with an empty meter."""
    weights = {name: domain.weight for name, domain in DOMAINS.items()}
    questions = {split: Questions.of(pool.host, splits[split], weights) for split in ("search", "selection")}
    return Judge(pool, questions)
