"""Tiny hosts and populations, and the same adapters as PEFT models."""

import copy

import pytest
import torch
from peft import PeftModel
from tiny_models import ARCHITECTURES, tiny_host, tiny_population

from evolora_core.population.peft_io import export_peft

torch.set_num_threads(1)


@pytest.fixture(scope="session", params=ARCHITECTURES)
def host(request):
    return tiny_host(request.param)


@pytest.fixture(scope="session")
def qwen():
    return tiny_host("qwen3")


@pytest.fixture
def population(host):
    return tiny_population(host, [8, 3, 1, 5])


@pytest.fixture
def as_peft(tmp_path_factory):
    """The adapter of a slot as an ordinary PEFT model on a copy of the host's."""

    def make(host, population, slot, trainable=False):
        folder = tmp_path_factory.mktemp("adapter")
        export_peft(population.get(slot), host, folder)
        return PeftModel.from_pretrained(copy.deepcopy(host.model), folder, is_trainable=trainable).eval()

    return make
