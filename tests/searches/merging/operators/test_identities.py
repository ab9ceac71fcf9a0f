"""What must hold of every merge operator, and of each in its limits."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from evolora_core.searches.merging.misfits import Misfit
from evolora_core.searches.merging.operators import deltas
from evolora_core.searches.merging.operators.registry import get_operator, operators

NAMES = sorted(operators())
RANDOM = ["dare_linear", "dare_ties", "della_linear", "della"]
THINNING = [*RANDOM, "ties", "breadcrumbs", "breadcrumbs_ties"]
SYMMETRIC = [name for name in NAMES if name != "slerp" and name not in RANDOM]
shapes = st.sampled_from([(), (1,), (2,), (7,), (1, 1), (1, 5), (5, 1), (4, 6), (2, 3, 4)])
seeds = st.integers(0, 2**20)
shares = st.floats(0.0, 1.0)


def drawn(shape: Any, seed: int, count: int = 3) -> tuple[Tensor, list[Tensor]]:
    """A base and models that differ from it."""
    stream = torch.Generator().manual_seed(seed)
    base = torch.randn(shape, generator=stream)
    return base, [base + torch.randn(shape, generator=stream) for _ in range(count)]


def settings(name: str, density: float) -> dict[str, float]:
    """The density, for operators that have one."""
    return {"density": density} if name in THINNING else {}


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=2e-6, rtol=2e-6)


@given(shape=shapes, seed=seeds)
def test_slerp_begins_and_ends_at_its_inputs(merge: Any, shape: Any, seed: int) -> None:
    _, models = drawn(shape, seed, 2)
    close(merge("slerp", models, t=0.0), models[0])
    close(merge("slerp", models, t=1.0), models[1])


@given(seed=seeds, t=shares)
def test_slerp_between_unit_tensors_stays_on_the_sphere(merge: Any, seed: int, t: float) -> None:
    ends = [model / model.norm() for model in drawn((5, 4), seed, 2)[1]]
    assert float(merge("slerp", ends, t=t).norm()) == pytest.approx(1, abs=1e-3)  # a line is taken above 0.9995


@given(shape=shapes, seed=seeds, weight=st.floats(0.1, 2.0), scale=st.floats(-2.0, 2.0))
def test_one_model_whole_is_task_arithmetic(merge: Any, shape: Any, seed: int, weight: float, scale: float) -> None:
    base, models = drawn(shape, seed, 1)
    expected = merge("task_arithmetic", models, base, weight=weight, scale=scale)
    for name in THINNING:
        close(merge(name, models, base, options={"normalize": "no"}, weight=weight, scale=scale), expected)


@pytest.mark.parametrize("name", ["sce", "model_stock"])
@pytest.mark.parametrize("size", [1e-4, 1e-6])
def test_weights_of_small_differences_are_those_of_large_ones(merge: Any, name: str, size: float) -> None:
    """As they stand in the papers: both depend on ratios of lengths alone. Fine-tuning moves a model little."""
    base, models = drawn((40, 30), 0)
    models[0] = base + 4 * (models[0] - base)
    zero = torch.zeros_like(base)
    parts = [model - base for model in models]
    small = merge(name, [size * part for part in parts], zero)
    torch.testing.assert_close(small / size, merge(name, parts, zero), atol=1e-5, rtol=1e-5)


def test_a_parent_that_hardly_moved_decides_where_no_other_did(merge: Any) -> None:
    """As rows of tokens that the others never saw: its share of the energy cancels, however small."""
    zero = torch.zeros(4)
    found = merge("sce", [torch.tensor([1.0, 1, 0, 0]), torch.full((4,), 1e-4)], zero)
    torch.testing.assert_close(found[2:], torch.full((2,), 1e-4))


@given(shape=shapes, seed=seeds, weights=st.lists(st.floats(0.1, 5.0), min_size=1, max_size=4))
def test_equal_models_merge_into_themselves(merge: Any, shape: Any, seed: int, weights: list[float]) -> None:
    base, models = drawn(shape, seed, 1)
    alike = models * len(weights)
    close(merge("linear", alike, weight=weights), models[0])
    close(merge("ties", alike, base, weight=weights), models[0])
    close(merge("task_arithmetic", alike, base, weight=weights, options={"normalize": "yes"}), models[0])
    close(merge("sce", alike, base), models[0])
    close(merge("slerp", models * 2, t=0.3), models[0])


@pytest.mark.parametrize("name", SYMMETRIC)
@given(shape=shapes, seed=seeds, order=st.permutations(range(3)), density=shares)
def test_the_order_of_the_inputs_says_nothing(
    merge: Any, name: str, shape: Any, seed: int, order: list[int], density: float
) -> None:
    base, models = drawn(shape, seed)
    more: dict[str, Any] = settings(name, density)
    weights: dict[str, Any] = {}
    permuted = {}
    if any(parameter.name == "weight" for parameter in get_operator(name).parameters):
        weights = {"weight": [0.5, 1.0, 1.7]}
        permuted = {"weight": [weights["weight"][index] for index in order]}
    close(
        merge(name, [models[index] for index in order], base, **permuted, **more),
        merge(name, models, base, **weights, **more),
    )


@pytest.mark.parametrize("name", NAMES)
@given(shape=shapes, seed=seeds, density=shares)
def test_nothing_is_written_to_and_a_seed_says_all(
    merge: Any, name: str, shape: Any, seed: int, density: float
) -> None:
    base, models = drawn(shape, seed, 2)
    kept = [base.clone(), *[model.clone() for model in models]]
    first = merge(name, models, base, seed=seed, **settings(name, density))
    assert all(torch.equal(now, then) for now, then in zip([base, *models], kept, strict=True))
    assert torch.equal(first, merge(name, models, base, seed=seed, **settings(name, density)))
    assert first.shape == base.shape and first.dtype == torch.float32 and first.isfinite().all()
    assert all(first.data_ptr() != tensor.data_ptr() for tensor in [base, *models])


@pytest.mark.parametrize("name", NAMES)
@given(shape=shapes, density=shares, normalize=st.booleans())
def test_zero_tensors_stay_zero(merge: Any, name: str, shape: Any, density: float, normalize: bool) -> None:
    zeros = torch.zeros(shape)
    options = {"normalize": "yes" if normalize else "no"} if "normalize" in get_operator(name).options else {}
    assert torch.equal(merge(name, [zeros, zeros], zeros, options=options, **settings(name, density)), zeros)


@pytest.mark.parametrize("rescale", ["inverse_p", "l1", "none"])
@pytest.mark.parametrize("name", RANDOM)
@given(shape=shapes, seed=seeds)
def test_density_1_keeps_everything(merge: Any, name: str, rescale: str, shape: Any, seed: int) -> None:
    base, models = drawn(shape, seed)
    same = "task_arithmetic" if name.endswith("linear") else "ties"
    options = {"normalize": "no"}
    close(
        merge(name, models, base, options=options | {"rescale": rescale}, density=1.0),
        merge(same, models, base, options=options),
    )


@given(shape=shapes, seed=seeds)
def test_weight_0_or_scale_0_leaves_the_base(merge: Any, shape: Any, seed: int) -> None:
    base, models = drawn(shape, seed)
    for name in ["task_arithmetic", *THINNING]:
        assert torch.equal(merge(name, models, base, weight=0.0), base)
        assert torch.equal(merge(name, models, base, scale=0.0), base)


@pytest.mark.parametrize("name", ["dare_linear", "della_linear"])
def test_division_by_the_chance_is_unbiased(merge: Any, name: str) -> None:
    """The mean over seeds nears the whole task vector, element by element."""
    base, models = drawn((3, 8), 1, 1)
    tau = models[0] - base
    density, epsilon, count = 0.4, 0.15, 4000
    more = {"epsilon": epsilon} if name == "della_linear" else {}
    total = sum(merge(name, models, base, seed=seed, density=density, **more) for seed in range(count))
    lowest = density - epsilon if more else density
    # A kept element is τ/p, so its variance is τ²(1 − p)/p; 5 standard errors, of 24 elements.
    error = tau.abs() * math.sqrt((1 - lowest) / lowest / count)
    assert ((total / count - models[0]).abs() < 5 * error + 1e-5).all()
    # The norm kept instead is not unbiased on a tensor as small as this one: the test can tell.
    l1 = sum(
        merge(name, models, base, seed=seed, density=density, options={"rescale": "l1"}, **more)
        for seed in range(count)
    )
    assert not ((l1 / count - models[0]).abs() < 5 * error + 1e-5).all()


def test_della_keeps_large_magnitudes_more_often(merge: Any) -> None:
    base = torch.zeros(1, 5)
    model = torch.tensor([[0.3, -0.1, 0.5, 0.2, -0.4]])
    runs = [merge("della", [model], base, seed=seed, density=0.5, epsilon=0.4) != 0 for seed in range(4000)]
    kept = torch.stack(runs).double().mean(dim=0)[0]
    assert kept.tolist() == pytest.approx([0.5, 0.1, 0.9, 0.3, 0.7], abs=0.04)


@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=30), density=st.floats(0.01, 1.0))
def test_trimming_keeps_an_exact_number_also_of_equal_magnitudes(values: list[int], density: float) -> None:
    delta = torch.tensor(values, dtype=torch.float32)
    trimmed = deltas.trim(delta.clone(), density)
    kept = max(1, int(density * len(values))) if density < 1 else len(values)
    assert int(trimmed.count_nonzero()) == min(kept, int(delta.count_nonzero()))
    assert sorted(trimmed.abs().tolist()) == sorted(sorted(delta.abs().tolist())[-kept:] + [0] * (len(values) - kept))


@given(values=st.lists(st.integers(-3, 3), min_size=1, max_size=30), density=st.floats(0.0, 0.99), gamma=shares)
def test_breadcrumbs_keep_the_middle(values: list[int], density: float, gamma: float) -> None:
    size, kept = len(values), int(density * len(values))
    left = deltas.trim_between(torch.tensor(values, dtype=torch.float32), density, gamma)
    lowest = max(0, size - kept - int(gamma * size))
    middle = sorted(map(abs, values))[lowest : lowest + kept]
    assert sorted(left.abs().tolist()) == sorted(middle + [0] * (size - kept))


@pytest.mark.parametrize("name", NAMES)
def test_the_length_of_blocks_changes_no_mask_and_nothing_but_rounding(
    merge: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    base, models = drawn((13, 11), 3, 2)
    whole = merge(name, models, base, **settings(name, 0.4))
    monkeypatch.setattr(deltas, "BLOCK", 10)
    close(merge(name, models, base, **settings(name, 0.4)), whole)


@pytest.mark.parametrize("name", NAMES)
def test_strides_say_nothing(merge: Any, name: str) -> None:
    base, models = drawn((6, 9), 4, 2)
    expected = merge(name, models, base, **settings(name, 0.6))
    strided = [tensor.T.contiguous().T for tensor in [base, *models]]
    assert torch.equal(merge(name, strided[1:], strided[0], **settings(name, 0.6)), expected)


@pytest.mark.parametrize(
    ("name", "inputs", "params", "options", "reason"),
    [
        ("ties", 2, {"weigth": 1.0}, {}, "no parameter 'weigth'; it has weight, density, scale"),
        ("ties", 2, {"density": [0.5]}, {}, "1 values for 2 inputs"),
        ("ties", 2, {"density": 1.5}, {}, "1.5 is not from 0 to 1"),
        ("ties", 2, {"density": math.nan}, {}, "nan is not from 0 to 1"),
        ("ties", 2, {"weight": [[], 1.0]}, {}, "give a number"),
        ("ties", 2, {"scale": [[1.0], [2.0]]}, {}, "give a number"),
        ("dare_ties", 2, {}, {"rescale": "l2"}, "'l2' is none of inverse_p, l1, none"),
        ("ties", 2, {}, {"rescale": "l1"}, "no option 'rescale'; it has normalize"),
        ("slerp", 3, {}, {}, "takes 2 inputs; this one has 3"),
        ("model_stock", 1, {}, {}, "takes 2 or more inputs; this one has 1"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    name: str, inputs: int, params: Any, options: Any, reason: str
) -> None:
    with pytest.raises(ValueError) as refusal:
        get_operator(name).check(inputs, params, options)
    assert reason in str(refusal.value) and "\n" not in str(refusal.value)


def test_values_by_layer_group_are_picked() -> None:
    found = get_operator("ties").resolve(
        {"weight": [[0.2, 0.8], 1.0]}, 2, lambda value: value[1] if isinstance(value, list) else value
    )
    assert found == {"weight": [0.8, 1.0], "density": [1.0, 1.0], "scale": 1.0}


@pytest.mark.parametrize("weight", [[1.0, -1.0], 0.0, [2.0, -2.0 + 1e-9]])
def test_a_mean_by_weights_that_cancel_is_refused(merge: Any, weight: Any) -> None:
    """Their sum divides nothing, and what is left undivided is the difference of two models, or nothing at all."""
    _, models = drawn((4, 6), 0, 2)
    with pytest.raises(Misfit, match="operator 'linear': its weights add up to 0; change `weight`, or say `normalize"):
        merge("linear", models, weight=weight)
    values = weight if isinstance(weight, list) else [weight] * 2
    told = merge("linear", models, weight=weight, options={"normalize": "no"})
    close(told, values[0] * models[0] + values[1] * models[1])


@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_is_none_is_not_lost(merge: Any, name: str) -> None:
    """What is made of a broken model is broken too: nothing that thins it out hides that."""
    base, models = drawn((16, 8), 3, 2)
    models[1][0, 0] = math.nan
    params = settings(name, 0.5) | ({"select_topk": 0.5} if name == "sce" else {})
    assert not torch.isfinite(merge(name, models, base, **params)).all()
