"""What cannot be counted is refused before it is used."""

from pathlib import Path
from typing import Any

import pytest
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from evolora_core.errors import HostError
from evolora_core.language.hosts.supported import check_counted, check_layers

SHAPE = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2}


def model(kind: str, **changes: Any) -> Any:
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **SHAPE | changes))


@pytest.mark.parametrize("kind", ["qwen3", "llama", "gemma2", "phi3", "gpt_neox", "opt", "cohere"])
def test_dense_decoders_are_counted(kind: str) -> None:
    check_counted("mine", model(kind, num_key_value_heads=2, head_dim=16, pad_token_id=0, use_qk_norm=True))


@pytest.mark.parametrize(
    ("kind", "changes", "words"),
    [
        ("mixtral", {"num_local_experts": 4, "num_key_value_heads": 2}, r"model\.layers\.0\.mlp\..* of Mixtral"),
        ("qwen3_moe", {"num_experts": 4, "moe_intermediate_size": 16}, r"layers\.0\.mlp\.experts\..* of Qwen3Moe"),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 2}, r"c_attn\.weight of GPT2"),
        ("mamba", {"num_hidden_layers": 1}, "of MambaForCausalLM is no linear layer"),
        ("diffllama", {"num_key_value_heads": 2}, "DiffLlamaForCausalLM computes more or less than is counted"),
        ("doge", {"num_key_value_heads": 2}, "DogeForCausalLM computes more or less than is counted"),
        ("deepseek_v3", {"first_k_dense_replace": 2}, "DeepseekV3ForCausalLM keeps keys and values compressed"),
    ],
)
def test_what_is_not_counted_is_named(kind: str, changes: Any, words: str) -> None:
    with pytest.raises(HostError, match=words):
        check_counted("mine", model(kind, **changes))


def test_linear_layers_that_do_more_than_multiply_are_named() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: Any) -> Any:
            return super().forward(x) * 0.5

    own = model("qwen3", num_key_value_heads=2, head_dim=16)
    own.model.layers[0].mlp.up_proj.__class__ = Scaled
    with pytest.raises(HostError, match=r"linear layers of Qwen3ForCausalLM \(Scaled\) do more than multiply"):
        check_layers(Path("mine"), own)
    check_layers(Path("mine"), model("falcon"))  # whose linear layers are a class of their own


def test_a_model_whose_tokens_see_later_ones_is_named() -> None:
    with pytest.raises(HostError, match=r"is_decoder is false, so that each token of BertLMHeadModel sees the later"):
        check_layers(Path("mine"), model("bert"))
    for own in (model("bert", is_decoder=True), model("gpt_neox"), model("opt"), model("llama", is_decoder=False)):
        check_layers(Path("mine"), own)


def test_a_model_whose_layers_differ_in_shape_is_named() -> None:
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "head_dim": 8, "global_head_dim": 16}
    own = AutoConfig.for_model("gemma4_text", **SHAPE | kinds | {"num_key_value_heads": 1})
    with pytest.raises(HostError, match="Gemma4.* has layers of different shapes"):
        check_counted("mine", AutoModelForCausalLM.from_config(own))


def test_a_model_that_reads_more_than_text_is_named() -> None:
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    text = SHAPE | {"num_key_value_heads": 2, "head_dim": 16}
    both = AutoConfig.for_model(
        "gemma3", text_config=text, vision_config=vision | {"image_size": 16, "patch_size": 8}, mm_tokens_per_image=4
    )
    with pytest.raises(HostError, match="reads more than text; save its language model alone"):
        check_counted("mine", AutoModelForCausalLM.from_config(both))
