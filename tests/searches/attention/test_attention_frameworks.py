"""The templates are one mechanism written in three ways, and only their block is open."""

import ast

import pytest
import torch
from searches.attention.attention_programs import known, loaded

from evolora_core.errors import ConfigError
from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS, get_framework
from evolora_core.searches.attention.host.model import build
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.programs.block import block_of, check_outside, with_block
from evolora_core.searches.attention.programs.static import check_syntax


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_all_searches_start_equal(name: str) -> None:
    """From one seed, a template draws the baseline's parameters and computes its function, bit for bit."""
    tokens = torch.arange(3 * 21).view(3, 21) % 50
    ours = build(loaded(FRAMEWORKS[name].source), SIZES["m"], 50, seed=4)
    baseline = build(known("mha"), SIZES["m"], 50, seed=4)
    assert torch.equal(ours(tokens), baseline(tokens))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in baseline.parameters())


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_the_slots_stand_in_the_block_and_nothing_else_does(framework: Framework) -> None:
    source = framework.source
    inside = [node.name for node in ast.parse(block_of(source)).body if isinstance(node, ast.ClassDef)]
    classes = [node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    assert inside == list(framework.slots)
    assert [name for name in classes if name not in inside] == ["Attention"]


@pytest.mark.parametrize("framework", FRAMEWORKS.values(), ids=FRAMEWORKS)
def test_a_template_passes_the_checks_of_its_text(framework: Framework) -> None:
    source = framework.source
    check_syntax(source)
    check_outside(source, framework)
    assert with_block(framework, block_of(source)) == source
    assert len(source) < 6000  # proposers see it whole


def test_the_fixed_part_keeps_the_future_out_of_coefficients_and_mixers() -> None:
    """Coefficients for tokens to come are cut off, whatever they are."""
    x, other = torch.randn(2, 9, 16), torch.randn(2, 9, 16)
    other[:, :5] = x[:, :5]
    for name, core in (
        ("coefficient-dynamics", "class Coefficients"),
        ("matrix-mixer", "class Mixer"),
    ):
        source = FRAMEWORKS[name].source
        softmax = 'F.softmax(scores.masked_fill(future, float("-inf")), dim=-1)'
        open_core = source[source.index(core) :].replace(softmax, "torch.sigmoid(scores)")
        module = loaded(source[: source.index(core)] + open_core)(16, 2)
        assert torch.equal(module(x)[:, :5], module(other)[:, :5])
        assert not torch.equal(module(x)[:, 5:], module(other)[:, 5:])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_program_of_each_framework_can_do_without_the_positions_of_the_host(name: str) -> None:
    source = FRAMEWORKS[name].source
    without = source.replace("class Prepare(nn.Module):\n", "class Prepare(nn.Module):\n    positions = False\n\n")
    assert loaded(source).positions is True
    assert loaded(without).positions is False
    check_outside(without, FRAMEWORKS[name])


def test_an_unknown_framework_names_the_nearest() -> None:
    assert get_framework("matrix-mixer") is FRAMEWORKS["matrix-mixer"]
    with pytest.raises(ConfigError, match="did you mean 'matrix-mixer'"):
        get_framework("matrix-mixr")
    with pytest.raises(ConfigError, match="there are coefficient-dynamics, "):
        get_framework("zzz")
