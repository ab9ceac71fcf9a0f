import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import VOCABULARY, host_of, odd_model, tiny_host, tiny_population
from torch.nn import functional

from evolora_core.errors import AdapterError
from evolora_core.lora.population import passes
from evolora_core.lora.population.train import StackedAdamW, build_batch, gradients_of, train_step

RATES = torch.tensor([3e-3, 1e-2, 3e-3, 2e-2])


def random_rows(rows: Any, seed: int = 0) -> Any:
    """Prompts, answers and weights of unlike length."""
    rng = np.random.default_rng(seed)

    def draw(longest: int) -> Any:
        return rng.integers(2, VOCABULARY, size=rng.integers(1, longest + 1)).tolist()

    return [draw(14) for _ in range(rows)], [draw(6) for _ in range(rows)], rng.uniform(0.2, 2.0, size=rows)


def peft_loss(model: Any, prompts: Any, answers: Any, weights: Any) -> Any:
    """Weighted mean token loss, one row at a time, without padding."""
    total = 0.0
    for prompt, answer, weight in zip(prompts, answers, weights, strict=True):
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
        total = total + weight * functional.cross_entropy(logits, torch.tensor(answer), reduction="sum")
    return total / sum(weight * len(answer) for weight, answer in zip(weights, answers, strict=True))


def peft_factors(model: Any) -> Any:
    """Trainable tensors of a PEFT model by the engine's names: (module, "A" or "B")."""
    found = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            module, _, factor = name.removesuffix(".default.weight").rpartition(".lora_")
            found[module.removeprefix("base_model.model."), factor] = parameter
    return found


def flat_views(population: Any, rows: Any) -> Any:
    """(module, "A" or "B") -> one slot's part of a flat row, cut to its rank."""
    return {
        (name, factor): tensor[0]
        for name, pair in population.factors(rows[None]).items()
        for factor, tensor in zip("AB", pair, strict=True)
    }


@pytest.mark.parametrize("pass_tokens", [4096, 40])
def test_gradients_are_those_of_peft(
    host: Any, population: Any, as_peft: Any, monkeypatch: pytest.MonkeyPatch, pass_tokens: int
) -> None:
    """Mixed slots of unlike rank and number of rows, in one pass and in many."""
    monkeypatch.setattr(passes, "CPU_TOKENS", pass_tokens)
    slots = np.array([3, 0, 1, 0, 3, 3, 0, 1, 3])
    prompts, answers, weights = random_rows(len(slots))
    present, losses, gradients = gradients_of(host, population, build_batch(host, prompts, answers, slots, weights))
    assert present.tolist() == [0, 1, 3]
    for slot, loss, gradient in zip(present.tolist(), losses, gradients, strict=True):
        model, own = as_peft(host, population, slot, trainable=True), np.flatnonzero(slots == slot)
        expected = peft_loss(model, [prompts[i] for i in own], [answers[i] for i in own], weights[own])
        expected.backward()
        assert loss.item() == pytest.approx(expected.item(), abs=1e-4)
        rank, mine = int(population.ranks[slot]), flat_views(population, gradient)
        for (name, factor), parameter in peft_factors(model).items():
            whole = mine[name, factor]
            cut = whole[:rank] if factor == "A" else whole[:, :rank]
            torch.testing.assert_close(cut, parameter.grad, atol=1e-4, rtol=1e-4)
            assert whole.count_nonzero() == cut.count_nonzero()


def test_a_model_that_adds_to_a_layers_output_in_place_can_learn(as_peft: Any) -> None:
    host = host_of(odd_model("falcon"), "falcon")
    population = tiny_population(host, [2])
    prompts, answers, weights = random_rows(12)  # long enough for W + ΔW
    slots = np.zeros(12, dtype=int)
    _, losses, gradients = gradients_of(host, population, build_batch(host, prompts, answers, slots, weights))
    model = as_peft(host, population, 0, trainable=True)
    expected = peft_loss(model, prompts, answers, weights)
    expected.backward()
    assert losses[0].item() == pytest.approx(expected.item(), abs=1e-4)
    mine = flat_views(population, gradients[0])
    for (name, factor), parameter in peft_factors(model).items():
        cut = mine[name, factor][:2] if factor == "A" else mine[name, factor][:, :2]
        torch.testing.assert_close(cut, parameter.grad, atol=1e-4, rtol=1e-4)


