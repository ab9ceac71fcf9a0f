from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import VOCABULARY, host_of, odd_model, random_prompts, tiny_host, tiny_population
from torch.utils.flop_counter import FlopCounterMode

from evolora_core.engine import rng
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population import passes, prefixes
from evolora_core.lora.population.generate import generate
from evolora_core.lora.population.next_token import likeliest, next_likeliest, next_tokens

NEW = 12
IN_PLACE: Any = {
    torch.ops.aten.addmm_: lambda y, a, b, **_: 2 * a[0] * a[1] * b[1],
    torch.ops.aten.baddbmm_: lambda y, a, b, **_: 2 * a[0] * a[1] * a[2] * b[2],
}


def decoded_by_transformers(model: Any, host: Any, prompt: Any) -> Any:
    """Greedy tokens of transformers' own generate, one prompt at a time."""
    ids = torch.tensor([prompt])
    output = model.generate(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=list(host.eos_ids),
        pad_token_id=host.pad_id,
    )
    return output[0, len(prompt) :].tolist()


def test_greedy_answers_are_those_of_peft_and_transformers(host: Any, population: Any, as_peft: Any) -> None:
    """Ragged prompts, longer than Gemma's window, mixed slots and bare rows, rows that finish early."""
    prompts = random_prompts(15, 20)
    slots = np.array([0, 1, 2, 3, -1] * 3)
    answers = generate(host, population, prompts, slots, max_new_tokens=NEW, batch_rows=7)
    models = {slot: host.model if slot < 0 else as_peft(host, population, slot) for slot in set(slots.tolist())}
    ended = 0
    for prompt, slot, answer in zip(prompts, slots.tolist(), answers, strict=True):
        expected = decoded_by_transformers(models[slot], host, prompt)
        finished = expected[-1] in host.eos_ids
        assert answer.tokens == (expected[:-1] if finished else expected)
        assert answer.finished == finished
        assert (answer.prompt_tokens, answer.new_tokens) == (len(prompt), len(expected))
        ended += finished
    assert 0 < ended < len(prompts)


def beginnings(rows: Any, seed: int = 0) -> Any:
    """Prompts that begin alike in a few ways, of unlike length; some are equal, some begin others."""
    draw = np.random.default_rng(seed)
    common = [random_prompts(1, length, seed=length)[0] for length in (11, 9, 4)]
    ends = [draw.integers(3, VOCABULARY, size=draw.integers(0, 6)).tolist() for _ in range(rows)]
    return [common[draw.integers(3)] + end for end in ends]


def test_prompts_that_begin_alike_are_answered_as_each_alone(host: Any, population: Any, as_peft: Any) -> None:
    prompts, slots = beginnings(24), np.array([0, 1, -1] * 8)
    answers = generate(host, population, prompts, slots, max_new_tokens=NEW)
    models = {slot: host.model if slot < 0 else as_peft(host, population, slot) for slot in set(slots.tolist())}
    for prompt, slot, answer in zip(prompts, slots.tolist(), answers, strict=True):
        expected = decoded_by_transformers(models[slot], host, prompt)
        assert answer.tokens == (expected[:-1] if expected[-1] in host.eos_ids else expected)


@pytest.mark.parametrize("architecture", ["gpt_neo", "mpt"])
def test_attention_that_counts_columns_answers_as_each_alone(architecture: str) -> None:
    host = host_of(odd_model(architecture), architecture)
    prompts = beginnings(24)
    answers = generate(host, None, prompts, np.full(24, -1), max_new_tokens=NEW)
    for prompt, answer in zip(prompts, answers, strict=True):
        expected = decoded_by_transformers(host.model, host, prompt)
        assert answer.tokens == (expected[:-1] if expected[-1] in host.eos_ids else expected)


