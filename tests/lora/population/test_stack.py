from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_models import tiny_host, tiny_population

from evolora_core.errors import AdapterError
from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.variation import mutate


def test_every_linear_layer_but_the_head_is_adapted(host: Any) -> None:
    names = set(adapted_layers(host.model))
    assert "lm_head" not in names
    assert len(names) == 7 * host.model.config.num_hidden_layers
    assert "model.layers.0.self_attn.q_proj" in names


def test_a_fresh_slot_changes_nothing_and_starts_as_peft_does(qwen: Any) -> None:
    population = Population.empty(qwen, 3, 8)
    population.init_slot(1, 4, np.random.default_rng(0))
    assert population.ranks.tolist() == [0, 4, 0]
    assert population.ranks_of(np.array([1, -1, 2, 1])).tolist() == [4, 0, 0, 4]
    assert population.delta_norms().tolist() == [0, 0, 0]
    for name, A in population.A.items():
        bound = A.shape[2] ** -0.5
        assert 0.8 * bound < A[1, :4].abs().max() <= bound
        assert not A[1, 4:].any() and not A[[0, 2]].any() and not population.B[name].any()


@given(rank=st.integers(0, 6), scale=st.floats(0.1, 8), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_put_then_get_keeps_the_product(rank: int, scale: float, seed: int) -> None:
    host = tiny_host("qwen3", num_hidden_layers=1)
    population, rng = Population.empty(host, 2, 6), np.random.default_rng(seed)
    shapes = population.shapes.items()
    A = {name: torch.from_numpy(rng.standard_normal((rank, i))).float() for name, (_, i) in shapes}
    B = {name: torch.from_numpy(rng.standard_normal((o, rank))).float() for name, (o, _) in shapes}
    adapter = Adapter(rank, scale, A, B)
    population.put(1, adapter)
    found = population.get(1)
    assert found.rank == rank and found.scale == population.scale
    for name in A:
        torch.testing.assert_close(found.delta(name), adapter.delta(name), atol=1e-4, rtol=1e-4)
    dense = sum(adapter.delta(name).double().square().sum() for name in A) ** 0.5
    assert population.delta_norms()[1].item() == pytest.approx(float(dense), rel=1e-4)
    assert adapter.norm() == pytest.approx(float(dense), rel=1e-4)


def test_modules_that_an_adapter_lacks_are_left_as_the_host_has_them(qwen: Any) -> None:
    population = tiny_population(qwen, [4])
    whole = population.get(0)
    name = next(iter(whole.A))
    population.put(0, Adapter(4, 2.0, {name: whole.A[name]}, {name: whole.B[name]}))
    assert {n for n, B in population.B.items() if B.any()} == {name}


def test_copies_do_not_share_memory(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2])
    taken = population.get(0)
    population.put(1, taken)
    population.clear(0)
    name = next(iter(taken.A))
    assert torch.equal(population.get(1).A[name], taken.A[name]) and taken.A[name].any()
    assert population.ranks.tolist() == [0, 4]
    assert population.delta_norms()[0] == 0


def test_a_broken_slot_shows_in_its_norm_only(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 3])
    next(iter(population.A.values()))[1, 0, 0] = torch.nan
    assert population.delta_norms().isfinite().tolist() == [True, False, True]


def test_state_goes_through_safetensors(qwen: Any, tmp_path: Path) -> None:
    population, other = tiny_population(qwen, [4, 2]), Population.empty(qwen, 2, 8)
    save_file(population.state_dict(), tmp_path / "state.safetensors")
    other.load_state_dict(load_file(tmp_path / "state.safetensors"))
    assert torch.equal(other.weights, population.weights)
    assert torch.equal(other.ranks, population.ranks)
    name = next(iter(other.A))
    assert other.A[name].data_ptr() == other.factors(other.weights)[name][0].data_ptr()  # views still


def test_what_does_not_fit_is_refused_by_name(qwen: Any) -> None:
    population = tiny_population(qwen, [4])
    other = tiny_population(tiny_host("qwen3", intermediate_size=24), [4])
    with pytest.raises(AdapterError, match=r"gate_proj': it is 24 x 32, the host's layer 56 x 32"):
        population.put(0, other.get(0))
    renamed = Adapter(1, 2.0, {"model.nowhere": torch.ones(1, 32)}, {"model.nowhere": torch.ones(32, 1)})
    with pytest.raises(AdapterError, match="'model.nowhere': the host has no such linear layer"):
        population.put(0, renamed)
    with pytest.raises(AdapterError, match="rank 9 does not fit slots of rank 8"):
        population.init_slot(0, 9, np.random.default_rng(0))
    with pytest.raises(
        AdapterError, match=r"B\.model\.layers\.0\.mlp\.gate_proj: \(1, 24, 8\) stored, \(1, 56, 8\) needed"
    ):
        population.load_state_dict(other.state_dict())


def test_a_mutant_goes_back_into_the_population(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 4])
    population.put(1, mutate(population.get(0), 0.2, np.random.default_rng(0)))
    first, second = population.delta_norms().tolist()
    assert first != second and second == pytest.approx(first, rel=0.3)
