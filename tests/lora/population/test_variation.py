from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import resize
from evolora_core.lora.population.singular import ROW_NORM
from evolora_core.lora.population.variation import MUTATIONS, lost_by_halving, mutate, mutate_singular

SHAPES = {"wide": (7, 12), "tall": (15, 6), "wide again": (7, 12)}


def random_adapter(rank: int, seed: int = 0, scale: float = 2.0) -> Adapter:
    rng = np.random.default_rng((rank, seed))
    A = {name: torch.from_numpy(rng.standard_normal((rank, i))).float() for name, (_, i) in SHAPES.items()}
    B = {name: torch.from_numpy(rng.standard_normal((o, rank))).float() for name, (o, _) in SHAPES.items()}
    return Adapter(rank, scale, A, B)


def spans(delta: Any, kept: Any) -> Any:
    """Projectors on the first `kept` left and right singular vectors of a dense ΔW."""
    U, _, V = torch.linalg.svd(delta.double())
    return U[:, :kept] @ U[:, :kept].T, V[:kept].T @ V[:kept]


@given(sigma=st.floats(0.001, 0.3), rank=st.integers(1, 4), seed=st.integers(0, 99))
def test_mutation_moves_each_module_by_its_share(sigma: float, rank: int, seed: int) -> None:
    adapter = random_adapter(rank, seed)
    child = mutate(adapter, sigma, np.random.default_rng(seed))
    for name in SHAPES:
        moved = (child.delta(name) - adapter.delta(name)).norm() / adapter.delta(name).norm()
        # The halves of the noise may point the same way or against each other in so few dimensions.
        assert 0.3 * sigma < moved.item() < 1.5 * sigma + sigma**2


def test_mutation_has_the_stated_size_on_average_and_keeps_zero_zero() -> None:
    adapter = random_adapter(3)
    moves = []
    for seed in range(200):
        child = mutate(adapter, 0.05, np.random.default_rng(seed))
        moves.append(sum((child.delta(n) - adapter.delta(n)).square().sum().item() for n in SHAPES))
    assert np.mean(moves) ** 0.5 == pytest.approx(0.05 * adapter.norm(), rel=0.05)
    silent = Adapter(3, 2.0, adapter.A, {name: torch.zeros_like(B) for name, B in adapter.B.items()})
    assert mutate(silent, 0.5, np.random.default_rng(0)).norm() == 0
    assert mutate(adapter, 0.0, np.random.default_rng(0)).norm() == pytest.approx(adapter.norm())


@given(sigma=st.floats(0.001, 0.9), rank=st.integers(1, 6), seed=st.integers(0, 99), scale=st.floats(0.3, 4))
def test_singular_mutation_stays_within_the_spans_and_moves_by_its_share(
    sigma: float, rank: int, seed: int, scale: float
) -> None:
    adapter = random_adapter(rank, seed, scale)
    child = mutate_singular(adapter, sigma, np.random.default_rng(seed))
    assert child.rank == rank and child.scale == scale and list(child.A) == list(adapter.A)
    for name in SHAPES:
        delta = adapter.delta(name).double()
        change = child.delta(name).double() - delta
        size = delta.norm().item()
        assert change.norm().item() == pytest.approx(sigma * size, rel=1e-3, abs=1e-5 * size)
        left, right = spans(delta, rank)
        assert (left @ change @ right - change).norm().item() < 1e-4 * size
        gram = child.A[name] @ child.A[name].T
        torch.testing.assert_close(gram, ROW_NORM**2 * torch.eye(rank), atol=1e-5, rtol=1e-5)


def test_singular_mutation_changes_values_and_turns_directions() -> None:
    adapter = random_adapter(3)
    child = mutate_singular(adapter, 0.3, np.random.default_rng(0))
    for name in SHAPES:
        before, after = (torch.linalg.svd(one.delta(name).double()) for one in (adapter, child))
        assert ((before.S - after.S)[:3].abs() > 1e-3).all()
        assert ((before.U[:, :3] * after.U[:, :3]).sum(dim=0).abs() < 0.9999).all()


@given(rank=st.integers(1, 3), spare=st.integers(1, 3), seed=st.integers(0, 99))
def test_singular_mutation_of_a_grown_adapter_leaves_the_new_rank_empty(rank: int, spare: int, seed: int) -> None:
    """A child that has just doubled has components without weight: they are nobody's directions."""
    small = random_adapter(rank, seed)
    grown = resize(small, rank + spare)
    child = mutate_singular(grown, 0.3, np.random.default_rng(seed))
    for name in SHAPES:
        delta = small.delta(name).double()
        change = child.delta(name).double() - delta
        left, right = spans(delta, rank)
        assert (left @ change @ right - change).norm() < 1e-4 * delta.norm()
        assert change.norm().item() == pytest.approx(0.3 * delta.norm().item(), rel=1e-3)
        assert torch.linalg.matrix_rank(child.delta(name), rtol=1e-5) == rank


def test_singular_mutation_of_more_rank_than_a_module_has_room_for() -> None:
    adapter = random_adapter(9)
    child = mutate_singular(adapter, 0.1, np.random.default_rng(0))
    for name in SHAPES:
        change = child.delta(name) - adapter.delta(name)
        assert change.norm().item() == pytest.approx(0.1 * adapter.delta(name).norm().item(), rel=1e-3)


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_a_mutation_of_nothing_is_nothing_and_depends_on_its_stream_alone(mutation: Any) -> None:
    adapter = random_adapter(3)
    adapter.B["tall"].zero_()
    child, again, other = (mutation(adapter, 0.5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert not child.delta("tall").any() and all(torch.isfinite(A).all() for A in child.A.values())
    assert torch.equal(child.B["wide"], again.B["wide"]) and not torch.equal(child.B["wide"], other.B["wide"])
    # Modules of one shape that are worked on at once have noise of their own.
    moves = [child.delta(name) - adapter.delta(name) for name in ("wide", "wide again")]
    assert not torch.allclose(moves[0], moves[1])


@given(rank=st.integers(1, 9), seed=st.integers(0, 99), scale=st.floats(0.3, 4))
def test_what_halving_loses_is_what_it_loses(rank: int, seed: int, scale: float) -> None:
    adapter = random_adapter(rank, seed, scale)
    half = resize(adapter, rank // 2) if rank > 1 else None
    whole = sum(adapter.delta(name).double().square().sum() for name in SHAPES)
    without = sum(
        (adapter.delta(name).double() - (half.delta(name).double() if half else 0)).square().sum() for name in SHAPES
    )
    assert lost_by_halving(adapter) == pytest.approx(float(without / whole), rel=1e-3, abs=1e-6)


def test_rank_without_weight_is_not_used_and_equal_directions_are() -> None:
    assert lost_by_halving(resize(random_adapter(2), 4)) == pytest.approx(0.0, abs=1e-9)
    even = Adapter(4, 1.0, {"m": torch.eye(4, 6)}, {"m": torch.eye(5, 4)})
    assert lost_by_halving(even) == pytest.approx(0.5)
    assert lost_by_halving(Adapter(4, 1.0, {"m": torch.eye(4, 6)}, {"m": torch.zeros(5, 4)})) == 0.0
