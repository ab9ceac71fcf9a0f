"""A complete host of our own kind with random weights (real tokenizer, real template), and items to ask it."""

from pathlib import Path

from evolora_core.engine import rng
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import get
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.language.hosts.pretrain_config import Architecture
from evolora_core.language.hosts.tokenizer import build_tokenizer
from evolora_core.pretraining.training import build_model

SHAPE = Architecture(
    hidden_size=32, layers=2, intermediate_size=64, heads=2, kv_heads=1, head_dim=16, context=256
)  # every width a multiple of 32, so that GGUF's own writers take it too


def random_host(folder: Path) -> Host:
    """Write it into an existing or new folder and load it."""
    build_model(SHAPE, seed=1).save_pretrained(folder)
    build_tokenizer(SHAPE.context).save_pretrained(folder)
    return load_host(str(folder))


def draw_items(family: str, n: int, seed: int = 0) -> list[Item]:
    """Short items of a family."""
    return [get(family).make(rng.stream(seed, 0, i, "test items"), "short") for i in range(n)]