@given(
    seed=st.integers(0, 999), rows=st.integers(1, 30), batch_rows=st.integers(1, 30), pass_tokens=st.integers(8, 400)
)
@settings(max_examples=25)
def test_shared_beginnings_change_no_answer(seed: int, rows: int, batch_rows: int, pass_tokens: int) -> None:
    host = tiny_host("qwen3")
    population = tiny_population(host, [8, 3, 1])
    prompts, slots = beginnings(rows, seed), np.random.default_rng(seed).integers(-1, 3, size=rows)
    keys, heat = rng.row_keys(seed, rows), [0.0, 0.8] * (rows // 2) + [0.0] * (rows % 2)
    found = []
    for worth in (0.0, 2.0):  # always, never
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefixes, "WORTH", worth)
            patch.setattr(passes, "CPU_TOKENS", pass_tokens)
            found.append(
                generate(
                    host, population, prompts, slots, max_new_tokens=NEW, temperatures=heat, keys=keys,
                    batch_rows=batch_rows, sampled=True,
                )
            )  # fmt: skip
    for shared, alone in zip(*found, strict=True):
        assert shared.tokens == alone.tokens and shared.finished == alone.finished
        assert shared.sampled and alone.sampled
        assert shared.sampled.logprobs == pytest.approx(alone.sampled.logprobs, abs=1e-3)


@given(seed=st.integers(0, 999), rows=st.integers(1, 60))
def test_a_group_has_one_slot_and_one_beginning_and_every_row_more(seed: int, rows: int) -> None:
    prompts = beginnings(rows, seed)
    slots, lengths = np.random.default_rng(seed).integers(-1, 3, size=rows), np.array([len(p) for p in prompts])
    padded = np.full((rows, lengths.max()), -1)
    for row, prompt in zip(padded, prompts, strict=True):
        row[len(row) - len(prompt) :] = prompt
    group, prefix = prefixes.shared_prefixes(slots, padded, lengths)
    assert ((prefix >= 0) & (prefix < lengths)).all()
    for number in set(group.tolist()) if prefix.any() else ():
        members = np.flatnonzero(group == number)
        assert len({(slots[i], prefix[i], tuple(prompts[i][: prefix[i]])) for i in members}) == 1
    if prefix.any():
        saved = sum(prefix[group == number].sum() - prefix[group == number][0] for number in set(group.tolist()))
        assert saved >= prefixes.WORTH * lengths.sum()


def test_what_is_shared_is_executed_once(qwen: Any) -> None:
    """Forty questions after one instruction: far less is executed than charged."""
    prompts = [[*range(3, 33), 3 + i] for i in range(40)]
    answers = generate(qwen, tiny_population(qwen, [4]), prompts, np.zeros(40, dtype=int), max_new_tokens=1)
    flops = FlopModel.from_model(qwen.model)
    charged = 40 * int(flops.generate_flops(31, 1, 4))
    executed = sum(answer.executed_flops for answer in answers)
    assert executed == pytest.approx(flops.extend_flops(0, 30, 4) + 40 * flops.extend_flops(30, 1, 4), rel=1e-4)
    assert executed < 0.3 * charged


@pytest.mark.parametrize("new", [1, 5])
def test_what_is_executed_is_what_the_counter_counts(new: int) -> None:
    """The last layer's MLP at the last position alone."""
    host = tiny_host("qwen3", hidden_size=64, intermediate_size=192, num_hidden_layers=4, vocab_size=96)
    host.model.set_attn_implementation("eager")  # whose matmuls are counted
    with FlopCounterMode(display=False, custom_mapping=IN_PLACE) as counter:
        (answer,) = generate(host, tiny_population(host, [8]), [[9] * 40], np.array([0]), max_new_tokens=new)
    assert answer.new_tokens == new
    assert answer.executed_flops == pytest.approx(counter.get_total_flops(), rel=0.01)


@given(data=st.data())
@settings(max_examples=15)
def test_an_answer_does_not_depend_on_the_rows_beside_it(data: st.DataObject) -> None:
    host, population, prompts, slots, heat, keys, alone = independent_rows()
    chosen = np.array(data.draw(st.lists(st.integers(0, len(prompts) - 1), min_size=1, max_size=30)))
    answers = generate(
        host,
        population,
        [prompts[i] for i in chosen],
        slots[chosen],
        max_new_tokens=NEW,
        temperatures=heat[chosen].tolist(),
        keys=keys[chosen],
        batch_rows=data.draw(st.integers(1, 32)),
        sampled=True,
    )
    for i, answer in zip(chosen, answers, strict=True):
        assert answer.tokens == alone[i].tokens
        assert answer.finished == alone[i].finished
        assert answer.sampled and answer.sampled.logprobs == pytest.approx(alone[i].sampled.logprobs, abs=1e-3)


