import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.errors import AdapterError
from evolora_core.population.adapter import Adapter
from evolora_core.population.merge import ROW_NORM, merge, mutate, resize

SHAPES = {"wide": (7, 12), "tall": (15, 6)}


def random_adapter(rank, seed=0, scale=2.0):
    rng = np.random.default_rng((rank, seed))
    A = {name: torch.from_numpy(rng.standard_normal((rank, i))).float() for name, (_, i) in SHAPES.items()}
    B = {name: torch.from_numpy(rng.standard_normal((o, rank))).float() for name, (o, _) in SHAPES.items()}
    return Adapter(rank, scale, A, B)


def dense_sum(adapters, weights, name):
    return sum(weight * adapter.delta(name) for adapter, weight in zip(adapters, weights, strict=True))


parents = st.lists(
    st.tuples(st.integers(1, 4), st.floats(-2, 2), st.floats(0.5, 4), st.integers(0, 99)), min_size=1, max_size=4
)


@given(parents=parents)
def test_a_weighted_merge_is_exact_when_the_rank_allows(parents):
    adapters = [random_adapter(rank, seed, scale) for rank, _, scale, seed in parents]
    weights = [weight for _, weight, _, _ in parents]
    child = merge(adapters, weights, sum(adapter.rank for adapter in adapters))
    for name in SHAPES:
        torch.testing.assert_close(child.delta(name), dense_sum(adapters, weights, name), atol=1e-4, rtol=1e-4)


@given(parents=parents, rank=st.integers(1, 5))
def test_below_that_it_is_the_nearest_of_its_rank(parents, rank):
    adapters = [random_adapter(own, seed, scale) for own, _, scale, seed in parents]
    weights = [weight for _, weight, _, _ in parents]
    child = merge(adapters, weights, rank)
    assert child.rank == rank and all(len(A) == rank for A in child.A.values())
    for name in SHAPES:
        dense = dense_sum(adapters, weights, name)
        lost = torch.linalg.svdvals(dense.double())[rank:].square().sum().sqrt()
        assert (child.delta(name) - dense).norm().item() == pytest.approx(lost.item(), abs=1e-3)


