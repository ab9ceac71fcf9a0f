"""The Fisher of stacked adapters against dense models that answer one row at a time."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import tiny_host, tiny_population
from torch.nn import functional

from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population import passes
from evolora_core.lora.population.fisher import fishers_of
from evolora_core.lora.population.train import build_batch

SLOTS = np.array([3, 0, 1, 0, 3, 3, 0, 1, 3])


def random_rows(rows: Any, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)

    def draw(longest: int) -> Any:
        return rng.integers(8, 48, size=rng.integers(1, longest + 1)).tolist()

    return [draw(14) for _ in range(rows)], [draw(6) for _ in range(rows)]


def dense_layers(host: Any, population: Any, slot: int) -> Any:
    """A copy of the host with one slot's ΔW added to its weights, and its adapted layers."""
    model, adapter = copy.deepcopy(host.model), population.get(slot)
    layers = adapted_layers(model)
    for name, layer in layers.items():
        layer.weight.data += adapter.delta(name)
        layer.weight.requires_grad_()
    return model, layers


def log_likelihood(model: Any, prompt: Any, answer: Any) -> Any:
    logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
    return -functional.cross_entropy(logits, torch.tensor(answer), reduction="sum")


def dense_moments(host: Any, population: Any, slot: int, prompts: Any, answers: Any) -> Any:
    """Sums of xⱼ² and δᵢ² over all tokens but each row's last, by module."""
    model, layers = dense_layers(host, population, slot)
    inputs = {name: torch.zeros(layer.in_features) for name, layer in layers.items()}
    outputs = {name: torch.zeros(layer.out_features) for name, layer in layers.items()}
    for prompt, answer in zip(prompts, answers, strict=True):
        seen: dict[str, Any] = {}
        handles = [
            layer.register_forward_hook(lambda _, x, y, name=name, seen=seen: seen.update({name: (x[0].detach(), y)}))
            for name, layer in layers.items()
        ]
        value = log_likelihood(model, prompt, answer)
        gradients = torch.autograd.grad(value, [y for _, y in seen.values()])
        for (name, (x, _)), gradient in zip(seen.items(), gradients, strict=True):
            assert not gradient[0, -1].any()
            inputs[name] += x[0, :-1].square().sum(dim=0)
            outputs[name] += gradient[0].square().sum(dim=0)
        for handle in handles:
            handle.remove()
    return outputs, inputs


def same(fisher: Any, outputs: Any, inputs: Any) -> None:
    """Whether F is the product of these moments, divided by its norm over all modules."""
    norm = sum(outputs[n].square().sum() * inputs[n].square().sum() for n in outputs).sqrt()
    for name in outputs:
        expected = outputs[name][:, None] * inputs[name] / norm
        found = fisher.outputs[name][:, None] * fisher.inputs[name]
        torch.testing.assert_close(found.float(), expected, rtol=2e-3, atol=2e-6)


@pytest.mark.parametrize("pass_tokens", [4096, 40])
def test_it_is_that_of_dense_models_row_by_row(host: Any, monkeypatch: pytest.MonkeyPatch, pass_tokens: int) -> None:
    """Mixed slots of unlike rank and number of rows, padded, in one pass and in many."""
    monkeypatch.setattr(passes, "CPU_TOKENS", pass_tokens)
    population = tiny_population(host, [8, 3, 1, 5])
    prompts, answers = random_rows(len(SLOTS))
    batch = build_batch(host, prompts, answers, SLOTS, np.ones(len(SLOTS)))
    found = fishers_of(host, population, batch)
    assert len(found) == 3
    for slot, fisher in zip((0, 1, 3), found, strict=True):
        assert fisher.norm() == pytest.approx(1.0)
        own = np.flatnonzero(slot == SLOTS)
        same(fisher, *dense_moments(host, population, slot, [prompts[i] for i in own], [answers[i] for i in own]))
    assert not any(layer._forward_hooks for layer in adapted_layers(host.model).values())


def test_of_one_prediction_it_is_exact(host: Any) -> None:
    """With one token before and one to predict, F is the square of the weights' gradient."""
    population = tiny_population(host, [4])
    (fisher,) = fishers_of(host, population, build_batch(host, [[9]], [[12]], [0], [1.0]))
    model, layers = dense_layers(host, population, 0)
    gradients = torch.autograd.grad(log_likelihood(model, [9], [12]), [layer.weight for layer in layers.values()])
    squares = {name: gradient.square() for name, gradient in zip(layers, gradients, strict=True)}
    total: Any = sum(square.square().sum() for square in squares.values())
    norm = total.sqrt()
    for name, square in squares.items():
        found = fisher.outputs[name][:, None] * fisher.inputs[name]
        torch.testing.assert_close(found.float(), square / norm, rtol=2e-3, atol=2e-6)


def test_short_memory_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """What was gathered before memory ran out does not count; nor does what is computed twice count twice."""
    host = tiny_host("qwen3")
    population = tiny_population(host, [4, 2])
    prompts, answers = random_rows(24)
    batch = build_batch(host, prompts, answers, np.arange(24) % 2, np.ones(24))
    expected = fishers_of(host, population, batch)

    def full(module: Any, arguments: Any, options: Any) -> None:
        if options["input_ids"].numel() > 64:
            torch.empty(2**60)  # more than any machine has

    hook = host.model.register_forward_pre_hook(full, with_kwargs=True)
    try:
        less = fishers_of(host, population, batch)
    finally:
        hook.remove()
    assert "out of memory: going on with" in caplog.text
    host.memory_plan.recompute = True
    twice = fishers_of(host, population, batch)
    for found in (less, twice):
        for own, one in zip(expected, found, strict=True):
            for name in own.outputs:
                torch.testing.assert_close(one.outputs[name], own.outputs[name], rtol=1e-4, atol=1e-12)
                torch.testing.assert_close(one.inputs[name], own.inputs[name], rtol=1e-4, atol=1e-12)


def test_one_that_is_not_finite_says_nothing_and_harms_no_other(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2])
    prompts, answers = random_rows(6)
    batch = build_batch(qwen, prompts, answers, np.arange(6) % 2, np.ones(6))
    sound = fishers_of(qwen, population, batch)[0]
    next(iter(population.B.values()))[1, 0, 0] = torch.nan
    first, broken = fishers_of(qwen, population, batch)
    for name, values in broken.outputs.items():
        assert (values == next(iter(broken.outputs.values()))[0]).all() and (broken.inputs[name] == 1).all()
        assert torch.equal(first.outputs[name], sound.outputs[name])
    assert broken.norm() == pytest.approx(1.0)
