"""What every program of a grammar must be: well written, causal, finite, trainable, and what its choices say."""

import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from searches.attention.attention_genomes import (
    COEFFICIENTS,
    DIM,
    HEADS,
    MIXER,
    REGRESSION,
    attention,
    close,
    drawn,
    inputs,
    single,
)
from searches.attention.attention_programs import loaded
from torch import Tensor

from evolora_core.errors import ConfigError
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.grammar.genes import genome_json
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.programs.block import check_outside
from evolora_core.searches.attention.programs.normal import program_id
from evolora_core.searches.attention.programs.static import check_syntax

NAMES = list(FRAMEWORKS)


# Texts


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_is_the_template(name: str) -> None:
    grammar = get_grammar(name)
    assert math.prod(len(gene.choices) for gene in grammar.genes) >= 5000
    assert grammar.program(grammar.baseline()) == FRAMEWORKS[name].source


@pytest.mark.parametrize("name", NAMES)
def test_programs_stay_in_their_block_and_are_all_different(name: str) -> None:
    grammar = get_grammar(name)
    genomes = [grammar.baseline(), *single(grammar), *drawn(grammar, 20)]
    for genome in genomes:
        text = grammar.program(genome)
        check_outside(text, FRAMEWORKS[name])
        check_syntax(text)
        assert text == grammar.program(dict(reversed(genome.items())))
    assert len({program_id(grammar.program(genome)) for genome in genomes}) == len(genomes)


def test_programs_are_written_as_the_house_writes(tmp_path: Path) -> None:
    for name in NAMES:
        grammar = get_grammar(name)
        for number, genome in enumerate([*single(grammar), *drawn(grammar, 20)]):
            (tmp_path / f"{name}_{number}.py").write_text(grammar.program(genome), encoding="utf-8")
    ruff = [sys.executable, "-m", "ruff"]
    more = ["--no-cache", "--isolated", "--line-length", "120", str(tmp_path)]
    for command in (["format", "--check"], ["check", "--select", "E,W,F8"]):
        done = subprocess.run([*ruff, *command, *more], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


def test_the_table_has_576_programs() -> None:
    genomes: list[dict[str, str]] = [{}]
    for gene in TABLE.genes:
        genomes = [genome | {gene.name: choice} for genome in genomes for choice in gene.choices]
    assert len({TABLE.program(genome) for genome in genomes}) == 576
    assert TABLE.program(TABLE.baseline()) == FRAMEWORKS[COEFFICIENTS].source


def test_what_is_no_genome_is_refused_in_one_line() -> None:
    grammar = get_grammar(COEFFICIENTS)
    for change, words in (({"kernal": "exp"}, "no gene 'kernal'"), ({"kernel": "cosine"}, "'cosine' is none of exp")):
        with pytest.raises(ConfigError, match=words):
            grammar.program(grammar.baseline() | change)
    with pytest.raises(ConfigError, match="'kernel' is missing; choose one of exp, relu2"):
        grammar.program({name: choice for name, choice in grammar.baseline().items() if name != "kernel"})
    assert genome_json({"b": "2", "a": "1"}) == genome_json({"a": "1", "b": "2"}) == '{"a":"1","b":"2"}'


# Every program


def modules(name: str) -> Iterator[tuple[dict[str, str], Any]]:
    """Every single change and 40 random genomes, each with its module."""
    grammar = get_grammar(name)
    for genome in [*single(grammar), *drawn(grammar, 40)]:
        torch.manual_seed(0)
        yield genome, loaded(grammar.program(genome))(DIM, HEADS)


@pytest.mark.parametrize("name", NAMES)
def test_every_program_is_causal_finite_and_trainable(name: str) -> None:
    for genome, module in modules(name):
        for length in (7, 33):
            draws = torch.Generator().manual_seed(length)
            x = torch.randn(3, length, DIM, generator=draws, requires_grad=True)
            y = module(x)
            assert y.shape == x.shape and y.isfinite().all(), genome
            torch.testing.assert_close(module(x[:, :5]), y[:, :5], atol=1e-5, rtol=0)
            other = torch.cat([x[:, :5], 3 * torch.randn(3, length - 5, DIM, generator=draws)], dim=1)
            assert torch.equal(module(other)[:, :5], y[:, :5]), genome
            torch.testing.assert_close(module(x.flip(0)), y.flip(0), atol=1e-6, rtol=0)
            module.zero_grad()
            (y * torch.randn(y.shape, generator=draws)).sum().backward()
            for own, parameter in [("x", x), *module.named_parameters()]:
                assert parameter.grad.isfinite().all() and parameter.grad.abs().max() > 0, (genome, own)


@pytest.mark.parametrize("name", NAMES)
def test_programs_stay_finite_at_length_and_with_large_inputs(name: str) -> None:
    grammar = get_grammar(name)
    for genome in single(grammar):
        module = loaded(grammar.program(genome))(DIM, HEADS)
        x = (30 * torch.randn(1, 300, DIM, generator=torch.Generator().manual_seed(0))).requires_grad_()
        y = module(x)
        y.square().mean().backward()
        assert y.isfinite().all() and x.grad is not None and x.grad.isfinite().all(), genome


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (COEFFICIENTS, {"local": "conv"}),
        (COEFFICIENTS, {"evolution": "distance"}),
        (COEFFICIENTS, {"scale": "head"}),
        (COEFFICIENTS, {"heads": "talking"}),
        (REGRESSION, {"sharpness": "head"}),
        (MIXER, {"look": "conv"}),
        (MIXER, {"blend": "toeplitz"}),
        (MIXER, {"local": "conv"}),
    ],
)
def test_what_is_learned_from_nothing_starts_as_the_baseline(name: str, change: dict[str, str]) -> None:
    x = inputs(9)[3]
    close(attention(name, **change)(x), attention(name)(x))


