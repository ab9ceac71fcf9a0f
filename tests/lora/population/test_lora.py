from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import random_prompts, tiny_host, tiny_population

from evolora_core.lora.population import lora
from evolora_core.lora.population.lora import Layout, attached

IDS = torch.tensor([row[:6] for row in random_prompts(400, 12) if len(row) >= 6])


@pytest.mark.parametrize("slots", [[0, 0, 1, 1, 2, 2, 3, 3], [2, -1, 0, 3, 3, 1, -1, 0], [-1, -1, 0, 0, 0, 3, 3, 3]])
def test_logits_are_those_of_peft(host: Any, population: Any, as_peft: Any, slots: Any) -> None:
    ids = IDS[: len(slots)]
    with torch.no_grad(), attached(host.model, population) as adapters:
        adapters.rows(np.array(slots))
        logits = host.model(input_ids=ids).logits
    for slot in set(slots):
        model = host.model if slot < 0 else as_peft(host, population, slot)
        rows = torch.tensor(slots) == slot
        with torch.no_grad():
            torch.testing.assert_close(logits[rows], model(input_ids=ids[rows]).logits, atol=1e-4, rtol=1e-4)


def test_bare_rows_are_exactly_the_hosts(host: Any, population: Any) -> None:
    ids = IDS[:6]
    with torch.no_grad():
        bare = host.model(input_ids=ids).logits
        with attached(host.model, population) as adapters:
            torch.testing.assert_close(host.model(input_ids=ids).logits, bare, atol=0, rtol=0)  # until rows are chosen
            for slots in ([-1] * 6, [-1, -1, 0, 0, 1, 1], [0, -1, 1, 0, -1, 2]):
                adapters.rows(np.array(slots))
                mixed = host.model(input_ids=ids).logits
                rows = torch.tensor(slots) == -1
                torch.testing.assert_close(mixed[rows], bare[rows], atol=0, rtol=0)
                assert not (mixed[~rows] == bare[~rows]).all(dim=-1).any()


def test_the_model_is_restored_even_after_an_error(host: Any, population: Any) -> None:
    ids = IDS[:3]
    bare = host.model(input_ids=ids).logits
    with pytest.raises(RuntimeError, match="mine"), attached(host.model, population) as adapters:
        adapters.rows(np.array([0, 1, 2]))
        raise RuntimeError("mine")
    assert torch.equal(host.model(input_ids=ids).logits, bare)
    assert not any(module._forward_hooks for module in host.model.modules())


@given(
    slots=st.lists(st.integers(-1, 4), min_size=1, max_size=24),
    sort=st.booleans(),
    length=st.integers(1, 3),
    sliced=st.sampled_from([1, 2, 99]),
)
@settings(max_examples=300)
def test_every_layout_gives_each_row_its_own_product_and_gradients(
    slots: Any, sort: bool, length: int, sliced: Any
) -> None:
    slots = np.array(sorted(slots) if sort else slots)
    rng = torch.Generator().manual_seed(len(slots))
    layout = Layout.of(slots, torch.device("cpu"))
    if not len(layout.present):
        assert (slots == -1).all()
        return
    shapes = [(len(slots), length, 4), (len(slots), length, 3), (5, 2, 4), (5, 3, 2)]
    leaves = [torch.randn(shape, generator=rng, requires_grad=True) for shape in shapes]
    x, y, A, B = leaves
    own = torch.stack([y[i] if s < 0 else y[i] + 1.5 * x[i] @ A[s].mT @ B[s].mT for i, s in enumerate(slots.tolist())])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lora, "SLICED", sliced)
        result = layout.add(x, y * 1, A[layout.present], B[layout.present], 1.5)
        with torch.no_grad():
            again = layout.add(x, y.clone(), A[layout.present], B[layout.present], 1.5)
    torch.testing.assert_close(result, own, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(again, own, atol=1e-5, rtol=1e-5)
    weights = torch.randn(own.shape, generator=rng)
    for found, expected in zip(
        *(torch.autograd.grad((out * weights).sum(), leaves) for out in (result, own)), strict=True
    ):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_equal_groups_are_not_copied() -> None:
    cpu = torch.device("cpu")
    assert Layout.of(np.array([-1, 0, 0, 2, 2]), cpu).take is None
    assert Layout.of(np.array([0, 2, 0, 2]), cpu).take is None
    assert Layout.of(np.array([-1, 0, 0, 2]), cpu).take is not None
    assert Layout.of(np.array([-1, 0, 0, 2, 2]), cpu).rows is None
    assert Layout.of(np.array([0, 2, 0, 2]), cpu).rows is not None


@pytest.mark.parametrize("sliced", [1, 99])
@pytest.mark.parametrize("slots", [[0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7]])
def test_nan_in_one_slot_stays_there_in_every_layout(slots: Any, sliced: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lora, "SLICED", sliced)
    slots = np.array(slots)
    factors = [torch.ones(8, 2, 4, requires_grad=True), torch.ones(8, 3, 2, requires_grad=True)]
    x = torch.ones(len(slots), 2, 4)
    x[slots == 0] = torch.nan
    layout = Layout.of(slots, torch.device("cpu"))
    A, B = (factor[layout.present] for factor in factors)
    result = layout.add(x, torch.zeros(len(slots), 2, 3), A, B, 1.0)
    assert result[slots != 0].isfinite().all() and not result[slots == 0].isfinite().any()
    for gradient in torch.autograd.grad(result.sum(), factors):
        assert not gradient[0].isfinite().any() and gradient[1:].isfinite().all()


def test_other_dtypes_of_the_host(as_peft: Any) -> None:
    host = tiny_host("qwen3")
    population = tiny_population(host, [4, 2])
    expected = as_peft(host, population, 1)(input_ids=IDS[:2]).logits
    host.model.to(torch.bfloat16)
    with torch.no_grad(), attached(host.model, population) as adapters:
        adapters.rows(np.array([1, 1]))
        logits = host.model(input_ids=IDS[:2]).logits
    assert logits.dtype == torch.bfloat16
    assert (logits.float() - expected).norm() < 0.05 * expected.norm()


def test_without_population_only_the_host_can_be_asked(qwen: Any) -> None:
    with attached(qwen.model, None) as adapters:
        adapters.rows(np.array([-1, -1]))
        with pytest.raises(ValueError, match="slot 3"):
            adapters.rows(np.array([-1, 3]))
