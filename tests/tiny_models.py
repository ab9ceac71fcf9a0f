"""Tiny real transformers with random weights, as hosts: one of each architecture that the engine must serve."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from evolora_core.engine import rng
from evolora_core.language.hosts.host import MemoryPlan
from evolora_core.lora.population.generate import Answer, generate
from evolora_core.lora.population.stack import Population

VOCABULARY = 48
COMMON: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 56,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.25,  # so that greedy answers vary and end tokens come up
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
ARCHITECTURES = ("qwen3", "llama", "gemma3")


def tiny_model(architecture: str, **changes: Any) -> PreTrainedModel:
    """A random frozen model; `changes` are of its config."""
    torch.manual_seed(7)
    options = COMMON | {"num_hidden_layers": 2} | changes
    model: Any
    if architecture == "qwen3":
        model = Qwen3ForCausalLM(Qwen3Config(head_dim=8, tie_word_embeddings=True, **options))
    elif architecture == "llama":
        model = LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, attention_bias=True, **options))
    else:  # sliding and full layers, prompts longer than the window, capped logits, heads wider than hidden / heads
        gemma: dict[str, Any] = {
            "head_dim": 16,
            "query_pre_attn_scalar": 16,
            "sliding_window": 8,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
            "final_logit_softcapping": 20.0,
        }
        model = Gemma3ForCausalLM(Gemma3TextConfig(**(options | {"num_hidden_layers": 3} | gemma | changes)))
    return cast(PreTrainedModel, model.eval().requires_grad_(False))


def odd_model(architecture: str) -> PreTrainedModel:
    """A random frozen model that does something in a way of its own: Falcon adds to a layer's output in place, GPT-Neo
    has windows that no cache knows, MPT's attention falls with the columns between two tokens."""
    torch.manual_seed(7)
    sizes: dict[str, dict[str, Any]] = {
        "falcon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
        "gpt_neo": {"hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 256}
        | {"attention_types": [[["global", "local"], 1]], "window_size": 8},
        "mpt": {"d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 256},
    }
    common = {"vocab_size": VOCABULARY, "initializer_range": 0.25, "bos_token_id": 1, "eos_token_id": 2}
    config = AutoConfig.for_model(architecture, **sizes[architecture], **common)
    return cast(PreTrainedModel, AutoModelForCausalLM.from_config(config).eval().requires_grad_(False))


def tiny_host(architecture: str, **changes: Any) -> Any:
    """What the engine needs of a `Host`, around a tiny model without tokenizer."""
    return host_of(tiny_model(architecture, **changes), architecture)


def host_of(model: PreTrainedModel, architecture: str) -> Any:
    """The same around a model."""
    return SimpleNamespace(
        name=f"tiny-{architecture}",
        model=model,
        eos_ids=tuple(range(2, 8)),
        pad_id=0,
        max_context=256,
        device="cpu",
        memory_plan=MemoryPlan(),
        dtype=model.dtype,
    )


def tiny_population(host: Any, ranks: list[int], max_rank: int = 8, strength: float = 0.05) -> Population:
    """A slot of each rank, with A and B both random: adapters that change the host's answers."""
    population = Population.empty(host, len(ranks), max_rank)
    rng = np.random.default_rng(11)
    for slot, rank in enumerate(ranks):
        population.init_slot(slot, rank, rng)
        for B in population.B.values():
            B[slot, :, :rank] = torch.from_numpy(strength * rng.standard_normal((B.shape[1], rank))).float()
    return population


def random_prompts(rows: int, longest: int, seed: int = 3) -> list[list[int]]:
    """Prompts of 1 to `longest` tokens, none of them special."""
    rng = np.random.default_rng(seed)
    return [rng.integers(8, VOCABULARY, size=rng.integers(1, longest + 1)).tolist() for _ in range(rows)]


def sampled_answers(
    host: Any, population: Population, slots: np.ndarray, heat: np.ndarray
) -> tuple[list[list[int]], list[Answer]]:
    """Random prompts and answers to them of at most 7 tokens, sampled at temperatures `heat`, with what was sampled."""
    prompts = random_prompts(len(slots), 12)
    return prompts, generate(
        host,
        population,
        prompts,
        slots,
        max_new_tokens=7,
        temperatures=heat.tolist(),
        keys=rng.row_keys(1, len(slots)),
        sampled=True,
    )
