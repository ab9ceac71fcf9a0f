"""Clipped policy-gradient steps on sampled answers, against PEFT and an independent loop over rows and tokens."""

import copy
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import sampled_answers, tiny_host, tiny_population

from evolora_core.engine import rng
from evolora_core.lora.population import passes
from evolora_core.lora.population.generate import Sampled, generate
from evolora_core.lora.population.samples import logprobs_of_host, sampled_batch
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.surrogate import Surrogate, divergence
from evolora_core.lora.population.train import IGNORED, StackedAdamW, gradients_of, train_step

SLOTS = np.array([2, 0, 1, 0, 2, 2, 1, 0])
HEAT = np.array([0.7, 1.3, 1.0])[SLOTS]  # of their slots
ADVANTAGES = np.array([0.75, -0.25, 0.5, 0.5, -0.25, -0.5, -0.5, 0.25])


def sample(host: Any, population: Any, slots: Any = SLOTS, heat: Any = HEAT) -> Any:
    return sampled_answers(host, population, slots, heat)


def logprobs(model: Any, prompt: Any, sampled: Any, heat: Any) -> Any:
    """Of every sampled token, one row at a time, without padding or cache."""
    tokens = torch.tensor([[*prompt, *sampled.tokens]])
    logits = model(input_ids=tokens).logits[0, len(prompt) - 1 : -1].float() / heat
    return logits.log_softmax(dim=1)[torch.arange(len(sampled.tokens)), torch.tensor(sampled.tokens)]


