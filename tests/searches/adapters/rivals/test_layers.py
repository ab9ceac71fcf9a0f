import copy
from typing import Any

import pytest
import torch
from peft import get_peft_model
from tiny_models import tiny_model

from evolora_core.searches.adapters.rivals.layers import QuickLinear, quicken
from evolora_core.searches.adapters.rivals.training import lora


@pytest.mark.parametrize("tokens", [30, 5], ids=["W + ΔW", "ΔW beside W"])
def test_quick_layers_compute_what_those_of_peft_do(tokens: int) -> None:
    """Bias and scale included, forward and back, with the adapter and without."""
    plain, quick = pair(torch.float32)
    assert sum(type(module) is QuickLinear for module in quick.modules()) == 14
    ids = torch.randint(3, 48, (4, tokens))
    for model in (plain, quick):
        model(input_ids=ids, labels=ids).loss.backward()
    expected = dict(plain.named_parameters())
    for name, parameter in quick.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(parameter.grad, expected[name].grad, rtol=1e-4, atol=1e-6)
    with torch.no_grad():
        assert torch.equal(quick(input_ids=ids).logits, plain(input_ids=ids).logits)
    with quick.disable_adapter(), plain.disable_adapter():
        assert torch.equal(quick(input_ids=ids).logits, plain(input_ids=ids).logits)


def test_in_bfloat16_the_gradients_are_as_near_to_the_exact_ones_as_peft_s() -> None:
    exact, _ = pair(torch.float32)
    ids = torch.randint(3, 48, (4, 30))
    gradients = []
    for model in (exact, *pair(torch.bfloat16)):
        model(input_ids=ids, labels=ids).loss.backward()
        learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
        assert all(parameter.dtype == torch.float32 for parameter in learned)
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in learned]))
    errors = [(own - gradients[0]).norm() / gradients[0].norm() for own in gradients[1:]]
    assert 0 < errors[1] < 1.5 * errors[0] < 0.1


def pair(dtype: torch.dtype) -> tuple[Any, Any]:
    """A PEFT model whose adapter is not zero, and the same one quickened."""
    torch.manual_seed(0)
    model: Any = tiny_model("llama")
    plain = get_peft_model(model.to(dtype), lora(4, 2.0))
    for name, parameter in plain.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    quick = copy.deepcopy(plain)
    quicken(quick)
    return plain, quick