def independent_rows(_made: Any = []) -> Any:  # noqa: B006
    if not _made:
        host = tiny_host("gemma3")
        population = tiny_population(host, [8, 3, 1])
        prompts = random_prompts(12, 14)
        prompts[1] = prompts[4] = prompts[0]  # shared prefixes
        slots, keys = np.array([0, 0, 1, 1, 0, 2, -1, -1, 2, 1, 0, -1]), rng.row_keys(9, 12)
        heat = np.array([0.0, 1.0, 0.7] * 4)
        options: dict[str, Any] = {"max_new_tokens": NEW, "sampled": True}
        alone = [
            generate(host, population, [p], [s], temperatures=float(t), keys=k[None], **options)[0]
            for p, s, t, k in zip(prompts, slots, heat, keys, strict=True)
        ]
        _made.append((host, population, prompts, slots, heat, keys, alone))
    return _made[0]


def test_samples_follow_the_models_distribution(qwen: Any) -> None:
    """4 000 samples of one prompt share its prefill; their first tokens are distributed as softmax(logits / T)."""
    prompt, rows, heat = random_prompts(1, 9)[0], 4000, 1.5
    answers = generate(
        qwen,
        None,
        [prompt] * rows,
        np.full(rows, -1),
        max_new_tokens=1,
        temperatures=heat,
        keys=rng.row_keys(1, rows),
        batch_rows=rows,
    )
    with torch.no_grad():
        expected = (qwen.model(input_ids=torch.tensor([prompt])).logits[0, -1] / heat).softmax(dim=0).double().numpy()
    shown = [answer.tokens[0] for answer in answers if answer.tokens]
    counts = np.bincount(shown, minlength=len(expected)) / rows
    counts[list(qwen.eos_ids)] = expected[list(qwen.eos_ids)] = 0
    assert np.abs(counts - expected).max() < 4 * np.sqrt(0.25 / rows)


def test_equal_keys_give_equal_samples_and_other_keys_others(qwen: Any) -> None:
    prompts = [random_prompts(1, 9)[0]] * 8
    keys = rng.row_keys(1, 8)
    keys[1] = keys[0]
    first, second, *others = generate(
        qwen, None, prompts, np.full(8, -1), max_new_tokens=6, temperatures=1.5, keys=keys
    )
    assert first.tokens == second.tokens
    assert any(first.tokens != other.tokens for other in others)


def test_end_tokens_stop_rows_and_are_not_part_of_the_answer(qwen: Any) -> None:
    prompts = random_prompts(40, 10)
    answers = generate(qwen, None, prompts, np.full(40, -1), max_new_tokens=40)
    assert any(answer.finished for answer in answers)
    for answer in answers:
        assert not set(answer.tokens) & set(qwen.eos_ids)
        assert answer.new_tokens == len(answer.tokens) + answer.finished
        assert answer.finished or answer.new_tokens == 40


def test_rows_that_cannot_be_answered_are_refused(qwen: Any) -> None:
    cases: list[tuple[Any, Any, dict[str, Any], str]] = [
        ([[5] * 250], [-1], {}, "do not fit the context of 256"),
        ([[5]], [0], {}, "slots 0 to 0, but the population has 0"),
        ([[5]], [-1], {"temperatures": 1.0}, "need keys"),
        ([[]], [-1], {}, "every prompt needs a token"),
        ([[5], [6]], [-1], {}, "2 prompts, but 1 slots"),
    ]
    for prompts, slots, options, message in cases:
        with pytest.raises(ValueError, match=message):
            generate(qwen, None, prompts, slots, max_new_tokens=8, **options)
    assert generate(qwen, None, [], [], max_new_tokens=8) == []


def test_where_nothing_is_padded_or_shared_the_last_mlp_alone_is_spared(qwen: Any) -> None:
    population, model = tiny_population(qwen, [4, 8]), FlopModel.from_model(qwen.model)
    prompts = random_prompts(2, 9)
    for slot, rank in ((0, 4), (-1, 0)):
        (answer,) = generate(qwen, population, prompts[:1], [slot], max_new_tokens=20)
        spared = 2 * (len(prompts[0]) - 1) * (model.closing + rank * model.closing_sum)
        assert answer.executed_flops + spared == model.generate_flops(len(prompts[0]), answer.new_tokens, rank)
    samples = generate(qwen, population, [prompts[0]] * 4, [1] * 4, max_new_tokens=1)
    prefill = model.extend_flops(0, len(prompts[0]), 8)
    assert sum(answer.executed_flops for answer in samples) == pytest.approx(prefill, abs=4)
    longer = generate(qwen, population, [prompts[0], [9] * 30], [-1, -1], max_new_tokens=4)[0]
    assert longer.executed_flops > model.generate_flops(longer.prompt_tokens, longer.new_tokens)


