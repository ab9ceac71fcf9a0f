"""SFT runs of a few steps."""

from pathlib import Path
from typing import Any

from evolora_core.compute import FlopModel
from evolora_core.config import SftConfig
from evolora_core.families import Item
from evolora_core.hosts import Host
from evolora_core.rivals.rows import tokenise
from evolora_core.rivals.sft import SftResult, train_sft

CONFIG = SftConfig(rank=2, batch_rows=16, checkpoints=3)
RATE = 5e-3


def budget_of(host: Host, items: list[Item], steps: float) -> int:
    """FLOPs of about so many steps."""
    rows = tokenise(host, items)
    costs = FlopModel.from_model(host.model).train_flops(rows.lengths, rows.answers, CONFIG.rank)
    return int(costs.mean() * CONFIG.batch_rows * steps)


def train(
    host: Host,
    items: list[Item],
    folder: Path,
    *,
    steps: float = 6.5,
    rate: float = RATE,
    seed: int = 3,
    **options: Any,
) -> SftResult:
    """A run of about so many steps."""
    config = CONFIG.model_copy(update={"learning_rate": rate})
    budget = budget_of(host, items, steps)
    return train_sft(host, items, config, budget_flops=budget, seed=seed, folder=folder, **options)