def test_steps_of_all_at_once_are_the_steps_of_each_with_peft_and_torch(
    host: Any, population: Any, as_peft: Any
) -> None:
    """Three steps of AdamW with decay, clipping and own learning rates; one organelle skips the second."""
    optimizer = StackedAdamW(population, betas=(0.8, 0.99), weight_decay=0.1)
    models = {slot: as_peft(host, population, slot, trainable=True) for slot in range(4)}
    rivals = {
        slot: torch.optim.AdamW(
            peft_factors(model).values(), lr=RATES[slot].item(), betas=(0.8, 0.99), weight_decay=0.1
        )
        for slot, model in models.items()
    }
    for step in range(3):
        slots = np.array([0, 1, 1, 2, 3, 3] if step != 1 else [0, 1, 1, 3, 3, 3])
        prompts, answers, weights = random_rows(len(slots), seed=step)
        batch = build_batch(host, prompts, answers, slots, weights)
        losses = train_step(host, population, batch, optimizer, RATES, 0.5)
        for slot in set(slots.tolist()):
            own = np.flatnonzero(slots == slot)
            loss = peft_loss(models[slot], [prompts[i] for i in own], [answers[i] for i in own], weights[own])
            rivals[slot].zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(peft_factors(models[slot]).values(), 0.5)
            rivals[slot].step()
            assert losses[slot].item() == pytest.approx(loss.item(), abs=1e-4)
        assert losses.isnan().tolist() == [False, False, step == 1, False]
    assert optimizer.steps.tolist() == [3, 3, 2, 3]
    for slot, model in models.items():
        adapter = population.get(slot)
        for (name, factor), parameter in peft_factors(model).items():
            torch.testing.assert_close(getattr(adapter, factor)[name], parameter.data, atol=2e-4, rtol=1e-3)


def test_training_lowers_the_loss_of_those_who_train_and_leaves_the_rest_alone(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2, 8])
    optimizer = StackedAdamW(population)
    before = population.weights.clone()
    prompts, answers, weights = random_rows(6)
    batch = build_batch(qwen, prompts, answers, [0, 2] * 3, weights)
    losses = torch.stack(
        [train_step(qwen, population, batch, optimizer, torch.full((3,), 5e-3), 1.0) for _ in range(12)]
    )
    assert (losses[-1, [0, 2]] < 0.8 * losses[0, [0, 2]]).all()
    assert losses[:, 1].isnan().all()
    assert torch.equal(population.weights[1], before[1])
    assert optimizer.steps.tolist() == [12, 0, 12]
    assert not optimizer.first[1].any()


@given(ranks=st.lists(st.integers(1, 6), min_size=1, max_size=4), seed=st.integers(0, 99))
@settings(max_examples=10)
def test_nothing_ever_grows_beyond_a_slots_rank(ranks: Any, seed: int) -> None:
    host = tiny_host("qwen3", num_hidden_layers=1)
    population = tiny_population(host, ranks, max_rank=6)
    optimizer = StackedAdamW(population, weight_decay=0.3)
    slots = np.arange(len(ranks)).repeat(2)
    prompts, answers, _ = random_rows(len(slots), seed)
    batch = build_batch(host, prompts, answers, slots, np.ones(len(slots)))
    for _ in range(2):
        train_step(host, population, batch, optimizer, torch.full((len(ranks),), 0.1), 1.0)
    outside = ~population.rank_mask()
    assert not population.weights[outside].any()
    assert not optimizer.first[outside].any() and not optimizer.second[outside].any()