@given(rank=st.integers(1, 4), larger=st.integers(4, 8), seed=st.integers(0, 99))
def test_growing_and_shrinking_back_changes_nothing(rank, larger, seed):
    adapter = random_adapter(rank, seed)
    grown = resize(adapter, larger)
    back = resize(grown, rank)
    for name in SHAPES:
        torch.testing.assert_close(grown.delta(name), adapter.delta(name), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(back.delta(name), adapter.delta(name), atol=1e-4, rtol=1e-4)


def test_new_components_can_learn():
    """Zero in both factors would have no gradient for ever."""
    fresh = Adapter(2, 2.0, random_adapter(2).A, {name: torch.zeros(o, 2) for name, (o, _) in SHAPES.items()})
    for adapter in (resize(random_adapter(2), 5), merge([fresh, fresh], [0.5, 0.5], 2)):
        for A in adapter.A.values():
            assert (A.norm(dim=1) > 0.3 * ROW_NORM).all()


@given(sigma=st.floats(0.001, 0.3), rank=st.integers(1, 4), seed=st.integers(0, 99))
def test_mutation_moves_each_module_by_its_share(sigma, rank, seed):
    adapter = random_adapter(rank, seed)
    child = mutate(adapter, sigma, np.random.default_rng(seed))
    for name in SHAPES:
        moved = (child.delta(name) - adapter.delta(name)).norm() / adapter.delta(name).norm()
        # The halves of the noise may point the same way or against each other in so few dimensions.
        assert 0.3 * sigma < moved.item() < 1.5 * sigma + sigma**2


def test_mutation_has_the_stated_size_on_average_and_keeps_zero_zero():
    adapter = random_adapter(3)
    moves = []
    for seed in range(200):
        child = mutate(adapter, 0.05, np.random.default_rng(seed))
        moves.append(sum((child.delta(n) - adapter.delta(n)).square().sum().item() for n in SHAPES))
    assert np.mean(moves) ** 0.5 == pytest.approx(0.05 * adapter.norm(), rel=0.05)
    silent = Adapter(3, 2.0, adapter.A, {name: torch.zeros_like(B) for name, B in adapter.B.items()})
    assert mutate(silent, 0.5, np.random.default_rng(0)).norm() == 0
    assert mutate(adapter, 0.0, np.random.default_rng(0)).norm() == pytest.approx(adapter.norm())


def test_ties_keeps_what_agrees_and_drops_the_outvoted():
    """Parents of one entry: +3 and -1 elect +, the mean of those that agree is 3, times the sum of weights."""
    own = lambda value: Adapter(1, 1.0, {"m": torch.tensor([[1.0]])}, {"m": torch.tensor([[value]])})  # noqa: E731
    both = [own(3.0), own(-1.0)]
    assert merge(both, [0.5, 0.5], 1, "ties").delta("m").item() == pytest.approx(3.0)
    assert merge(both, [0.6, 0.6], 1, "ties").delta("m").item() == pytest.approx(3.6)
    assert merge([own(3.0), own(1.0)], [0.5, 0.5], 1, "ties").delta("m").item() == pytest.approx(2.0)


def test_ties_of_equal_parents_is_the_parent_trimmed():
    adapter = random_adapter(4)
    child = merge([adapter, adapter], [0.5, 0.5], 12, "ties", density=0.25)
    for name in SHAPES:
        dense = adapter.delta(name)
        kept = dense.abs() >= dense.abs().flatten().kthvalue(dense.numel() - round(0.25 * dense.numel()) + 1).values
        torch.testing.assert_close(child.delta(name), torch.where(kept, dense, 0.0), atol=1e-4, rtol=1e-4)


def test_dare_is_the_weighted_merge_on_average_and_depends_on_its_seed_alone():
    adapters, weights = [random_adapter(2, 1), random_adapter(3, 2)], [0.7, 0.3]
    children = [merge(adapters, weights, 12, "dare", seed=seed) for seed in range(300)]
    for name in SHAPES:
        mean = torch.stack([child.delta(name) for child in children]).mean(dim=0)
        expected = dense_sum(adapters, weights, name)
        assert (mean - expected).norm() < 0.15 * expected.norm()
    again = merge(adapters, weights, 12, "dare", seed=7)
    assert torch.equal(again.A["wide"], children[7].A["wide"])
    assert not torch.equal(again.A["wide"], children[8].A["wide"])


@pytest.mark.parametrize("method", ["weighted", "ties", "dare"])
def test_parents_of_unlike_rank_scale_and_modules_merge(method):
    part = random_adapter(2, 5, scale=0.5)
    part = Adapter(2, 0.5, {"wide": part.A["wide"]}, {"wide": part.B["wide"]})
    child = merge([random_adapter(4), part], [0.5, 0.5], 3, method)
    assert child.rank == 3 and set(child.A) == set(SHAPES)
    assert np.isfinite(child.norm()) and child.norm() > 0


def test_adapters_of_two_hosts_and_broken_ones_are_refused():
    other = Adapter(2, 2.0, {"wide": torch.ones(2, 9)}, {"wide": torch.ones(7, 2)})
    with pytest.raises(AdapterError, match=r"'wide': 7 x 12 and 7 x 9 \(out x in; ranks 3 and 2\)"):
        merge([random_adapter(3), other], [0.5, 0.5], 3)
    broken = random_adapter(2)
    broken.B["tall"][0, 0] = torch.nan
    with pytest.raises(AdapterError, match="'tall': an adapter of rank 2 is not finite"):
        merge([random_adapter(3), broken], [0.5, 0.5], 3)
    with pytest.raises(ValueError, match="'soup' is none of weighted, ties, dare"):
        merge([broken], [1.0], 2, "soup")
    with pytest.raises(ValueError, match="1 adapters but 2 weights"):
        merge([broken], [1.0, 2.0], 2)
