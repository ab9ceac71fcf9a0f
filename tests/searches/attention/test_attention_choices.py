"""What the choices of grammars compute, against loops over tokens that follow the equations."""

from typing import Any

import pytest
import torch
from searches.attention.attention_genomes import COEFFICIENTS, HEADS, REGRESSION, attention, close, inputs
from torch import Tensor


def reference(alpha: Any, length: int) -> Tensor:
    """Rows `alpha(i)` [B, H, i + 1] as one matrix."""
    rows = [torch.nn.functional.pad(alpha(i), (0, length - 1 - i)) for i in range(length)]
    return torch.stack(rows, dim=2)


def test_rotary_scores_know_distances_alone() -> None:
    module = attention(COEFFICIENTS, position="rope")
    assert module.positions is False
    q, k, v, x = inputs(9)
    q, k, _ = module.prepare(q[:, :, :1].expand_as(q), k[:, :, :1].expand_as(k), v, x)
    scores = q @ k.transpose(-2, -1)
    close(scores[..., 3:, 3:], scores[..., :-3, :-3])
    assert (scores[..., 5, 0] - scores[..., 5, 5]).abs().min() > 1e-3


def test_a_forget_gate_multiplies_what_is_left() -> None:
    core = attention(COEFFICIENTS, evolution="gate").core
    q, k, _, x = inputs(9)
    kept = torch.sigmoid(core.forget(x)).transpose(1, 2)  # [B, H, T]

    def row(i: int) -> Tensor:
        left = torch.stack([kept[..., j + 1 : i + 1].prod(-1) for j in range(i + 1)], dim=-1)
        weights = (q[:, :, i, None] * k[:, :, : i + 1]).sum(-1).div(8**0.5).exp() * left
        shares: Tensor = weights / weights.sum(-1, keepdim=True)
        return shares

    close(core(q, k, x), reference(row, 9))


@pytest.mark.parametrize("evolution", ["delta", "channel"])
def test_keys_change_on_their_way(evolution: str) -> None:
    core = attention(COEFFICIENTS, evolution=evolution, kernel="poly", normaliser="count").core
    q, k, _, x = inputs(9)
    unit: Tensor = k / k.norm(dim=-1, keepdim=True)

    def moved(h: Tensor, i: int) -> Tensor:
        if evolution == "delta":
            step: Tensor = torch.sigmoid(core.step(x)).transpose(1, 2)[:, :, i, None]
            return h - step * unit[:, :, i] * (unit[:, :, i] * h).sum(-1, keepdim=True)
        pace: Tensor = torch.sigmoid(core.pace(x)).transpose(1, 2)[:, :, i, None]
        left: Tensor = (-0.25 * pace * torch.sigmoid(core.rate[:, 0])).exp()
        return h * left

    expected = torch.zeros(2, HEADS, 9, 9)
    for j in range(9):
        h = k[:, :, j]
        for i in range(j, 9):
            h = moved(h, i) if i > j else h
            expected[:, :, i, j] = (1 + (q[:, :, i] * h).sum(-1) / 8**0.5).square() / (i + 1)
    close(core(q, k, x), expected)


def test_normalisers_do_what_they_say() -> None:
    q, k, _, x = inputs(9)
    past = torch.ones(9, 9).tril()
    raw = (q @ k.transpose(-2, -1) / 8**0.5).exp() * past
    close(attention(COEFFICIENTS, normaliser="one-more").core(q, k, x), raw / (raw.sum(-1, keepdim=True) + 1))
    close(attention(COEFFICIENTS, normaliser="l2").core(q, k, x).square().sum(-1), torch.ones(2, HEADS, 9))
    half = attention(COEFFICIENTS, normaliser="count", kernel="sigmoid").core(q, k, x)
    close(half, torch.sigmoid(q @ k.transpose(-2, -1) / 8**0.5) * past / past.sum(-1, keepdim=True))


def test_windows_end() -> None:
    q, k, _, x = inputs(33)
    age = torch.arange(33)[:, None] - torch.arange(33)
    for window, seen in (("2", age < 2), ("16", age < 16), ("strided", (age < 4) | (age % 4 == 0))):
        alpha = attention(COEFFICIENTS, window=window).core(q, k, x)
        assert torch.equal(alpha > 0, ((age >= 0) & seen).expand_as(alpha))


