import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_models import ARCHITECTURES, host_of, tiny_host, tiny_population
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

from evolora_core.engine.meter import PURPOSES, Meter
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population.fisher import fishers_of
from evolora_core.lora.population.lora import attached
from evolora_core.lora.population.train import build_batch, gradients_of, surprisals

RANK, CLOSE = 8, 0.02
# The counter by itself knows only the forms that are not in place.
IN_PLACE = {
    torch.ops.aten.addmm_: lambda y, a, b, **_: 2 * a[0] * a[1] * b[1],
    torch.ops.aten.baddbmm_: lambda y, a, b, **_: 2 * a[0] * a[1] * a[2] * b[2],
}


@pytest.fixture(params=ARCHITECTURES)
def host(request: pytest.FixtureRequest) -> Any:
    """Attention, adapters and LM head all weigh something; eager attention, whose matmuls are counted."""
    host = tiny_host(request.param, hidden_size=64, intermediate_size=112, vocab_size=96)
    host.model.set_attn_implementation("eager")
    return host


@pytest.fixture(params=["mistral", "gpt_neox", "phi", "cohere", "gpt_bigcode"])
def other(request: pytest.FixtureRequest) -> Any:
    """A window that no list of layers names, and layers whose MLP has the attention's input."""
    sizes = {"hidden_size": 64, "intermediate_size": 112, "vocab_size": 96, "num_hidden_layers": 3}
    further = {"num_attention_heads": 4, "max_position_embeddings": 256, "bos_token_id": 1, "eos_token_id": 2}
    own: dict[str, Any] = {
        "mistral": {"sliding_window": 16, "num_key_value_heads": 2},
        "gpt_bigcode": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 256},
    }.get(request.param, {})
    config = AutoConfig.for_model(request.param, **sizes, **further, pad_token_id=0, **own)
    torch.manual_seed(7)
    model: Any = AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    return host_of(model.eval().requires_grad_(False), request.param)


def counted(call: Any) -> Any:
    with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize("rank", [0, RANK])
@pytest.mark.parametrize("length", [5, 40])
def test_an_answer_costs_what_the_counter_counts(host: Any, rank: int, length: int) -> None:
    """Prefill, the LM head at the last position, then cached steps; in and beyond Gemma's window."""
    new, model = 9, FlopModel.from_model(host.model)
    population = tiny_population(host, [RANK])

    def answer(new_tokens: Any) -> None:
        with torch.no_grad(), attached(host.model, population) as adapters:
            adapters.rows(np.array([0 if rank else -1]))
            cache = DynamicCache(config=host.model.config)
            ids = torch.full((1, length), 5)
            for _ in range(new_tokens):
                host.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                ids = torch.tensor([[5]])

    prefill, whole = counted(lambda: answer(1)), counted(lambda: answer(new))
    assert model.generate_flops(length, 1, rank) == pytest.approx(prefill, rel=CLOSE)
    assert model.generate_flops(length, new, rank) - model.generate_flops(length, 1, rank) == pytest.approx(
        whole - prefill, rel=CLOSE
    )


@pytest.mark.parametrize("work", [gradients_of, fishers_of])
@pytest.mark.parametrize(("prompt", "answer"), [(5, 30), (40, 4)])
def test_a_training_step_costs_what_the_counter_counts_and_so_does_a_fisher(
    host: Any, prompt: int, answer: int, work: Any
) -> None:
    population = tiny_population(host, [RANK, RANK])
    batch = build_batch(host, [[5] * prompt] * 4, [[6] * answer] * 4, [0, 0, 1, 1], np.ones(4))
    flops = FlopModel.from_model(host.model).train_flops([prompt + answer] * 4, [answer] * 4, RANK)
    assert flops.sum() == pytest.approx(counted(lambda: work(host, population, batch)), rel=CLOSE)


def test_other_architectures_cost_what_the_counter_counts(other: Any) -> None:
    test_an_answer_costs_what_the_counter_counts(other, RANK, 40)
    test_a_training_step_costs_what_the_counter_counts_and_so_does_a_fisher(other, 20, 9, gradients_of)


