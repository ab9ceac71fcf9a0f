import pytest
import torch
from random_host import draw_items, random_host

from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host, load_host

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return random_host(tmp_path_factory.mktemp("hosts") / "tiny")


@pytest.fixture(scope="module")
def nano() -> Host:
    return load_host("nano")


@pytest.fixture(scope="session")
def decoding() -> DecodingConfig:
    return DecodingConfig(max_new_tokens=6, batch_rows=64)


@pytest.fixture(scope="session")
def train_items() -> list[Item]:
    return draw_items("logic.bool", 20, 0) + draw_items("math", 20, 1)


@pytest.fixture(scope="session")
def selection_items() -> list[Item]:
    return draw_items("logic.bool", 10, 2) + draw_items("math", 10, 3)
