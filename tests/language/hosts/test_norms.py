import copy
from typing import Any

import torch
from tiny_models import tiny_model

from evolora_core.language.hosts.norms import RmsNorm, quicken_norms


def test_a_quick_norm_gives_the_same_and_has_the_same_gradient() -> None:
    model = tiny_model("qwen3")
    norm = model.model.norm
    plain = copy.deepcopy(norm)
    quicken_norms(model)
    x = torch.randn(3, 5, 32, requires_grad=True)
    given = torch.randn(3, 5, 32)
    assert type(norm) is not type(plain) and isinstance(norm, type(plain))
    found, expected = norm(x), plain(x)
    assert type(found.grad_fn) is not type(expected.grad_fn)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(*(torch.autograd.grad(y, x, given)[0] for y in (found, expected)))
    with torch.no_grad():
        assert torch.equal(norm(x), plain(x))
    inputs: Any = (torch.randn(2, 6, dtype=torch.float64, requires_grad=True), torch.randn(6).double(), 1e-6)
    assert torch.autograd.gradcheck(RmsNorm.apply, inputs)
    copied = copy.deepcopy(model)
    assert type(copied.model.norm) is type(norm) and copied.model.norm is not norm


def test_norms_of_another_form_stay_as_they_are() -> None:
    model = tiny_model("gemma3")
    before = type(model.model.norm)
    quicken_norms(model)
    assert type(model.model.norm) is before