@pytest.mark.parametrize("rank", [0, RANK])
def test_reading_an_answer_costs_what_the_counter_counts(host: Any, rank: int) -> None:
    population = tiny_population(host, [RANK])
    batch = build_batch(host, [[5] * 20] * 4, [[6] * 9] * 4, [0] * 4, np.ones(4))

    def read() -> None:
        with torch.no_grad(), attached(host.model, population) as adapters:
            adapters.rows(np.array([0 if rank else -1] * 4))
            surprisals(host, batch.ids, batch.labels)

    flops = FlopModel.from_model(host.model).score_flops([29] * 4, [9] * 4, rank)
    assert flops.sum() == pytest.approx(counted(read), rel=CLOSE)


@pytest.mark.parametrize("rank", [0, RANK])
def test_scoring_an_answer_costs_what_the_counter_counts(host: Any, rank: int) -> None:
    prompt, answer, population = 12, 20, tiny_population(host, [RANK])

    def score() -> None:
        with torch.no_grad(), attached(host.model, population) as adapters:
            adapters.rows(np.array([0 if rank else -1]))
            host.model(input_ids=torch.full((1, prompt + answer), 5), logits_to_keep=answer)

    expected = FlopModel.from_model(host.model).score_flops(prompt + answer, answer, rank)
    assert expected == pytest.approx(counted(score), rel=CLOSE)


@given(
    prompt=st.lists(st.integers(1, 60), min_size=1, max_size=6), new=st.integers(0, 30), rank=st.sampled_from([0, 1, 8])
)
def test_an_answer_is_the_sum_of_its_steps(prompt: Any, new: int, rank: int) -> None:
    model = FlopModel(
        linear=100,
        entering=10,
        head=7,
        adapter=30,
        entering_in=4,
        closing=0,
        closing_sum=0,
        attention=((6, 0), (10, 8)),
    )
    steps = [model.step_flops(np.array(prompt) + i, rank) for i in range(1, new)]
    total = model.generate_flops(prompt, min(new, 1), rank) + sum(steps)
    result = model.generate_flops(prompt, new, rank)
    assert result.dtype == np.int64
    assert (result == total).all()


def test_rows_are_counted_each_by_itself() -> None:
    model = FlopModel.from_model(tiny_host("gemma3").model)
    prompts, new, ranks = np.array([3, 30, 12]), np.array([1, 5, 20]), np.array([0, 2, 8])
    each = [model.generate_flops(p, n, r) for p, n, r in zip(prompts, new, ranks, strict=True)]
    assert model.generate_flops(prompts, new, ranks).tolist() == each
    assert model.train_flops(prompts + new, new, ranks).tolist() == [
        model.train_flops(p + n, n, r) for p, n, r in zip(prompts, new, ranks, strict=True)
    ]


def test_a_training_step_is_about_two_forwards() -> None:
    """Not three: a frozen host has no weight gradients."""
    model = FlopModel.from_model(tiny_host("qwen3", hidden_size=64, intermediate_size=192, num_hidden_layers=4).model)
    ratio = model.train_flops(40, 40, 1) / (2 * (40 * model.linear + 40 * model.head))
    assert 1.9 < ratio < 2.3


def test_the_meter_adds_merges_and_goes_through_json() -> None:
    meter, other = Meter(), Meter()
    meter.add("rollout", flops=10, tokens=4, seconds=0.5)
    meter.add("rollout", flops=5, tokens=1, seconds=0.25, executed_flops=9)
    counted: dict[str, Any] = {"flops": np.int64(7), "tokens": np.int64(2)}
    other.add("update", seconds=1.0, **counted)
    meter.merge(other)
    assert meter.total() == 22
    assert meter.rows() == [
        {"purpose": "rollout", "flops": 15, "executed_flops": 19, "tokens": 5, "seconds": 0.75},
        {"purpose": "update", "flops": 7, "executed_flops": 7, "tokens": 2, "seconds": 1.0},
    ]
    assert Meter.from_state(json.loads(json.dumps(meter.state()))) == meter
    assert Meter.from_state({}) == Meter()


def test_an_unknown_purpose_is_an_error() -> None:
    with pytest.raises(ValueError, match="'sleep' is none of calibration, rollout"):
        Meter().add("sleep", flops=1, tokens=1, seconds=1.0)
    assert len(PURPOSES) == 8
