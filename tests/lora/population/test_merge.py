import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.errors import AdapterError
from evolora_core.lora.population import merge as merging
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.fisher import Fisher
from evolora_core.lora.population.merge import DENSITY, add_up, merge, resize
from evolora_core.lora.population.singular import ROW_NORM

SHAPES = {"wide": (7, 12), "tall": (15, 6)}


def random_adapter(rank: int, seed: int = 0, scale: float = 2.0) -> Adapter:
    rng = np.random.default_rng((rank, seed))
    A = {name: torch.from_numpy(rng.standard_normal((rank, i))).float() for name, (_, i) in SHAPES.items()}
    B = {name: torch.from_numpy(rng.standard_normal((o, rank))).float() for name, (o, _) in SHAPES.items()}
    return Adapter(rank, scale, A, B)


def dense_sum(adapters: Any, weights: Any, name: str) -> Any:
    return sum(weight * adapter.delta(name) for adapter, weight in zip(adapters, weights, strict=True))


parents = st.lists(
    st.tuples(st.integers(1, 4), st.floats(-2, 2), st.floats(0.5, 4), st.integers(0, 99)), min_size=1, max_size=4
)


@given(parents=parents)
def test_a_weighted_merge_is_exact_when_the_rank_allows(parents: Any) -> None:
    adapters = [random_adapter(rank, seed, scale) for rank, _, scale, seed in parents]
    weights = [weight for _, weight, _, _ in parents]
    child = merge(adapters, weights, sum(adapter.rank for adapter in adapters))
    for name in SHAPES:
        torch.testing.assert_close(child.delta(name), dense_sum(adapters, weights, name), atol=1e-4, rtol=1e-4)


@given(parents=parents, rank=st.integers(1, 5))
def test_below_that_it_is_the_nearest_of_its_rank(parents: Any, rank: int) -> None:
    adapters = [random_adapter(own, seed, scale) for own, _, scale, seed in parents]
    weights = [weight for _, weight, _, _ in parents]
    child = merge(adapters, weights, rank)
    assert child.rank == rank and all(len(A) == rank for A in child.A.values())
    for name in SHAPES:
        dense = dense_sum(adapters, weights, name)
        lost = torch.linalg.svdvals(dense.double())[rank:].square().sum().sqrt()
        assert (child.delta(name) - dense).norm().item() == pytest.approx(lost.item(), abs=1e-3)


@given(ranks=st.lists(st.integers(1, 4), min_size=1, max_size=4), weight=st.floats(0.1, 2))
def test_adapters_add_up_at_half_more_than_the_largest_rank_at_most(ranks: Any, weight: float) -> None:
    adapters = [random_adapter(rank, seed) for seed, rank in enumerate(ranks)]
    whole = add_up(adapters, weight)
    assert whole.rank == min(sum(ranks), math.ceil(1.5 * max(ranks)))
    for name in SHAPES:
        dense = dense_sum(adapters, [weight] * len(ranks), name)
        lost = torch.linalg.svdvals(dense.double())[whole.rank :].square().sum().sqrt()
        assert (whole.delta(name) - dense).norm().item() == pytest.approx(lost.item(), abs=1e-3)