@pytest.mark.parametrize("memory", ["none", "gate"])
def test_the_delta_rule_is_one_step_a_token(memory: str) -> None:
    core = attention(REGRESSION, map="delta", memory=memory, importance="token").core
    q, k, v, x = inputs(9)
    unit_q, unit_k = (z / z.norm(dim=-1, keepdim=True) for z in (q, k))
    rate = torch.sigmoid(core.importance(x)).transpose(1, 2)
    kept = torch.sigmoid(core.forget(x)).transpose(1, 2) if memory == "gate" else torch.ones(2, HEADS, 9)
    memory_map, answers = torch.zeros(2, HEADS, 8, 8), []
    for i in range(9):
        memory_map = kept[:, :, i, None, None] * memory_map
        error = v[:, :, i] - (memory_map @ unit_k[:, :, i, :, None])[..., 0]
        memory_map = memory_map + rate[:, :, i, None, None] * error[..., :, None] * unit_k[:, :, i, None, :]
        answers.append((memory_map @ unit_q[:, :, i, :, None])[..., 0])
    close(core(q, k, v, x), torch.stack(answers, dim=2))


@pytest.mark.parametrize("memory", ["none", "gate"])
def test_ridge_is_weighted_least_squares(memory: str) -> None:
    core = attention(REGRESSION, map="ridge", memory=memory, importance="token").core
    q, k, v, x = inputs(12)
    unit_q, unit_k = (z / z.norm(dim=-1, keepdim=True) for z in (q, k))
    worth = torch.sigmoid(core.importance(x)).transpose(1, 2)
    kept = torch.sigmoid(core.forget(x)).transpose(1, 2) if memory == "gate" else torch.ones(2, HEADS, 12)
    ridge = (torch.nn.functional.softplus(core.ridge) + 0.01)[:, None, None] * torch.eye(8)
    answers = []
    for i in range(12):
        left = torch.stack([kept[..., j + 1 : i + 1].prod(-1) for j in range(i + 1)], dim=-1) * worth[..., : i + 1]
        keys, values = unit_k[:, :, : i + 1], v[:, :, : i + 1]
        weighted = (left[..., None] * keys).transpose(-2, -1)
        fitted = torch.linalg.solve(weighted @ keys + ridge, weighted @ values)  # [B, H, d, d]
        answers.append((unit_q[:, :, i, None] @ fitted)[:, :, 0])
    close(core(q, k, v, x), torch.stack(answers, dim=2))


def test_means_by_distance() -> None:
    q, k, v, x = inputs(9)
    squared = (q[..., :, None, :] - k[..., None, :, :]).square().sum(-1)
    past = torch.ones(9, 9).tril()
    for name, weights in (("gauss", (-squared / 2 / 8**0.5).exp()), ("cauchy", 1 / (1 + squared / 8**0.5))):
        weights = weights * past
        close(attention(REGRESSION, map=name).core(q, k, v, x), weights @ v / weights.sum(-1, keepdim=True))


def test_local_linear_reads_a_weighted_line_at_the_query() -> None:
    core = attention(REGRESSION, map="local-linear").core
    q, k, v, x = inputs(9)
    along = (q / q.norm(dim=-1, keepdim=True)) @ k.transpose(-2, -1)
    answers = []
    for i in range(9):
        weights = (q[:, :, i, None] * k[:, :, : i + 1]).sum(-1).div(8**0.5).softmax(-1)[..., None]
        place, values = along[:, :, i, : i + 1, None], v[:, :, : i + 1]
        centre, mean = (weights * place).sum(2, keepdim=True), (weights * values).sum(2, keepdim=True)
        ridge = torch.nn.functional.softplus(core.ridge) + 0.01
        slope = (weights * (place - centre) * (values - mean)).sum(2) / (
            (weights * (place - centre).square()).sum(2) + ridge[..., 0]
        )
        answers.append(mean[:, :, 0] + slope * (q[:, :, i].norm(dim=-1, keepdim=True) - centre[:, :, 0]))
    close(core(q, k, v, x), torch.stack(answers, dim=2))


def test_two_passes_are_tukeys_twicing() -> None:
    q, _, v, x = inputs(9)
    once = attention(REGRESSION).core
    smoother = once(q, q, torch.eye(9).expand(2, HEADS, 9, 9), x)
    close(attention(REGRESSION, passes="two").core(q, q, v, x), (2 * smoother - smoother @ smoother) @ v)
