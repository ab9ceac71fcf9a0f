"""Every operator gives what mergekit 0.1.5 gives, to rounding."""

import itertools
from typing import Any

import pytest
import torch
from mergekit.merge_methods import merge_tensors
from torch import Tensor

from evolora_core.searches.merging.operators.registry import operators

SHAPES = [(1,), (2,), (17,), (1, 1), (1, 9), (9, 1), (24, 40), (3, 4, 5), (300, 260)]  # the last is of two blocks
WEIGHTS = [[1.0, 1.0, 1.0], [0.5, 0.3, 0.9], [1.2, -0.4, 0.7]]
VARIANTS = [(w, s, n) for w in WEIGHTS for s in (1.0, 0.6) for n in ("yes", "no")]  # weights, scale, normalize
DENSITIES = [[1.0, 1.0, 1.0], [0.5, 0.5, 0.5], [0.2, 0.9, 0.55], [0.0, 0.4, 0.01]]


def drawn(shape: Any, kind: str = "normal", count: int = 3) -> list[Tensor]:
    """The base and `count` inputs."""
    stream = torch.Generator().manual_seed(len(shape) * 1000 + sum(shape))
    base = torch.randn(shape, generator=stream) if kind != "zeros" else torch.zeros(shape)
    if kind == "zeros":
        return [base, *[torch.zeros(shape) for _ in range(count)]]
    if kind == "one moved":
        return [base, base + torch.randn(shape, generator=stream), *[base.clone() for _ in range(count - 1)]]
    return [base, *[base + 0.1 * torch.randn(shape, generator=stream) for _ in range(count)]]


def compare(merge: Any, name: str, tensors: list[Tensor], options: dict[str, str], **params: Any) -> None:
    """Merge both ways. mergekit calls `scale` lambda, and its choices are booleans."""
    theirs: dict[str, Any] = {{"scale": "lambda"}.get(key, key): value for key, value in params.items()}
    if "normalize" in options:
        theirs["normalize"] = options["normalize"] == "yes"
    if "rescale" in options:
        theirs["rescale"] = options["rescale"] == "l1"
    ours = merge(name, tensors[1:], tensors[0], options=options, **params)
    if name == "slerp":
        expected = merge_tensors(tensors[1:], name, parameters=theirs, base_index=0)
    elif not operators()[name].base:
        expected = merge_tensors(tensors[1:], name, parameters=theirs)
    else:
        expected = merge_tensors(tensors, name, parameters=theirs, base_index=0)
    assert ours.shape == expected.shape and ours.dtype == expected.dtype == torch.float32
    torch.testing.assert_close(ours, expected, atol=1e-6, rtol=1e-6)


@pytest.fixture
def same_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """mergekit draws from the streams that `merge` gives: of seed 0 for the first tensor with a mask, and so on."""
    streams = iter(range(100))

    def bernoulli(chances: Tensor) -> Tensor:
        stream = torch.Generator().manual_seed(next(streams))
        return (torch.rand(chances.shape, generator=stream) < chances).to(chances.dtype)

    monkeypatch.setattr("mergekit.sparsify.torch.bernoulli", bernoulli)