@given(rank=st.integers(1, 4), larger=st.integers(4, 8), seed=st.integers(0, 99))
def test_growing_and_shrinking_back_changes_nothing(rank: int, larger: int, seed: int) -> None:
    adapter = random_adapter(rank, seed)
    grown = resize(adapter, larger)
    back = resize(grown, rank)
    for name in SHAPES:
        torch.testing.assert_close(grown.delta(name), adapter.delta(name), atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(back.delta(name), adapter.delta(name), atol=1e-4, rtol=1e-4)


def test_new_components_are_drawn_anew_for_each() -> None:
    grown = [resize(random_adapter(2, 0), 5, seed=seed) for seed in (1, 1, 2)]
    for name in SHAPES:
        assert torch.equal(grown[0].A[name], grown[1].A[name])
        assert not torch.equal(grown[0].A[name], grown[2].A[name])


def test_new_components_can_learn() -> None:
    """Zero in both factors would have no gradient for ever."""
    fresh = Adapter(2, 2.0, random_adapter(2).A, {name: torch.zeros(o, 2) for name, (o, _) in SHAPES.items()})
    for adapter in (resize(random_adapter(2), 5), merge([fresh, fresh], [0.5, 0.5], 2)):
        for A in adapter.A.values():
            assert (A.norm(dim=1) > 0.3 * ROW_NORM).all()


def test_ties_keeps_what_agrees_and_drops_the_outvoted() -> None:
    """Parents of one entry: +3 and -1 elect +, the mean of those that agree is 3, times the sum of weights."""

    def own(value: float) -> Adapter:
        return Adapter(1, 1.0, {"m": torch.tensor([[1.0]])}, {"m": torch.tensor([[value]])})

    both = [own(3.0), own(-1.0)]
    assert merge(both, [0.5, 0.5], 1, "ties").delta("m").item() == pytest.approx(3.0)
    assert merge(both, [0.6, 0.6], 1, "ties").delta("m").item() == pytest.approx(3.6)
    assert merge([own(3.0), own(1.0)], [0.5, 0.5], 1, "ties").delta("m").item() == pytest.approx(2.0)


def test_ties_of_equal_parents_is_the_parent_trimmed() -> None:
    adapter = random_adapter(4)
    child = merge([adapter, adapter], [0.5, 0.5], 12, "ties")
    for name in SHAPES:
        dense = adapter.delta(name)
        kept = dense.abs() >= dense.abs().flatten().kthvalue(dense.numel() - round(DENSITY * dense.numel()) + 1).values
        torch.testing.assert_close(child.delta(name), torch.where(kept, dense, 0.0), atol=1e-4, rtol=1e-4)


def test_dare_is_the_weighted_merge_on_average_and_depends_on_its_seed_alone() -> None:
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
def test_parents_of_unlike_rank_scale_and_modules_merge(method: str) -> None:
    part = random_adapter(2, 5, scale=0.5)
    part = Adapter(2, 0.5, {"wide": part.A["wide"]}, {"wide": part.B["wide"]})
    child = merge([random_adapter(4), part], [0.5, 0.5], 3, method)
    assert child.rank == 3 and set(child.A) == set(SHAPES)
    assert np.isfinite(child.norm()) and child.norm() > 0


@pytest.mark.parametrize("method", ["weighted", "ties"])
def test_a_parent_without_a_module_counts_as_no_change_there(method: str) -> None:
    part = random_adapter(2, 5)
    absent = Adapter(2, part.scale, {"wide": part.A["wide"]}, {"wide": part.B["wide"]})
    zeros = {name: torch.zeros_like(factor) for name, factor in part.B.items() if name != "wide"}
    still = Adapter(2, part.scale, part.A, part.B | zeros)
    one, other = (merge([random_adapter(4), own], [0.5, 0.5], 12, method) for own in (absent, still))
    for name in SHAPES:
        torch.testing.assert_close(one.delta(name), other.delta(name), atol=1e-4, rtol=1e-4)


def random_fisher(seed: int | tuple[int, int], shapes: Any = SHAPES) -> Fisher:
    """Entries over six orders of magnitude."""
    rng = np.random.default_rng(seed)

    def vector(n: int) -> torch.Tensor:
        return torch.from_numpy(10.0 ** rng.uniform(-3, 3, size=n))

    return Fisher({n: vector(o) for n, (o, _) in shapes.items()}, {n: vector(i) for n, (_, i) in shapes.items()})


positive = st.lists(
    st.tuples(st.integers(1, 4), st.floats(0.1, 2), st.floats(0.5, 4), st.integers(0, 99)), min_size=1, max_size=3
)


@given(parents=positive, rank=st.integers(1, 6), seed=st.integers(0, 99))
def test_with_equal_fishers_it_is_the_weighted_merge(parents: Any, rank: int, seed: int) -> None:
    adapters = [random_adapter(own, number, scale) for own, _, scale, number in parents]
    weights = [weight for _, weight, _, _ in parents]
    child = merge(adapters, weights, rank, "fisher", fishers=[random_fisher(seed)] * len(adapters))
    plain = merge(adapters, weights, rank)
    for name in SHAPES:
        torch.testing.assert_close(child.delta(name), plain.delta(name), atol=1e-3, rtol=1e-3)


@given(parents=positive, rank=st.integers(1, 7), seed=st.integers(0, 99), dense=st.sampled_from([1, 500, 2**22]))
def test_a_merge_by_fisher_is_the_nearest_to_the_dense_one(parents: Any, rank: int, seed: int, dense: Any) -> None:
    """Entry by entry in float64; modules of one shape at once or one by one."""
    shapes = SHAPES | {"wide again": (7, 12), "wide too": (7, 12)}
    adapters = []
    for own, _, scale, number in parents:
        first, second = random_adapter(own, number, scale), random_adapter(own, number + 100, scale)
        others = {"wide again": "wide", "wide too": "wide"}
        A = first.A | {name: second.A[like] * (1 + len(name)) for name, like in others.items()}
        B = first.B | {name: second.B[like] for name, like in others.items()}
        adapters.append(Adapter(own, scale, A, B))
    weights = [weight for _, weight, _, _ in parents]
    fishers = [random_fisher((seed, number), shapes) for number in range(len(adapters))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merging, "DENSE", dense)
        child = merge(adapters, weights, rank, "fisher", fishers=fishers)
    for name, (rows, columns) in shapes.items():
        deltas = [(a.scale * a.B[name].double() @ a.A[name].double()).numpy() for a in adapters]
        expected = np.zeros((rows, columns))
        for i in range(rows):
            for j in range(columns):
                share = [
                    w * float(f.outputs[name][i] * f.inputs[name][j]) for w, f in zip(weights, fishers, strict=True)
                ]
                entries = [delta[i, j] for delta in deltas]
                expected[i, j] = sum(weights) * np.dot(share, entries) / sum(share)
        U, S, V = np.linalg.svd(expected)
        nearest = (U[:, : len(S)] * np.where(np.arange(len(S)) < rank, S, 0)) @ V[: len(S)]
        distance = np.linalg.norm(child.delta(name).numpy() - expected) - np.linalg.norm(nearest - expected)
        assert abs(distance) < 1e-5 * S[0]


def test_who_has_all_the_information_on_some_rows_and_columns_decides_there() -> None:
    """Rows 0-2 matter to the first parent alone, the others to the second; the last column to nobody."""
    adapters, weights = [random_adapter(2, 1), random_adapter(3, 2)], [0.4, 0.8]
    outputs = [(torch.arange(7) < 3).double(), (torch.arange(7) >= 3).double()]
    inputs = torch.ones(12, dtype=torch.float64)
    inputs[11] = 0.0
    parts = {"wide": [adapter.A["wide"] for adapter in adapters]}
    adapters = [
        Adapter(a.rank, a.scale, {"wide": A}, {"wide": a.B["wide"]})
        for a, A in zip(adapters, parts["wide"], strict=True)
    ]
    fishers = [Fisher({"wide": own}, {"wide": inputs}) for own in outputs]
    child = merge(adapters, weights, 7, "fisher", fishers=fishers).delta("wide")
    for rows, parent in ((slice(0, 3), adapters[0]), (slice(3, 7), adapters[1])):
        torch.testing.assert_close(child[rows, :11], 1.2 * parent.delta("wide")[rows, :11], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(child[:, 11], dense_sum(adapters, weights, "wide")[:, 11], atol=1e-4, rtol=1e-4)


def test_a_parent_without_a_module_votes_for_no_change_there() -> None:
    whole, other = random_adapter(2, 1), random_adapter(2, 2)
    part = Adapter(2, 2.0, {"tall": other.A["tall"]}, {"tall": other.B["tall"]})
    uniform = Fisher(
        {n: torch.ones(o) for n, (o, _) in SHAPES.items()}, {n: torch.ones(i) for n, (_, i) in SHAPES.items()}
    )
    keen = Fisher({n: 3 * v for n, v in uniform.outputs.items()}, uniform.inputs)
    child = merge([whole, part], [0.5, 0.5], 4, "fisher", fishers=[uniform, keen])
    torch.testing.assert_close(child.delta("wide"), whole.delta("wide") / 4, atol=1e-4, rtol=1e-4)


def test_a_merge_by_fisher_needs_one_for_each_parent_and_weights_above_zero() -> None:
    adapters, one = [random_adapter(2), random_adapter(3)], random_fisher(0)
    with pytest.raises(ValueError, match="2 adapters, 1 Fishers"):
        merge(adapters, [0.5, 0.5], 2, "fisher", fishers=[one])
    with pytest.raises(ValueError, match=r"weights \[1.0, -1.0\]"):
        merge(adapters, [1.0, -1.0], 2, "fisher", fishers=[one, one])


def test_adapters_of_two_hosts_and_broken_ones_are_refused() -> None:
    other = Adapter(2, 2.0, {"wide": torch.ones(2, 9)}, {"wide": torch.ones(7, 2)})
    with pytest.raises(AdapterError, match=r"'wide': 7 x 12 and 7 x 9 \(out x in; ranks 3 and 2\)"):
        merge([random_adapter(3), other], [0.5, 0.5], 3)
    broken = random_adapter(2)
    broken.B["tall"][0, 0] = torch.nan
    with pytest.raises(AdapterError, match="'tall': an adapter of rank 2 is not finite"):
        merge([random_adapter(3), broken], [0.5, 0.5], 3)
    with pytest.raises(ValueError, match="'soup' is none of weighted, ties, dare, fisher"):
        merge([broken], [1.0], 2, "soup")
    with pytest.raises(ValueError, match="1 adapters but 2 weights"):
        merge([broken], [1.0, 2.0], 2)
