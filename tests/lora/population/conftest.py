"""Tiny hosts and populations, and the same adapters as PEFT models."""

import copy
from typing import Any

import pytest
import torch
from peft import PeftModel
from tiny_models import ARCHITECTURES, tiny_host, tiny_population

from evolora_core.lora.population.peft_io import export_peft

torch.set_num_threads(1)


@pytest.fixture(scope="session", params=ARCHITECTURES)
def host(request: pytest.FixtureRequest) -> Any:
    return tiny_host(request.param)


@pytest.fixture(scope="session")
def qwen() -> Any:
    return tiny_host("qwen3")


@pytest.fixture
def population(host: Any) -> Any:
    return tiny_population(host, [8, 3, 1, 5])


@pytest.fixture
def as_peft(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The adapter of a slot as an ordinary PEFT model on a copy of the host's."""

    def make(host: Any, population: Any, slot: int, trainable: bool = False) -> Any:
        folder = tmp_path_factory.mktemp("adapter")
        export_peft(population.get(slot), host, folder)
        return PeftModel.from_pretrained(copy.deepcopy(host.model), folder, is_trainable=trainable).eval()

    return make
