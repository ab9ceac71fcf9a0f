"""Rows without padding, and layers with W + ΔW, give what padded rows and layers beside W give."""

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import VOCABULARY, tiny_host, tiny_population

from evolora_core.errors import HostError
from evolora_core.lora.population import dense
from evolora_core.lora.population.packed import LOOSE, Packing, packed, packs
from evolora_core.lora.population.train import build_batch, watched_gradients


def batch_of(host: Any, slots: Any, longest: Any, seed: int = 0) -> Any:
    draw = np.random.default_rng(seed)
    rows = [draw.integers(3, VOCABULARY, size=draw.integers(2, longest)).tolist() for _ in range(2 * len(slots))]
    return build_batch(host, rows[::2], [row[:4] for row in rows[1::2]], slots, draw.uniform(0.2, 2, len(slots)))


@pytest.mark.parametrize("worthwhile", [0, 10**6])
@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_packed_rows_have_the_gradients_of_padded_ones(
    monkeypatch: pytest.MonkeyPatch, architecture: str, worthwhile: Any
) -> None:
    """With W + ΔW in place of W and beside it; `watch` asks for padded rows."""
    host = tiny_host(architecture)
    assert packs(host.model)
    population = tiny_population(host, [8, 3, 1, 5])
    batch = batch_of(host, [0, 3, 0, 1, 3, 3, 0], 40)
    padded = watched_gradients(host, population, batch, lambda rows: nullcontext())
    monkeypatch.setattr(dense, "WORTHWHILE", worthwhile)
    assert dense.worthwhile(3, 100, 8) == (not worthwhile)
    found = watched_gradients(host, population, batch)
    assert torch.equal(found[0], padded[0])
    for mine, other in zip(found[1:], padded[1:], strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)
    assert host.model.config._attn_implementation == "sdpa"


def test_what_is_not_finite_stays_in_its_slot() -> None:
    host = tiny_host("qwen3")
    population = tiny_population(host, [8, 8])
    sound = watched_gradients(host, population, batch_of(host, [0, 1, 0, 1], 40))
    population.weights[1] = torch.nan
    found = watched_gradients(host, population, batch_of(host, [0, 1, 0, 1], 40))
    assert torch.equal(found[2][0], sound[2][0]) and found[2][1].isnan().any()


def test_a_model_with_windows_is_not_packed() -> None:
    assert not packs(tiny_host("gemma3").model)


def test_every_token_is_in_one_bucket_of_rows_of_like_length() -> None:
    lengths = np.array([3, 40, 4, 38, 5, 1, 39])
    packing = Packing.of(lengths, torch.device("cpu"))
    assert torch.cat([own.tokens for own in packing.buckets]).sort().values.tolist() == list(range(lengths.sum()))
    assert packing.positions[0].tolist() == [place for length in lengths for place in range(length)]
    assert len(packing.buckets) > 1
    assert all(own.rows * own.width <= LOOSE * len(own.tokens) for own in packing.buckets)
    rows = torch.arange(len(lengths))
    assert packing.spread(rows).tolist() == np.repeat(np.arange(len(lengths)), lengths).tolist()


def test_a_model_that_attends_in_a_way_of_its_own_is_refused() -> None:
    model = tiny_host("qwen3").model
    packing = Packing.of(np.array([2, 3]), torch.device("cpu"))
    with pytest.raises(HostError, match="0 of its 2 layers attend .*; name another host"), packed(model, packing):
        pass
    assert model.config._attn_implementation == "sdpa"