def gradients(model: Any) -> Any:
    """Of a PEFT model's factors by module and factor."""
    return {
        name.replace("base_model.model.", "").replace(".default.weight", ""): parameter.grad
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def assert_same_gradients(population: Any, slot: int, gradient: Any, model: Any) -> None:
    rank = int(population.ranks[slot])
    found = population.factors(gradient[None])
    expected = gradients(model)
    assert len(expected) == 2 * len(found)
    for name, (A, B) in found.items():
        torch.testing.assert_close(A[0, :rank], expected[f"{name}.lora_A"], atol=1e-5, rtol=1e-3)
        torch.testing.assert_close(B[0, :, :rank], expected[f"{name}.lora_B"], atol=1e-5, rtol=1e-3)


def test_the_sampled_tokens_are_all_there_with_their_probability_at_the_temperature(
    host: Any, population: Any, as_peft: Any
) -> None:
    prompts, answers = sample(host, population)
    ended = 0
    for slot, heat, prompt, answer in zip(SLOTS, HEAT, prompts, answers, strict=True):
        assert len(answer.sampled.tokens) == answer.new_tokens == len(answer.sampled.logprobs)
        assert list(answer.sampled.tokens[: len(answer.tokens)]) == answer.tokens
        ended += len(answer.sampled.tokens) > len(answer.tokens)
        assert all(token in host.eos_ids for token in answer.sampled.tokens[len(answer.tokens) :])
        with torch.no_grad():
            expected = logprobs(as_peft(host, population, slot), prompt, answer.sampled, heat)
        torch.testing.assert_close(torch.tensor(answer.sampled.logprobs), expected, atol=1e-4, rtol=1e-4)
    assert 0 < ended < len(answers)


def test_asking_for_what_was_sampled_changes_no_answer(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    prompts, answers = sample(qwen, population)
    options = {"max_new_tokens": 7, "temperatures": HEAT.tolist(), "keys": rng.row_keys(1, len(SLOTS))}
    plain = generate(qwen, population, prompts, SLOTS, **options)
    assert [(a.tokens, a.finished) for a in plain] == [(a.tokens, a.finished) for a in answers]
    assert all(answer.sampled is None for answer in plain)


@pytest.mark.parametrize("pass_tokens", [4096, 30])
def test_the_first_step_is_the_plain_policy_gradient(
    host: Any, population: Any, as_peft: Any, monkeypatch: pytest.MonkeyPatch, pass_tokens: int
) -> None:
    """Ratio 1 and no KL: the gradient of -Σ advantage · log π over all tokens, divided by their number."""
    monkeypatch.setattr(passes, "CPU_TOKENS", pass_tokens)
    prompts, answers = sample(host, population)
    sampled = [answer.sampled for answer in answers]
    batch = sampled_batch(host, prompts, sampled, SLOTS, HEAT, ADVANTAGES, clip=0.2, kl=0.0)
    present, losses, found = gradients_of(host, population, batch)
    assert present.tolist() == [0, 1, 2]
    for slot, loss, gradient in zip(present.tolist(), losses, found, strict=True):
        model, own = as_peft(host, population, slot, trainable=True), np.flatnonzero(slot == SLOTS)
        count = sum(len(sampled[i].tokens) for i in own)
        expected = -sum(ADVANTAGES[i] * logprobs(model, prompts[i], sampled[i], HEAT[i]).sum() for i in own) / count
        expected.backward()
        # The value of the surrogate is the mean advantage of the tokens, its gradient that of the likelihood.
        mean = sum(ADVANTAGES[i] * len(sampled[i].tokens) for i in own) / count
        assert loss.item() == pytest.approx(-mean, abs=1e-4)
        assert_same_gradients(population, slot, gradient, model)


def test_off_the_policy_the_gradient_is_that_of_the_clipped_objective_with_kl(
    host: Any, population: Any, as_peft: Any
) -> None:
    """Old probabilities far from the present ones, so that tokens are clipped on both sides, and a weight on the KL."""
    prompts, answers = sample(host, population)
    draw = np.random.default_rng(5)
    sampled = [
        Sampled(own.tokens, tuple(np.array(own.logprobs) + draw.uniform(-0.5, 0.5, len(own.tokens))))
        for own in (answer.sampled for answer in answers)
    ]
    batch = sampled_batch(host, prompts, sampled, SLOTS, HEAT, ADVANTAGES, clip=0.2, kl=0.3)
    present, losses, found = gradients_of(host, population, batch)
    clipped = 0
    for slot, loss, gradient in zip(present.tolist(), losses, found, strict=True):
        model, own = as_peft(host, population, slot, trainable=True), np.flatnonzero(slot == SLOTS)
        expected: Any = 0.0
        count = 0
        for i in own:
            now = logprobs(model, prompts[i], sampled[i], HEAT[i])
            bare = logprobs(host.model, prompts[i], sampled[i], HEAT[i]).detach()
            for token, old in enumerate(sampled[i].logprobs):
                ratio = torch.exp(now[token] - old)
                bounded = min(max(ratio.item(), 0.8), 1.2)
                better = ratio.item() * ADVANTAGES[i] > bounded * ADVANTAGES[i]
                gain = ADVANTAGES[i] * (bounded if better else ratio)
                clipped += better
                k3 = torch.exp(bare[token] - now[token]) - 1 - (bare[token] - now[token])
                expected = expected - gain + 0.3 * k3
                count += 1
        (expected / count).backward()
        assert loss.item() == pytest.approx(expected.item() / count, abs=1e-4)
        assert_same_gradients(population, slot, gradient, model)
    assert clipped > 5


@pytest.mark.parametrize(
    ("advantage", "moved", "active"),
    [(1.0, 0.3, False), (1.0, -0.3, True), (-1.0, -0.3, False), (-1.0, 0.3, True), (1.0, 0.1, True)],
)
def test_nothing_pulls_a_token_further_than_the_clip(advantage: float, moved: float, active: bool) -> None:
    """`moved`: log ratio of the present policy to the sampling one. What went the wrong way is always pulled back."""
    now = torch.tensor([-1.0 + moved], requires_grad=True)
    row = torch.zeros(1, dtype=torch.long)
    surrogate = Surrogate(torch.tensor([advantage]), torch.ones(1), torch.tensor([[-1.0]]), None, 0.2, 0.0)
    surrogate.losses(now, row, row).sum().backward()
    assert bool(now.grad != 0) is active
    if active:
        assert now.grad is not None
        assert float(now.grad) == pytest.approx(-advantage * np.exp(moved), rel=1e-5)


def test_the_divergence_estimate_is_unbiased_and_never_negative() -> None:
    draw = torch.Generator().manual_seed(0)
    policy, reference = torch.randn(2, 30, generator=draw, dtype=torch.float64).log_softmax(dim=1)
    estimates = divergence(policy, reference)
    assert (estimates >= 0).all()
    exact = (policy.exp() * (policy - reference)).sum()
    assert float((policy.exp() * estimates).sum()) == pytest.approx(float(exact), rel=1e-9)


def test_a_fresh_adapter_is_at_no_distance_from_the_host_and_a_step_takes_it_away(qwen: Any) -> None:
    population = Population.empty(qwen, 1, 4)
    population.init_slot(0, 4, np.random.default_rng(0))
    slots, heat = np.zeros(8, dtype=int), np.full(8, 0.8)
    prompts, answers = sample(qwen, population, slots, heat)
    sampled = [answer.sampled for answer in answers]

    def distance() -> Any:
        batch = sampled_batch(qwen, prompts, sampled, slots, heat, np.zeros(8), clip=0.2, kl=1.0)
        _, losses, gradients = gradients_of(qwen, population, batch)
        return float(losses), float(gradients.norm())

    kl, pull = distance()
    assert abs(kl) < 1e-6 and pull < 1e-4
    batch = sampled_batch(qwen, prompts, sampled, slots, heat, ADVANTAGES, clip=0.2, kl=0.0)
    train_step(qwen, population, batch, StackedAdamW(population), torch.tensor([1e-2]), 1.0)
    kl, pull = distance()
    assert kl > 1e-4 and pull > 1e-3


def test_good_answers_become_likelier_and_bad_ones_less(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    prompts, answers = sample(qwen, population)
    sampled = [answer.sampled for answer in answers]
    batch = sampled_batch(qwen, prompts, sampled, SLOTS, HEAT, ADVANTAGES, clip=0.2, kl=0.01)
    optimizer, rates = StackedAdamW(population), torch.full((3,), 2e-3)
    before = gradients_of(qwen, population, batch)[1]
    for _ in range(4):
        losses = train_step(qwen, population, batch, optimizer, rates, 1.0)
    assert losses.isfinite().all() and (losses < before).all()


def test_impossible_answers_have_finite_gradients(qwen: Any) -> None:
    """The host is sure of something else, or the answer was next to impossible when it was sampled."""
    population = tiny_population(qwen, [4, 2, 8])
    prompts, answers = sample(qwen, population)
    for shift in (-300.0, 300.0):
        sampled = [Sampled(a.sampled.tokens, tuple(p + shift for p in a.sampled.logprobs)) for a in answers]
        batch = sampled_batch(qwen, prompts, sampled, SLOTS, HEAT, ADVANTAGES, clip=0.2, kl=1.0)
        assert batch.surrogate is not None and batch.surrogate.host is not None
        batch.surrogate.host.add_(shift)
        _, losses, gradients = gradients_of(qwen, population, batch)
        assert losses.isfinite().all() and gradients.isfinite().all()


def test_the_hosts_probabilities_stand_in_their_places(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    prompts, answers = sample(qwen, population)
    sampled = [answer.sampled for answer in answers]
    batch = sampled_batch(qwen, prompts, sampled, SLOTS, HEAT, ADVANTAGES, clip=0.2, kl=1.0)
    assert batch.surrogate is not None and batch.surrogate.host is not None
    again = logprobs_of_host(qwen, batch, batch.surrogate.temperatures)
    assert torch.equal(again, batch.surrogate.host)
    order = np.argsort(SLOTS, kind="stable")
    for place, row in enumerate(order):
        there = batch.labels[place] != IGNORED
        assert batch.ids[place, there].tolist() == list(sampled[row].tokens)
        with torch.no_grad():
            expected = logprobs(qwen.model, prompts[row], sampled[row], HEAT[row])
        torch.testing.assert_close(again[place, there], expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(batch.surrogate.old[place, there], torch.tensor(sampled[row].logprobs))
        assert not again[place, ~there].any()


def test_some_rows_of_a_batch_are_the_batch_of_those_rows(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    prompts, answers = sample(qwen, population)
    sampled = [answer.sampled for answer in answers]

    def make(rows: np.ndarray) -> Any:
        return sampled_batch(
            qwen,
            [prompts[i] for i in rows],
            [sampled[i] for i in rows],
            SLOTS[rows],
            HEAT[rows],
            ADVANTAGES[rows],
            clip=0.2,
            kl=0.5,
        )

    whole, places = make(np.arange(len(SLOTS))), np.array([0, 3, 3, 6])
    part = whole.take(places)
    expected = make(np.argsort(SLOTS, kind="stable")[places])
    assert (part.lengths == expected.lengths).all() and (part.answer_lengths == expected.answer_lengths).all()
    for mine, other in zip(gradients_of(qwen, population, part), gradients_of(qwen, population, expected), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-6, rtol=1e-4)


def test_the_host_is_as_it_was(qwen: Any) -> None:
    before = copy.deepcopy(qwen.model.state_dict())
    population = tiny_population(qwen, [4, 2, 8])
    prompts, answers = sample(qwen, population)
    sampled_batch(qwen, prompts, [a.sampled for a in answers], SLOTS, HEAT, ADVANTAGES, clip=0.2, kl=1.0)
    assert all(torch.equal(value, before[name]) for name, value in qwen.model.state_dict().items())


def test_tiny_hosts_have_answers_of_unlike_length() -> None:
    """Without them the tests above would not see the padding."""
    host = tiny_host("qwen3")
    _, answers = sample(host, tiny_population(host, [4, 2, 8]))
    assert len({answer.new_tokens for answer in answers}) > 2
