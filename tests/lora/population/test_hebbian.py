"""Three-factor steps against a loop over rows and tokens, and against the gradient that they do without."""

import copy
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from tiny_models import sampled_answers, tiny_host, tiny_population
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM

from evolora_core.errors import ConfigError
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population import passes
from evolora_core.lora.population.generate import Sampled
from evolora_core.lora.population.hebbian import hebbian_flops, hebbian_step, hebbian_updates, writers
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import build_batch, gradients_of

SLOTS = np.array([2, 0, 1, 0, 2, 2, 1, 0])
BY_SLOT = torch.tensor([0.7, 1.3, 1.0])  # temperatures
FACTORS = np.array([0.75, -0.25, 0.5, 0.5, -0.25, -0.5, -0.5, 0.25])  # reward less baseline, of the rows
RATES = torch.tensor([0.1, 0.2, 0.3])


def test_a_host_whose_writers_have_other_names_is_refused() -> None:
    shape = AutoConfig.for_model(
        "gpt_neox", vocab_size=48, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2
    )
    host: Any = SimpleNamespace(model=AutoModelForCausalLM.from_config(shape))
    with pytest.raises(ConfigError, match=r"ecology.plasticity.rule: hebbian .* no o_proj or down_proj"):
        writers(host)


def lessons(host: Any, population: Any, factors: Any = FACTORS) -> Any:
    prompts, answers = sampled_answers(host, population, SLOTS, BY_SLOT[SLOTS].numpy())
    tokens = [list(cast(Sampled, answer.sampled).tokens) for answer in answers]
    return prompts, tokens, build_batch(host, prompts, tokens, SLOTS, factors)


@pytest.mark.parametrize("pass_tokens", [4096, 30])
def test_the_update_is_that_of_a_loop_over_rows_and_tokens(
    host: Any, population: Any, as_peft: Any, monkeypatch: pytest.MonkeyPatch, pass_tokens: int
) -> None:
    monkeypatch.setattr(passes, "CPU_TOKENS", pass_tokens)
    prompts, tokens, batch = lessons(host, population)
    present, updates = hebbian_updates(host, population, batch, BY_SLOT, 0.6)
    assert present.tolist() == [0, 1, 2] and set(updates) == set(writers(host))
    head = host.model.get_output_embeddings().weight
    for number, slot in enumerate(present.tolist()):
        model, adapter = as_peft(host, population, slot), population.get(slot)
        seen: dict[str, Any] = {}
        for name, module in model.named_modules():
            if name.endswith(("o_proj", "down_proj")):
                own = name.removeprefix("base_model.model.")
                module.register_forward_pre_hook(lambda _, args, own=own, seen=seen: seen.update({own: args[0][0]}))
        expected = {name: torch.zeros(population.shapes[name][0], adapter.rank) for name in updates}
        count = sum(len(tokens[row]) for row in np.flatnonzero(slot == SLOTS))
        for row in np.flatnonzero(slot == SLOTS):
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([prompts[row] + tokens[row]])).logits[0]
            trace: dict[str, Any] = dict.fromkeys(updates, 0.0)
            for step, token in enumerate(tokens[row]):
                place = len(prompts[row]) - 1 + step
                error = -torch.softmax(logits[place] / BY_SLOT[slot], dim=0)
                error[token] += 1
                post = error @ head / BY_SLOT[slot]
                for name in updates:
                    trace[name] = 0.6 * trace[name] + adapter.A[name] @ seen[name][place]
                    expected[name] += FACTORS[row] / count * torch.outer(post, trace[name])
        for name, update in updates.items():
            torch.testing.assert_close(update[number, :, : adapter.rank], expected[name], atol=1e-5, rtol=1e-3)
            assert not update[number, :, adapter.rank :].any()


