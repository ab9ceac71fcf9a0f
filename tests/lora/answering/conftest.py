import pytest
import torch
from random_host import draw_items, random_host

from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    return random_host(tmp_path_factory.mktemp("hosts") / "tiny")


@pytest.fixture(scope="session")
def items() -> list[Item]:
    pairs = zip(draw_items("logic.bool", 8), draw_items("math", 8), strict=True)
    return [item for pair in pairs for item in pair]