@pytest.mark.parametrize("slots", [[0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 2, 2]])
@pytest.mark.parametrize("poison", [float("nan"), float("inf")])
def test_one_broken_organelle_leaves_the_others_exact(host: Any, slots: Any, poison: float) -> None:
    prompts, answers, weights = random_rows(len(slots))
    results = []
    for broken in (False, True):
        population = tiny_population(host, [4, 4, 4])
        if broken:
            next(iter(population.B.values()))[1, 0, 0] = poison
        optimizer = StackedAdamW(population)
        batch = build_batch(host, prompts, answers, slots, weights)
        before = population.weights[1].clone()
        losses = train_step(host, population, batch, optimizer, torch.full((3,), 1e-2), 1.0)
        results.append((losses, population.weights.clone(), optimizer.steps.tolist()))
        if broken:
            assert torch.equal(population.weights[1].nan_to_num(), before.nan_to_num())
    (losses, weights_sound, _), (losses_broken, weights_broken, steps) = results
    assert losses_broken.isnan().tolist() == [False, True, False]
    assert torch.equal(losses_broken[[0, 2]], losses[[0, 2]])
    assert torch.equal(weights_broken[[0, 2]], weights_sound[[0, 2]])
    assert steps == [1, 0, 1]


def test_a_negative_weight_pushes_away(qwen: Any) -> None:
    population = tiny_population(qwen, [4])
    prompts, answers, _ = random_rows(2)
    losses = []
    optimizer = StackedAdamW(population)
    for _ in range(5):
        batch = build_batch(qwen, prompts, answers, [0, 0], [-1.0, -1.0])
        losses.append(-train_step(qwen, population, batch, optimizer, torch.tensor([1e-2]), 1.0)[0].item())
    assert losses[-1] > losses[0]


def test_a_resumed_optimizer_goes_on_exactly(qwen: Any) -> None:
    def steps(population: Any, optimizer: Any, seeds: Any) -> None:
        for seed in seeds:
            prompts, answers, weights = random_rows(4, seed)
            batch = build_batch(qwen, prompts, answers, [0, 1, 1, 0], weights)
            train_step(qwen, population, batch, optimizer, torch.full((2,), 1e-2), 1.0)

    straight, resumed = tiny_population(qwen, [4, 2]), tiny_population(qwen, [4, 2])
    optimizer = StackedAdamW(straight)
    steps(straight, optimizer, range(2))
    state = copy.deepcopy({"p": straight.state_dict(), "o": optimizer.state_dict()})
    steps(straight, optimizer, range(2, 4))
    again = StackedAdamW(resumed)
    resumed.load_state_dict(state["p"])
    again.load_state_dict(state["o"])
    steps(resumed, again, range(2, 4))
    assert torch.equal(resumed.weights, straight.weights)


def test_state_of_another_population_is_refused(qwen: Any) -> None:
    optimizer = StackedAdamW(tiny_population(qwen, [4, 2]))
    with pytest.raises(AdapterError, match=r"optimizer state: steps: \(3,\) stored, \(2,\) needed"):
        optimizer.load_state_dict(StackedAdamW(tiny_population(qwen, [1, 1, 1])).state_dict())
    with pytest.raises(AdapterError, match="first: nothing stored"):
        optimizer.load_state_dict({"steps": optimizer.steps})


def test_a_reset_slot_starts_anew(qwen: Any) -> None:
    population = tiny_population(qwen, [4, 2])
    optimizer = StackedAdamW(population)
    prompts, answers, _ = random_rows(2)
    batch = build_batch(qwen, prompts, answers, [0, 1], [1, 1])
    train_step(qwen, population, batch, optimizer, torch.full((2,), 1e-2), 1.0)
    optimizer.reset(0)
    assert optimizer.steps.tolist() == [0, 1]
    assert not optimizer.first[0].any() and not optimizer.second[0].any() and optimizer.first[1].any()


def test_out_of_memory_halves_the_passes_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    host = tiny_host("qwen3")
    population = tiny_population(host, [4, 2])
    prompts, answers, weights = random_rows(24)
    batch = build_batch(host, prompts, answers, np.arange(24) % 2, weights)
    expected = gradients_of(host, population, batch)

    def full(module: Any, arguments: Any, options: Any) -> None:
        if options["input_ids"].numel() > 64:
            torch.empty(2**60)  # more than any machine has

    hook = host.model.register_forward_pre_hook(full, with_kwargs=True)
    try:
        found = gradients_of(host, population, batch)
        said = len(caplog.records)
        gradients_of(host, population, batch)  # does not try what failed
    finally:
        hook.remove()
    assert "out of memory: going on with" in caplog.text and len(caplog.records) == said
    for mine, whole in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, whole)


