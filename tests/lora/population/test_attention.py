from typing import Any

import pytest
import torch
from tiny_models import tiny_model
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from evolora_core.lora.population.attention import NAME, SHORT, attend, quicken_attention


def parts(tokens: int, dtype: torch.dtype) -> Any:
    torch.manual_seed(0)
    return [torch.randn(2, heads, tokens, 16).to(dtype).requires_grad_() for heads in (4, 2, 2)]


def back(found: Tensor, given: Any) -> Tensor:
    return torch.cat([part.float().flatten() for part in torch.autograd.grad(found.float().square().sum(), given)])


def test_short_rows_are_nearer_to_float32_than_those_of_pytorch() -> None:
    options: dict[str, Any] = {"is_causal": True, "enable_gqa": True}
    given = parts(20, torch.bfloat16)
    exact: Any = [part.detach().float().requires_grad_() for part in given]
    right = back(scaled_dot_product_attention(*exact, **options), exact)
    found = attend(*given, **options)
    assert found.dtype == torch.bfloat16
    own, theirs = (
        (back(answer, given) - right).norm() / right.norm()
        for answer in (found, scaled_dot_product_attention(*given, **options))
    )
    assert 0 < own < theirs < 0.02


@pytest.mark.parametrize("case", ["float32", "long", "no gradient"])
def test_elsewhere_it_is_pytorch_s_own(case: str) -> None:
    dtype = torch.float32 if case == "float32" else torch.bfloat16
    given = parts(SHORT + 1 if case == "long" else 20, dtype)
    options: dict[str, Any] = {"is_causal": True, "enable_gqa": True}
    with torch.set_grad_enabled(case != "no gradient"):
        found, theirs = attend(*given, **options), scaled_dot_product_attention(*given, **options)
    assert torch.equal(found, theirs)
    if case != "no gradient":
        assert torch.equal(back(found, given), back(theirs, given))


@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma"])
def test_a_model_computes_the_same_in_float32_and_nearly_so_in_bfloat16(architecture: str) -> None:
    """With padded rows, whose mask goes along."""
    ids = torch.randint(3, 48, (3, 20), generator=torch.Generator().manual_seed(1))
    there = torch.arange(20) < torch.tensor([[20], [11], [5]])
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        for quick in (False, True):
            tiny: Any = tiny_model(architecture)
            model = tiny.to(dtype)
            usual = model.config._attn_implementation
            if quick:
                quicken_attention(model)
                assert model.config._attn_implementation == (NAME if usual == "sdpa" else usual)
            inputs = model.get_input_embeddings()(ids).detach().requires_grad_()
            logits = model(inputs_embeds=inputs, attention_mask=there).logits[there].float()
            (gradient,) = torch.autograd.grad(logits.square().sum(), inputs)
            found[dtype, quick] = logits.detach(), gradient[there].float()
    exact = found[torch.float32, False]
    for place, own in enumerate(exact):
        assert torch.equal(own, found[torch.float32, True][place])
        errors = [(found[torch.bfloat16, quick][place] - own).norm() / own.norm() for quick in (False, True)]
        assert 0 < errors[1] < 1.5 * errors[0] < 0.2
