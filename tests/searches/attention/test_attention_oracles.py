"""Known mechanisms compute what `transformers` computes where it ships them, and what their papers' recurrences say."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from searches.attention.attention_programs import known, loaded
from torch import Tensor, nn
from transformers import (
    BloomConfig,
    DeepseekV3Config,
    DiffLlamaConfig,
    Qwen3Config,
    Qwen3NextConfig,
    SmolLM3Config,
)

from evolora_core.searches.attention.known.registry import KNOWN

LENGTH, DIM, HEADS = 11, 24, 4
HEAD = DIM // HEADS
COMMON: dict[str, Any] = {
    "hidden_size": DIM,
    "num_attention_heads": HEADS,
    "num_hidden_layers": 1,
    "attention_bias": True,
    "attn_implementation": "eager",
}
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
STILL = (torch.ones(1, LENGTH, HEAD), torch.zeros(1, LENGTH, HEAD))  # cosines and sines that turn nothing


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def tokens(length: int = LENGTH) -> Tensor:
    return torch.randn(2, length, DIM)


def hidden(window: int = LENGTH) -> Tensor:
    """An additive mask [1, 1, T, T] of a causal window."""
    back = torch.arange(LENGTH)[:, None] - torch.arange(LENGTH)
    return torch.where((back >= 0) & (back < window), 0.0, -torch.inf)[None, None]


def turning(config: Any, rotary: Any) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the places, by the model's own module."""
    cos, sin = rotary(config)(torch.zeros(1, LENGTH, DIM), torch.arange(LENGTH)[None])
    return cos, sin


def built(name: str) -> Any:
    """A known mechanism with parameters that all differ from their first values."""
    module = known(name)(DIM, HEADS)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return module


def copied(theirs: Any, ours: Any, names: dict[str, str]) -> Any:
    """`theirs` with our parameters; `names`: their parts by our parts. All that they have must be set."""
    weights = {}
    for mine, other in names.items():
        part = getattr(ours, mine)
        if isinstance(part, nn.Parameter):
            weights[other] = part.data
        else:
            weights |= {f"{other}.{name}": value for name, value in part.state_dict().items()}
    theirs.load_state_dict(weights, strict=True)
    return theirs.eval()


PROJECTIONS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "out": "o_proj"}


def smollm(ours: Any, layer: int, groups: int = HEADS, mask: Tensor | None = None) -> Any:
    """SmolLM3's attention, whose layer 0 has no positions and whose layer 1 has rotary ones."""
    from transformers.models.smollm3.modeling_smollm3 import SmolLM3Attention, SmolLM3RotaryEmbedding

    config = SmolLM3Config(
        **{**COMMON, "num_hidden_layers": 2},
        num_key_value_heads=groups,
        no_rope_layers=[0, 1],
        rope_parameters=ROPE,
        pad_token_id=0,
    )
    theirs = copied(SmolLM3Attention(config, layer), ours, PROJECTIONS)
    mask = hidden() if mask is None else mask
    return lambda x: theirs(x, turning(config, SmolLM3RotaryEmbedding), mask)[0]


