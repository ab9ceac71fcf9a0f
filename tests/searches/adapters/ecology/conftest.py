from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import evolve, little

from evolora_core.language.families.registry import gold
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import StackedAdamW, build_batch, train_step

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def nano() -> Any:
    return load_host("nano")


@pytest.fixture(scope="session")
def small(nano: Any) -> SimpleNamespace:
    return little(nano)


@pytest.fixture(scope="session")
def straight(small: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The little ecology, run without a stop; tests only read its folder."""
    return evolve(small, tmp_path_factory.mktemp("straight"))


@pytest.fixture(scope="session")
def skill(small: SimpleNamespace) -> Any:
    """A rank-2 adapter that learned to sort JSON arrays from gold answers."""
    host = small.host
    items = [item for item in small.items if item.family == "json_repair"]
    population = Population.empty(host, 1, 2)
    population.init_slot(0, 2, np.random.default_rng(0))
    optimizer = StackedAdamW(population)
    prompts, answers = host.encode_prompts([i.prompt for i in items]), host.encode_answers([gold(i) for i in items])
    for step in range(24):
        rows = np.arange(step * 48, step * 48 + 48) % len(items)
        batch = build_batch(host, [prompts[r] for r in rows], [answers[r] for r in rows], [0] * 48, [1.0] * 48)
        train_step(host, population, batch, optimizer, torch.tensor([3e-3]), 1.0)
    return population.get(0)