@pytest.mark.parametrize("normalize", ["yes", "no"])
@pytest.mark.parametrize("weight", WEIGHTS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_linear(merge: Any, shape: Any, weight: Any, normalize: str) -> None:
    compare(merge, "linear", drawn(shape), {"normalize": normalize}, weight=weight)


@pytest.mark.parametrize("t", [0.0, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_slerp(merge: Any, shape: Any, t: float) -> None:
    """Of near models, which are joined by a line, of independent ones, and of one with the zero tensor."""
    base, near, nearer = drawn(shape, count=2)
    for ends in ([near, base], [near - base, nearer - base], [near, torch.zeros(shape)], [near, -near]):
        compare(merge, "slerp", [base, *ends], {}, t=t)


@pytest.mark.parametrize(("weight", "scale", "normalize"), VARIANTS)
@pytest.mark.parametrize("shape", SHAPES)
def test_task_arithmetic(merge: Any, shape: Any, weight: Any, scale: float, normalize: str) -> None:
    compare(merge, "task_arithmetic", drawn(shape), {"normalize": normalize}, weight=weight, scale=scale)


@pytest.mark.parametrize("kind", ["normal", "zeros", "one moved"])
@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_model_stock(merge: Any, shape: Any, count: int, kind: str) -> None:
    """Against its result in float64: where the cosines nearly cancel, its float32 is right to 5 digits alone."""
    base, *models = drawn(shape, kind, count)
    exact = merge_tensors([tensor.double() for tensor in (base, *models)], "model_stock", base_index=0)
    torch.testing.assert_close(merge("model_stock", models, base), exact.float(), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("density", DENSITIES, ids=str)
@pytest.mark.parametrize("name", ["ties", "breadcrumbs", "breadcrumbs_ties"])
@pytest.mark.parametrize("shape", SHAPES)
def test_those_that_trim(merge: Any, name: str, shape: Any, density: Any) -> None:
    more = {} if name == "ties" else {"gamma": [0.01, 0.2, 0.7]}
    for weight, scale, normalize in zip(WEIGHTS, [1.0, 0.6, 1.7], ["yes", "no", "yes"], strict=True):
        options = {"normalize": normalize}
        compare(merge, name, drawn(shape), options, weight=weight, scale=scale, density=density, **more)


@pytest.mark.parametrize("rescale", ["l1", "none"])
@pytest.mark.parametrize("density", [[0.5, 0.5, 0.5], [0.3, 0.9, 0.55]], ids=str)
@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *[(name, shape) for name in ("dare_linear", "dare_ties") for shape in SHAPES],
        # In rows of one element mergekit's DELLA divides 0 by 0.
        *[
            (name, shape)
            for name in ("della_linear", "della")
            for shape in SHAPES
            if shape[1:] != (1,) and shape != (1,)
        ],
    ],
)
def test_random_ones_with_the_same_masks(
    merge: Any, same_masks: None, name: str, shape: Any, density: Any, rescale: str
) -> None:
    more = {"epsilon": [0.05, 0.08, 0.2]} if name.startswith("della") else {}
    options = {"normalize": "yes" if shape[0] % 2 else "no", "rescale": rescale}
    compare(merge, name, drawn(shape), options, weight=[0.5, 0.3, 0.9], scale=0.8, density=density, **more)


@pytest.mark.parametrize(
    ("kind", "share"), [("zeros", 0.5), *itertools.product(["normal", "one moved"], [0.0, 0.1, 0.5, 1.0])]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_sce(merge: Any, shape: Any, share: float, kind: str) -> None:
    compare(merge, "sce", drawn(shape, kind), {}, select_topk=share)


@pytest.mark.parametrize("kind", ["zeros", "one moved"])
@pytest.mark.parametrize("name", ["linear", "task_arithmetic", "ties", "breadcrumbs", "breadcrumbs_ties"])
@pytest.mark.parametrize("shape", [(1,), (12,), (6, 7)])
def test_models_that_did_not_move(merge: Any, name: str, shape: Any, kind: str) -> None:
    density = {} if name in ("linear", "task_arithmetic") else {"density": [0.5, 0.5, 0.5]}
    compare(merge, name, drawn(shape, kind), {}, weight=[0.5, 0.3, 0.9], **density)


@pytest.mark.parametrize("name", [name for name, operator in operators().items() if "normalize" in operator.options])
def test_the_defaults_are_those_of_mergekit(name: str) -> None:
    from mergekit.merge_methods import get

    theirs = {parameter.name: parameter.default for parameter in get(name).spec.parameters}
    ours = operators()[name]
    assert ours.choices({})["normalize"] == ("yes" if theirs["normalize"] else "no")
    names = {"scale": "lambda"}
    for parameter in ours.parameters:
        if parameter.name != "weight":  # which mergekit demands
            assert parameter.default == theirs[names.get(parameter.name, parameter.name)]
