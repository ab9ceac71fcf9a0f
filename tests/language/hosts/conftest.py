"""A tiny host of our own kind, made on the spot: real architecture, real tokenizer, random weights."""

from pathlib import Path

import pytest
from random_host import random_host


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete host folder. Tests that damage it copy it first."""
    folder = tmp_path_factory.mktemp("hosts") / "tiny"
    random_host(folder)
    return folder
