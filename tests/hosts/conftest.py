"""A tiny host of our own kind, made on the spot: real architecture, real tokenizer, random weights."""

from pathlib import Path

import pytest

from evolora_core.hosts.description import Architecture
from evolora_core.hosts.pretrain import build_model
from evolora_core.hosts.tokenizer import save_tokenizer

SHAPE = Architecture(
    hidden_size=32, layers=2, intermediate_size=64, heads=2, kv_heads=1, head_dim=16, context=256
)  # every width a multiple of 32, so that GGUF's own writers take it too


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete host folder. Tests that damage it copy it first."""
    folder = tmp_path_factory.mktemp("hosts") / "tiny"
    build_model(SHAPE, seed=1).save_pretrained(folder)
    save_tokenizer(SHAPE.context, folder)
    return folder