def test_a_reward_that_was_expected_changes_nothing(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    before = population.weights.clone()
    batch = lessons(qwen, population, np.zeros(len(SLOTS)))[2]
    norms = hebbian_step(qwen, population, batch, RATES, BY_SLOT, 1.0, 0.5)
    assert norms.tolist() == [0.0, 0.0, 0.0]
    assert torch.equal(population.weights, before)


def test_only_b_of_the_writers_changes_by_rate_and_at_most_the_cap(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    batch = lessons(qwen, population)[2]
    _, updates = hebbian_updates(qwen, population, batch, BY_SLOT, 0.5)
    sizes = torch.stack([update.square().sum(dim=(1, 2)) for update in updates.values()]).sum(dim=0).sqrt()
    cap = float(sizes.sort().values[1])  # of three, the largest is cut and the smallest not
    before = copy.deepcopy(population)
    norms = hebbian_step(qwen, population, batch, RATES, BY_SLOT, cap, 0.5)
    torch.testing.assert_close(norms, sizes)
    change = torch.zeros(3)
    for name in population.shapes:
        assert torch.equal(population.A[name], before.A[name])
        moved = population.B[name] - before.B[name]
        assert bool(moved.any()) == (name in updates)
        change += moved.square().sum(dim=(1, 2))
    torch.testing.assert_close(change.sqrt(), RATES * sizes.clamp(max=cap), atol=1e-5, rtol=1e-3)
    assert not population.weights[~population.rank_mask()].any()


def test_the_update_climbs_what_the_gradient_climbs(host: Any) -> None:
    """In the last layer, without a trace: there only the final norm stands between the error and the module's output.
    Over all modules it still climbs.
    """
    population = tiny_population(host, [4, 2, 8], strength=0.01)
    batch = lessons(host, population)[2]
    present, updates = hebbian_updates(host, population, batch, torch.ones(3), 0.0)
    gradients = population.factors(gradients_of(host, population, batch)[2])
    last = list(updates)[-1]
    assert last.endswith("down_proj")
    for slot in present.tolist():
        along = {name: -(update[slot] * gradients[name][1][slot]).sum() for name, update in updates.items()}
        assert along[last] > 0.8 * updates[last][slot].norm() * gradients[last][1][slot].norm()
        assert sum(along.values()) > 0


def test_a_broken_organelle_stays_as_it_is_and_the_others_learn(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    batch = lessons(qwen, population)[2]
    alone = copy.deepcopy(population)
    hebbian_step(qwen, alone, batch, RATES, BY_SLOT, 1.0, 0.5)
    population.B[writers(qwen)[0]][1, 0, 0] = torch.nan
    broken = population.weights[1].clone()
    norms = hebbian_step(qwen, population, batch, RATES, BY_SLOT, 1.0, 0.5)
    assert norms.isnan().tolist() == [False, True, False]
    assert torch.equal(population.weights[1].nan_to_num(), broken.nan_to_num())
    torch.testing.assert_close(population.weights[[0, 2]], alone.weights[[0, 2]])


def test_a_fresh_adapter_learns_and_nothing_is_left_on_the_host(qwen: Any) -> None:
    population = Population.empty(qwen, 3, 4)
    for slot in range(3):
        population.init_slot(slot, 4, np.random.default_rng(slot))
    batch = lessons(qwen, population)[2]
    hebbian_step(qwen, population, batch, RATES, BY_SLOT, 1.0, 0.5)
    assert (population.delta_norms() > 0).all()
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in qwen.model.modules())


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_it_costs_what_the_counter_counts(architecture: str) -> None:
    host = tiny_host(architecture, hidden_size=64, intermediate_size=112, vocab_size=96)
    host.model.set_attn_implementation("eager")
    population = tiny_population(host, [8, 8])
    batch = build_batch(host, [[5] * 20] * 4, [[6] * 9] * 4, [0, 0, 1, 1], np.ones(4))
    in_place = {
        torch.ops.aten.addmm_: lambda y, a, b, **_: 2 * a[0] * a[1] * b[1],
        torch.ops.aten.baddbmm_: lambda y, a, b, **_: 2 * a[0] * a[1] * a[2] * b[2],
    }
    with FlopCounterMode(display=False, custom_mapping=in_place) as counter:
        hebbian_updates(host, population, batch, torch.ones(2), 0.5)
    flops = hebbian_flops(host, FlopModel.from_model(host.model), batch, np.full(4, 8))
    assert flops.sum() == pytest.approx(counter.get_total_flops(), rel=0.02)
