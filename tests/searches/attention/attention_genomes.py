"""Genomes, and modules of them, for the tests of the grammar."""

from typing import Any

import torch
from searches.attention.attention_programs import loaded
from torch import Tensor

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.grammar import vary
from evolora_core.searches.attention.grammar.genes import Grammar
from evolora_core.searches.attention.grammar.registry import get_grammar

COEFFICIENTS, REGRESSION, MIXER = "coefficient-dynamics", "test-time-regression", "matrix-mixer"
DIM, HEADS = 16, 2


def single(grammar: Grammar) -> list[dict[str, str]]:
    """Every genome that differs from the baseline in one gene."""
    genes = grammar.genes
    return [grammar.baseline() | {gene.name: choice} for gene in genes for choice in gene.choices[1:]]


def drawn(grammar: Grammar, count: int) -> list[dict[str, str]]:
    return [vary.draw(grammar, stream(0, 0, number, "genomes")) for number in range(count)]


def attention(framework: str, **changes: str) -> Any:
    """A module of the baseline's genome with some choices changed; `_` stands for the hyphen."""
    grammar = get_grammar(framework)
    changed = {name.replace("_", "-"): choice for name, choice in changes.items()}
    torch.manual_seed(0)
    return loaded(grammar.program(grammar.baseline() | changed))(DIM, HEADS)


def inputs(length: int, rows: int = 2, seed: int = 1) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """q, k, v [B, H, T, d] and x [B, T, D]."""
    draws = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, rows, HEADS, length, DIM // HEADS, generator=draws)
    return q, k, v, torch.randn(rows, length, DIM, generator=draws)


def close(left: Tensor, right: Tensor) -> None:
    torch.testing.assert_close(left, right, atol=2e-5, rtol=2e-5)
