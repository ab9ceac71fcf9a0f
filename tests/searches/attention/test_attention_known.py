"""Every known mechanism is causal, finite, trainable and of the baseline's size."""

import pytest
import torch
from searches.attention.attention_programs import known

from evolora_core.errors import ConfigError
from evolora_core.searches.attention.host.model import build
from evolora_core.searches.attention.host.sizes import SIZES, Size, non_embedding
from evolora_core.searches.attention.host.training import TrainSpec, loss_of, train
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN, get_known

LIKE_THE_BASELINE = [name for name in KNOWN if name not in ("gqa", "mla", "gated-deltanet", "uniform", "window-1")]


def test_every_file_has_its_entry_and_the_other_way_round() -> None:
    folder = KNOWN[BASELINE].path.parent
    assert {known.path for known in KNOWN.values()} == set(folder.glob("*.py")) - {folder / "__init__.py"}
    assert next(iter(KNOWN)) == BASELINE
    assert [name for name, known in KNOWN.items() if known.negative] == ["uniform", "window-1"]


def test_an_unknown_name_names_the_nearest() -> None:
    assert get_known("rope") is KNOWN["rope"]
    with pytest.raises(ConfigError, match="did you mean 'gated-deltanet'"):
        get_known("gated_deltanet")
    with pytest.raises(ConfigError, match="there are mha, gqa"):
        get_known("zzz")


@pytest.mark.parametrize("size", [SIZES["xs"], SIZES["m"]], ids=lambda size: size.name)
@pytest.mark.parametrize("name", KNOWN)
def test_it_sees_the_past_alone(name: str, size: Size) -> None:
    """What comes later changes no bit of what came before, nor does cutting it off, at lengths that divide nothing."""
    module = known(name)(size.dim, size.heads).eval()
    for length, cut in ((7, 3), (67, 30)):
        x = torch.randn(3, length, size.dim)
        y = module(x)
        assert y.shape == x.shape and bool(y.isfinite().all())
        other = x.clone()
        other[:, cut:] = 3 * torch.randn_like(other[:, cut:])
        assert torch.equal(module(other)[:, :cut], y[:, :cut])
        assert torch.allclose(module(x[:, :cut]), y[:, :cut], atol=1e-5)
        assert torch.allclose(module(x.flip(0)), y.flip(0), atol=1e-5)
    assert module(x[:, :1]).shape == (3, 1, size.dim)


@pytest.mark.parametrize("name", KNOWN)
def test_the_loss_falls_and_every_parameter_has_a_share(name: str) -> None:
    torch.manual_seed(0)
    model = build(known(name), SIZES["s"], 20, seed=0)
    examples = (torch.arange(30)[:, None] * 7 + 3 * torch.arange(13)) % 4  # 4 of the 20 symbols that there are
    loss_of(model, examples[:8]).backward()
    for part, parameter in model.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.isfinite().all()), part
        assert bool((parameter.grad != 0).any()), part
    losses = train(model, examples, TrainSpec(20, 8, 12, 1e-2, 2), seed=0)
    assert losses[-1] < losses[0] - 1


@pytest.mark.parametrize("name", KNOWN)
def test_it_is_not_larger_than_a_program_may_be(name: str) -> None:
    for size in (SIZES["xs"], SIZES["xl"]):
        ours, baseline = (non_embedding(build(known(found), size, 20, 0)) for found in (name, BASELINE))
        assert ours <= 1.1 * baseline


@pytest.mark.parametrize("name", LIKE_THE_BASELINE)
def test_it_starts_with_the_baselines_projections(name: str) -> None:
    ours, baseline = (build(known(found), SIZES["s"], 20, 5) for found in (name, BASELINE))
    for part in ("value", "out", "query", "key"):
        one, other = (model.get_parameter(f"blocks.1.attention.{part}.weight") for model in (ours, baseline))
        assert torch.equal(one, other)


def test_the_heads_of_gated_deltanet_begin_with_the_memories_of_its_authors() -> None:
    module = known("gated-deltanet")(256, 64)
    speed, step = module.log_speed.detach().exp(), torch.nn.functional.softplus(module.fade.bias.detach())
    assert 0.01 <= float(speed.min()) < 4 and 12 < float(speed.max()) <= 16
    assert 0.00099 < float(step.min()) < 0.003 and 0.03 < float(step.max()) <= 0.1001


def test_negatives_do_what_they_say() -> None:
    x = torch.randn(1, 9, 16)
    alone = known("window-1")(16, 2)
    assert torch.allclose(alone(x)[:, 4], alone(x[:, 4:5])[:, 0], atol=1e-6)
    mean = known("uniform")(16, 2)
    shuffled = x[:, [3, 1, 0, 2, 4, 5, 6, 7, 8]]
    assert torch.allclose(mean(x)[:, 3:], mean(shuffled)[:, 3:], atol=1e-5)


def test_mechanisms_with_positions_of_their_own_tell_order() -> None:
    """Without the host's positions, the order of the past matters; not to a first layer of NoPE."""
    x = torch.randn(1, 9, 32)
    shuffled = x[:, [3, 1, 0, 2, 4, 5, 6, 7, 8]]
    for name in KNOWN:
        if getattr(known(name), "positions", True):
            continue
        module = known(name)(32, 4)
        same = torch.allclose(module(x)[:, -1], module(shuffled)[:, -1], atol=1e-5)
        assert same == (name == "nope"), name