@pytest.mark.parametrize("slots", [[0, 0, 1, 1, -1], [0, 1, 1, 1, 2]])
def test_a_broken_adapter_spoils_its_own_answers_only(host: Any, slots: Any) -> None:
    prompts = random_prompts(5, 9)
    population = tiny_population(host, [4, 4, 4])
    sound = generate(host, population, prompts, slots, max_new_tokens=8)
    next(iter(population.A.values()))[0, 0, 0] = torch.nan
    broken = generate(host, population, prompts, slots, max_new_tokens=8, sampled=True)
    for slot, before, after in zip(slots, sound, broken, strict=True):
        assert after.sampled
        assert np.isnan(after.sampled.logprobs).all() if slot == 0 else after.tokens == before.tokens


def test_alternatives_are_the_next_likeliest_tokens(host: Any, population: Any, as_peft: Any) -> None:
    prompts = random_prompts(5, 15)
    plain = generate(host, population, prompts, np.full(5, 2), max_new_tokens=NEW)
    answers = generate(host, population, prompts, np.full(5, 2), max_new_tokens=NEW, alternatives=3)
    model = as_peft(host, population, 2)
    for prompt, before, answer in zip(prompts, plain, answers, strict=True):
        assert answer.tokens == before.tokens and before.alternatives is None
        seen = answer.alternatives
        assert seen is not None
        assert seen.tokens.shape == seen.logprobs.shape == (answer.new_tokens, 3)
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + answer.tokens])).logits[0, len(prompt) - 1 :]
        expected = torch.log_softmax(logits[: answer.new_tokens], dim=1).topk(4, dim=1)
        assert np.allclose(seen.taken, expected.values[:, 0], atol=1e-3)
        assert np.allclose(seen.logprobs, expected.values[:, 1:], atol=1e-3)
        assert (seen.tokens == expected.indices[:, 1:].numpy()).mean() > 0.95  # near ties may swap


def test_the_likeliest_token_is_the_one_that_torch_finds() -> None:
    """The first of equals, and of what is no number: a host in bfloat16 has many equals."""
    drawn = torch.randn(64, 500, generator=torch.Generator().manual_seed(0)).bfloat16().float()
    odd = torch.tensor([[1, torch.nan, 3, torch.nan], [torch.inf, 0, torch.inf, 1], [-0.0, 0, -1, 0], [-torch.inf] * 4])
    for logits in (drawn, odd):
        assert torch.equal(likeliest(logits), logits.argmax(dim=1))


def test_of_equally_likely_tokens_the_taken_one_is_no_alternative() -> None:
    for dtype in (torch.bfloat16, torch.float32):
        logits = torch.tensor([[1, 3, 3, 2, 3], [0, 5, 5, 5, 5]], dtype=dtype)
        chosen = next_tokens(logits, torch.zeros(2), torch.zeros(2))
        found = next_likeliest(logits, chosen, 3)
        assert found[:, 0, 0].tolist() == chosen.tolist() == [1, 1]
        assert sorted(found[0, 1:, 0].tolist()) == [2, 4] and 1 not in found[1, 1:, 0].tolist()
        assert (found[:, :, 1] == found[:, :1, 1]).all()


def test_answers_may_have_caps_of_their_own(host: Any, population: Any) -> None:
    prompts, slots = random_prompts(12, 20), np.array([0, 1, -1] * 4)
    whole = generate(host, population, prompts, slots, max_new_tokens=NEW)
    caps = np.array([1, 2, 5, NEW] * 3)
    capped = generate(host, population, prompts, slots, max_new_tokens=caps)
    for long, short, cap in zip(whole, capped, caps.tolist(), strict=True):
        assert short.tokens == long.tokens[:cap]
        assert short.new_tokens == min(long.new_tokens, cap)
        assert short.finished == (long.finished and long.new_tokens <= cap)


def test_alternatives_need_greedy_decoding(host: Any) -> None:
    with pytest.raises(ValueError, match="temperature 0"):
        generate(
            host,
            None,
            [[1]],
            [-1],
            max_new_tokens=2,
            temperatures=1.0,
            keys=np.zeros(1, dtype=np.uint64),
            alternatives=1,
        )