@pytest.mark.parametrize("name", NAMES)
def test_handicaps_are_nearly_blind(name: str) -> None:
    """Nine tenths of what they return is a token's own value or the average of all before."""
    x = inputs(9)[3]
    for blend in ("mostly-self", "mostly-average"):
        module = attention(name, blend=blend)
        values = module.split(module.value(x))
        if blend == "mostly-average":
            values = values.cumsum(2) / torch.arange(1.0, 10.0)[:, None]
        baseline = attention(name)
        seen: list[Tensor] = []
        baseline.finish.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0]))
        module.finish.register_forward_pre_hook(lambda _, given, seen=seen: seen.append(given[0]))
        baseline(x)
        module(x)
        close(seen[1], 0.1 * seen[0] + 0.9 * values)


def test_weights_of_the_delta_rule_are_bounded_where_their_sum_is_not() -> None:
    """What the delta rule leaves of a token can be negative, with features above zero too: no plain sum divides it."""
    for normaliser in ("sum", "one-more"):
        mechanism = attention(COEFFICIENTS, kernel="elu", evolution="delta", normaliser=normaliser)
        q, k, _, x = inputs(24)
        alpha = mechanism.core(3 * q, 3 * k, x)
        assert (alpha < 0).any() and alpha.abs().sum(-1).max() <= 1 + 1e-4


def test_both_halves_of_the_channels_see_distances() -> None:
    """Of tokens that are all alike, rotary positions leave the distance alone to tell: also where heads are halved."""
    mechanism = attention(COEFFICIENTS, difference="half", position="rope")
    x = torch.randn(1, 1, DIM, generator=torch.Generator().manual_seed(0)).expand(1, 12, DIM)
    seen: list[Tensor] = []
    weigh = mechanism.core.weights

    def weights(q: Tensor, k: Tensor, x: Tensor) -> Any:
        seen.append(q @ k.transpose(-2, -1))
        return weigh(q, k, x)

    mechanism.core.weights = weights
    mechanism(x)
    assert len(seen) == 2
    for scores in seen:
        for distance in range(12):
            along = scores.diagonal(-distance, -2, -1)
            assert (along - along[..., :1]).abs().max() < 1e-5
        assert (scores[..., 6, :6] - scores[..., 6, 6:7]).abs().max() > 1e-3