@pytest.mark.parametrize(
    ("name", "layer", "groups", "window"),
    [
        ("mha", 0, HEADS, LENGTH),
        ("nope", 0, HEADS, LENGTH),
        ("rope", 1, HEADS, LENGTH),
        ("gqa", 0, HEADS // 2, LENGTH),
        ("sliding-window", 0, HEADS, 4),
    ],
)
def test_as_smollm3(name: str, layer: int, groups: int, window: int) -> None:
    ours, x = built(name), tokens()
    if name == "sliding-window":
        short = loaded(KNOWN[name].source.replace("WINDOW = 16", f"WINDOW = {window}"))(DIM, HEADS)
        short.load_state_dict(ours.state_dict())
        ours = short
    theirs = smollm(ours, layer, groups, hidden(window))
    assert torch.allclose(ours(x), theirs(x), atol=1e-5)


@pytest.mark.parametrize("heads", [4, 6])  # six is no power of two
def test_alibi_as_bloom(heads: int) -> None:
    from transformers.models.bloom.modeling_bloom import BloomAttention, build_alibi_tensor

    ours = known("alibi")(DIM, heads)
    theirs = BloomAttention(BloomConfig(hidden_size=DIM, n_head=heads, n_layer=1), layer_idx=0).eval()
    with torch.no_grad():
        for part in ("weight", "bias"):
            each = [getattr(getattr(ours, name), part) for name in ("query", "key", "value")]
            split = [one.view(heads, DIM // heads, *one.shape[1:]) for one in each]
            getattr(theirs.query_key_value, part).copy_(torch.stack(split, 1).flatten(0, 2))
            getattr(theirs.dense, part).copy_(getattr(ours.out, part))
    x = tokens()
    alibi = build_alibi_tensor(torch.ones(2, LENGTH), heads, torch.float32)
    answer = theirs(x, torch.zeros_like(x), alibi, hidden())[0]
    assert torch.allclose(ours(x), answer, atol=1e-5)


def test_qk_norm_as_qwen3() -> None:
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

    ours, x = built("qk-norm"), tokens()
    config = Qwen3Config(**COMMON, num_key_value_heads=HEADS, head_dim=HEAD, rms_norm_eps=1e-6)
    names = {**PROJECTIONS, "query_norm": "q_norm", "key_norm": "k_norm"}
    theirs = copied(Qwen3Attention(config, 0), ours, names)
    assert torch.allclose(ours(x), theirs(x, STILL, hidden())[0], atol=1e-5)


def test_gate_and_composite_as_qwen3_next() -> None:
    """Its gate comes from the upper half of each head's query projection, and its norms scale by 1 + weight."""
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextAttention
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextRotaryEmbedding as Rotary

    config = Qwen3NextConfig(
        **COMMON,
        num_key_value_heads=HEADS,
        head_dim=HEAD,
        rms_norm_eps=1e-6,
        rope_parameters={**ROPE, "partial_rotary_factor": 1.0},
    )
    x = tokens()
    for name, places in (("gated", STILL), ("composite", turning(config, Rotary))):
        ours = built(name)
        theirs: Any = Qwen3NextAttention(config, 0).eval()
        with torch.no_grad():
            for part in ("weight", "bias"):
                query, gate = (
                    getattr(own, part).view(HEADS, HEAD, *getattr(own, part).shape[1:])
                    for own in (ours.query, ours.gate)
                )
                getattr(theirs.q_proj, part).copy_(torch.cat([query, gate], 1).flatten(0, 1))
                for mine, other in (("key", "k_proj"), ("value", "v_proj"), ("out", "o_proj")):
                    getattr(getattr(theirs, other), part).copy_(getattr(getattr(ours, mine), part))
            if name == "gated":
                theirs.q_norm, theirs.k_norm = nn.Identity(), nn.Identity()
            else:
                theirs.q_norm.weight.copy_(ours.query_norm.weight - 1)
                theirs.k_norm.weight.copy_(ours.key_norm.weight - 1)
                ours.shift_key.zero_()
                ours.shift_value.zero_()
        assert torch.allclose(ours(x), theirs(x, places, hidden())[0], atol=1e-5), name


def test_token_shift_mixes_with_the_token_before() -> None:
    ours, x = built("composite"), tokens()
    plain = loaded(KNOWN["composite"].source)(DIM, HEADS)
    plain.load_state_dict({**ours.state_dict(), "shift_key": torch.zeros(DIM), "shift_value": torch.zeros(DIM)})
    before = torch.cat([torch.zeros(2, 1, DIM), x[:, :-1]], dim=1)
    by_key = x + ours.shift_key * (before - x)
    by_value = x + ours.shift_value * (before - x)
    key, value = plain.key, plain.value
    plain.key, plain.value = (nn.Identity(), nn.Identity())
    plain.key.forward = lambda _: key(by_key)
    plain.value.forward = lambda _: value(by_value)
    assert torch.allclose(ours(x), plain(x), atol=1e-5)


def test_differential_as_diffllama() -> None:
    from transformers.models.diffllama.modeling_diffllama import DiffLlamaAttention

    ours, x = built("differential"), tokens()
    config = DiffLlamaConfig(**COMMON, num_key_value_heads=HEADS, rms_norm_eps=1e-5)
    own = {"q1": "lambda_q1", "k1": "lambda_k1", "q2": "lambda_q2", "k2": "lambda_k2"}
    theirs = copied(DiffLlamaAttention(config, 0), ours, {**PROJECTIONS, **own})
    theirs.lambda_init = 0.5
    assert torch.allclose(ours(x), theirs(x, STILL, hidden())[0], atol=1e-5)


def test_mla_as_deepseek() -> None:
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
    from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3RotaryEmbedding as Rotary

    ours, x = built("mla"), tokens()
    config = DeepseekV3Config(
        **COMMON,
        num_key_value_heads=HEADS,
        q_lora_rank=None,
        kv_lora_rank=ours.latent,
        qk_rope_head_dim=ours.turning,
        qk_nope_head_dim=ours.resting,
        v_head_dim=HEAD,
        rope_interleave=False,
        rope_parameters=ROPE,
    )
    with torch.no_grad():  # theirs have no biases
        ours.query.bias.zero_()
        ours.up.bias.zero_()
    theirs = DeepseekV3Attention(config, 0).eval()
    parts = {
        "query": "q_proj",
        "down": "kv_a_proj_with_mqa",
        "norm": "kv_a_layernorm",
        "up": "kv_b_proj",
        "out": "o_proj",
    }
    weights = {f"{parts[name.split('.')[0]]}.{name.split('.')[1]}": w for name, w in ours.state_dict().items()}
    theirs.load_state_dict({name: w for name, w in weights.items() if name in theirs.state_dict()}, strict=True)
    assert torch.allclose(ours(x), theirs(x, turning(config, Rotary), hidden())[0], atol=1e-5)


@pytest.mark.parametrize("length", [11, 70])  # their chunks have 64 tokens
def test_gated_delta_rule_as_qwen3_next(length: int) -> None:
    from transformers.models.qwen3_next.modeling_qwen3_next import (
        torch_chunk_gated_delta_rule,
        torch_recurrent_gated_delta_rule,
    )

    gated_delta = loaded(KNOWN["gated-deltanet"].source, "gated_delta")
    q, k = (F.normalize(torch.randn(2, length, 3, 6), dim=-1) for _ in range(2))
    v, g, beta = torch.randn(2, length, 3, 8), -torch.rand(2, length, 3), torch.rand(2, length, 3)
    ours = gated_delta(*(part.transpose(1, 2) for part in (q, k, v, g, beta))).transpose(1, 2)
    for theirs in (torch_chunk_gated_delta_rule, torch_recurrent_gated_delta_rule):
        answer = theirs(q, k, v, g=g, beta=beta, initial_state=None, output_final_state=False)[0]
        assert torch.allclose(ours, answer, atol=1e-5)


def test_softmax1_as_gpt_oss_with_a_sink_of_zero() -> None:
    from transformers.models.gpt_oss.modeling_gpt_oss import eager_attention_forward

    ours, x = built("softmax1"), tokens()
    layer: Any = nn.Module()
    layer.sinks, layer.num_key_value_groups = torch.zeros(HEADS), 1
    q, k, v = (ours.split(project(x)) for project in (ours.query, ours.key, ours.value))
    mixed, _ = eager_attention_forward(layer, q, k, v, hidden(), scaling=HEAD**-0.5)
    assert torch.allclose(ours(x), ours.out(mixed.flatten(2)), atol=1e-5)


# No model of transformers has these: the recurrence or sum of the paper, token by token.


def test_linear_attention_as_a_recurrence() -> None:
    ours, x = built("linear"), tokens()
    q, k, v = (ours.split(project(x)) for project in (ours.query, ours.key, ours.value))
    q, k = F.elu(q) + 1, F.elu(k) + 1
    state, norm, answers = torch.zeros(2, HEADS, HEAD, HEAD), torch.zeros(2, HEADS, HEAD), []
    for t in range(LENGTH):
        state = state + k[:, :, t, :, None] * v[:, :, t, None, :]
        norm = norm + k[:, :, t]
        answers.append((q[:, :, t, None] @ state)[:, :, 0] / (q[:, :, t] * norm).sum(-1, keepdim=True))
    assert torch.allclose(ours(x), ours.out(torch.stack(answers, 1).flatten(2)), atol=1e-5)


def test_retention_as_a_recurrence() -> None:
    ours, x = built("retention"), tokens()
    q, k, v = (ours.split(project(x)) for project in (ours.query, ours.key, ours.value))
    rotated = loaded(KNOWN["retention"].source, "rotated")
    q, k = rotated(q), rotated(k)
    fade = torch.tensor([1 - 2.0 ** (-5 - head) for head in range(HEADS)])[:, None, None]
    state, answers = torch.zeros(2, HEADS, HEAD, HEAD), []
    for t in range(LENGTH):
        state = fade * state + k[:, :, t, :, None] * v[:, :, t, None, :]
        answers.append((q[:, :, t, None] @ state)[:, :, 0])
    normed = F.rms_norm(torch.stack(answers, 1), (HEAD,), eps=1e-5).flatten(2)
    answer = ours.out(normed * F.silu(ours.gate(x)))
    assert torch.allclose(ours(x), answer, atol=1e-4)  # a norm of what nearly cancels makes roundings ten times larger


def test_forgetting_as_products_of_gates() -> None:
    ours, x = built("forgetting"), tokens()
    q, k, v = (ours.split(project(x)) for project in (ours.query, ours.key, ours.value))
    gates = torch.sigmoid(ours.forget(x))
    answer = torch.zeros(2, LENGTH, HEADS, HEAD)
    for i in range(LENGTH):
        kept = torch.stack([gates[:, j + 1 : i + 1].prod(dim=1) for j in range(i + 1)], dim=-1)  # [B, H, i + 1]
        weights = kept * torch.exp((q[:, :, i, None] * k[:, :, : i + 1]).sum(-1) / math.sqrt(HEAD))
        answer[:, i] = ((weights / weights.sum(-1, keepdim=True))[:, :, None] @ v[:, :, : i + 1])[:, :, 0]
    assert torch.allclose(ours(x), ours.out(answer.flatten(2)), atol=1e-5)


@pytest.mark.parametrize(("name", "after"), [("primer", nn.Identity()), ("gated-deltanet", nn.SiLU())])
def test_convolutions_as_torch(name: str, after: nn.Module) -> None:
    ours = loaded(KNOWN[name].source, "Convolution")(DIM)
    with torch.no_grad():
        ours.weight += torch.randn(3, DIM)
    x = tokens()
    kernel = ours.weight.flip(0).T[:, None]  # torch's last weight meets the token itself
    answer = F.conv1d(F.pad(x.transpose(1, 2), (2, 0)), kernel, groups=DIM).transpose(1, 2)
    assert torch.allclose(ours(x), after(answer), atol=1e-5)