@pytest.mark.parametrize("layers", ["layers", "h"])
def test_computing_activations_twice_changes_no_gradient(layers: str) -> None:
    """Decoders call their layers by one of two names."""
    host = tiny_host("qwen3") if layers == "layers" else host_of(odd_model("falcon"), "falcon")
    population = tiny_population(host, [4, 2, 8])
    prompts, answers, weights = random_rows(12)
    batch = build_batch(host, prompts, answers, np.arange(12) % 3, weights)
    expected = gradients_of(host, population, batch)
    host.memory_plan.recompute, calls = True, []
    layer = getattr(host.model.get_decoder(), layers)[0]
    hook = layer.mlp.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        found = gradients_of(host, population, batch)
    finally:
        host.memory_plan.recompute = False
        hook.remove()
    assert len(calls) > 0 and len(calls) % 2 == 0 and "forward" not in layer.__dict__
    for mine, whole in zip(found, expected, strict=True):
        assert torch.equal(mine, whole)


def test_where_short_passes_do_not_help_activations_are_computed_twice() -> None:
    host = tiny_host("qwen3")
    host.memory_plan.share = 2**-9
    population = tiny_population(host, [4])
    prompts, answers, weights = random_rows(4)
    batch = build_batch(host, prompts, answers, np.zeros(4, dtype=int), weights)
    expected = gradients_of(host, population, batch)

    def full(module: Any, arguments: Any, output: Any) -> None:
        if not host.memory_plan.recompute:
            torch.empty(2**60)

    hook = host.model.register_forward_hook(full)
    try:
        found = gradients_of(host, population, batch)
    finally:
        hook.remove()
    assert host.memory_plan.recompute
    for mine, whole in zip(found, expected, strict=True):
        torch.testing.assert_close(mine, whole)


def test_the_bare_host_does_not_learn(qwen: Any) -> None:
    batch = build_batch(qwen, [[5]], [[6]], [-1], [1.0])
    with pytest.raises(ValueError, match="does not learn"):
        gradients_of(qwen, tiny_population(qwen, [1]), batch)


def test_a_batch_holds_its_rows_sorted_by_slot() -> None:
    host = tiny_host("qwen3")
    batch = build_batch(host, [[5, 6], [7]], [[8], [9, 2]], [4, 1], [0.5, 2.0])
    assert batch.ids.tolist() == [[7, 9, 2], [5, 6, 8]]
    assert batch.labels.tolist() == [[-100, 9, 2], [-100, -100, 8]]
    assert batch.slots.tolist() == [1, 4]
    assert batch.weights.tolist() == [2.0, 0.5]
    with pytest.raises(ValueError, match="at least one token"):
        build_batch(host, [[5]], [[]], [0], [1.0])


@given(rows=st.lists(st.tuples(st.integers(1, 6000), st.integers(-1, 5)), min_size=1, max_size=40))
def test_every_row_is_in_one_pass_of_bounded_size(rows: Any) -> None:
    lengths, slots = np.array(rows).T
    parts = passes.passes(lengths, slots, passes.CPU_TOKENS)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(rows)))
    for part in parts:
        assert (np.diff(part) > 0).all()
        assert lengths[part].sum() < 1.5 * passes.CPU_TOKENS + lengths[part].max()


def test_slots_of_a_pass_have_equally_many_rows() -> None:
    draw = np.random.default_rng(0)
    slots = np.repeat(np.arange(16), 16)
    parts = passes.passes(draw.integers(30, 60, size=256), slots, passes.CPU_TOKENS)
    counts = [np.bincount(slots[part], minlength=16) for part in parts]
    assert all((count == count[0]).all() for count in counts) and len(parts) in range(4, 8)
