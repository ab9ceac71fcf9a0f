import copy

import torch
from peft import get_peft_model
from tiny_models import tiny_model

from evolora_core.searches.adapters.rivals.layers import QuickLinear, quicken_layers
from evolora_core.searches.adapters.rivals.training import lora


def test_quick_layers_compute_what_those_of_peft_do() -> None:
    """Bias and scale included, forward and back, with the adapter and without."""
    plain = get_peft_model(tiny_model("llama"), lora(4, 2.0))
    for name, parameter in plain.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    quick = copy.deepcopy(plain)
    quicken_layers(quick)
    assert sum(type(module) is QuickLinear for module in quick.modules()) == 14
    ids = torch.randint(3, 48, (4, 30))
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
