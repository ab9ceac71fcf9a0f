from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from evolora_core.language.datasets import build_splits
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.registry import gold
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.pricing import price
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import StackedAdamW, build_batch, train_step
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

torch.set_num_threads(1)

SMALL = EcologyConfig.model_validate(
    {
        "population": 4,
        "ranks": [1, 2, 4],
        "generations": 4,
        "episodes": 48,
        "samples": 3,
        "plasticity": {
            "learning_rate": 2e-3,
            "steps": 2,
            "batch_rows": 4,
            "single_batch_rows": 8,
            "max_grad_norm": 1.0,
        },
        "economy": {"endowment": 60.0, "ticket": 2.0},
        "assimilation": {"every": 1, "attempts": 1, "uplift": 0.3, "alpha": 0.4, "margin": 0.5},
    }
)


@pytest.fixture(scope="session")
def nano() -> Any:
    return load_host("nano")


@pytest.fixture(scope="session")
def small(nano: Any) -> SimpleNamespace:
    """A little ecology on the shipped host: its task, settings and prices."""
    data = SimpleNamespace(
        train_families=["json_repair", "math"],
        ood_families=["string.sort"],
        retention_families=["code.format"],
        depths=["short"],
        train_items=300,
        selection_items=60,
        reselection_items=0,
        holdout_items=60,
    )
    splits = build_splits(data, 0)
    items = splits["train"]
    decoding = DecodingConfig(max_new_tokens=20, batch_rows=128)
    prices = price(nano, items, SMALL.practice, decoding, seed=0)
    return SimpleNamespace(
        task=Task(nano, items, splits["selection"], decoding, 0, prices),
        config=SMALL,
        decoding=decoding,
        prices=prices,
        host=nano,
        items=items,
    )


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
