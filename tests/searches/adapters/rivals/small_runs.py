"""SFT runs of a few steps."""

from pathlib import Path
from typing import Any

from evolora_core.language.datasets import build_splits
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.searches.adapters.labels import solved
from evolora_core.searches.adapters.rivals.rows import tokenise
from evolora_core.searches.adapters.rivals.sft import SftResult, row_flops, train_sft
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.sft import SftConfig

CONFIG = SftConfig(rank=2, batch_rows=16, checkpoints=3)
RATE = 5e-3
PRACTICE = EcologyConfig(population=2, ranks=[2, 2], episodes=256).practice  # as few answers as any price takes


def budget_of(host: Host, items: list[Item], steps: float, kl: float = 0.0) -> int:
    """FLOPs of about so many steps."""
    rows = tokenise(host, solved(items))
    costs = row_flops(FlopModel.from_model(host.model), rows.lengths, rows.answers, CONFIG.rank, kl)
    return int(costs.mean() * CONFIG.batch_rows * steps)


def train(
    host: Host,
    items: list[Item],
    folder: Path,
    *,
    steps: float = 6.5,
    rate: float = RATE,
    seed: int = 3,
    kl: float = 0.0,
    **options: Any,
) -> SftResult:
    """A run of about so many steps."""
    config = CONFIG.model_copy(update={"learning_rate": rate, "kl": kl})
    budget = budget_of(host, items, steps, kl)
    return train_sft(host, solved(items), config, budget_flops=budget, seed=seed, folder=folder, **options)


def short_words(count: int) -> list[Item]:
    """Training items of `string.sort` of which the host nano can answer some."""

    class Data:
        train_families, ood_families, retention_families = ["string.sort"], ["math"], ["word.count"]
        depths, train_items, selection_items, reselection_items, holdout_items = ["short"], count, 8, 0, 8

    return build_splits(Data, 0)["train"]
