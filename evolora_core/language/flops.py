"""What answers and training steps cost in floating-point operations.

Budget FLOPs are algorithmic: the matmuls that the architecture needs for non-padding tokens, with a key-value cache,
without sharing prefixes. The conventions are those of `torch.utils.flop_counter` on eager attention (a multiply-add is
two operations, only matmuls count), against which they are tested:

- a prefill of T tokens computes the dense T x T score matrix, in sliding-window layers too;
- a decoding step attends to the cached tokens and itself, in sliding-window layers at most to the window;
- the LM head runs once per new token when generating, and once per answer token when training;
- training is forward plus backward through a frozen host: every activation gradient but that of the first layer's input
  projections (the embeddings need none), no weight gradient of the host, and both factor gradients of the adapters.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evolora_core.language.hosts.layers import adapted_layers, last_mlp

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class FlopModel:
    """FLOPs of one host, and of adapters on all its linear layers. Arguments may be arrays; results are int64 arrays.

    linear      multiply-adds a token of all linear layers but the LM head
    entering    those of them whose input is the (normalised) embedding, which needs no gradient
    head        multiply-adds of the LM head at one position
    adapter     multiply-adds a token and rank: sum of in + out features over the adapted layers
    entering_in sum of in features over the layers of `entering`
    closing     multiply-adds a token of the last layer's MLP, which generation runs at the last position alone
    closing_sum sum of in + out features over its layers
    attention   per layer: (multiply-adds of QKᵀ and of AV together for one pair of tokens, window; 0 = all tokens)
    """

    linear: int
    entering: int
    head: int
    adapter: int
    entering_in: int
    closing: int
    closing_sum: int
    attention: tuple[tuple[int, int], ...]

    @classmethod
    def from_model(cls, model: "PreTrainedModel") -> "FlopModel":
        """Read the structure of a Hugging Face decoder: its linear layers, heads and windows."""
        config = model.config.get_text_config()
        layers = adapted_layers(model)
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        window = getattr(config, "sliding_window", None) or 0
        alike = "sliding_attention" if window else "full_attention"  # Mistral and Phi-3 name no kinds of layers
        kinds = getattr(config, "layer_types", None) or [alike] * config.num_hidden_layers
        windows = [window if kind == "sliding_attention" else 0 for kind in kinds]
        facing = [ENTERING, ENTERING_MLP] if _parallel(config) else [ENTERING]
        entering = [layer for name, layer in layers.items() if any(form.search(name) for form in facing)]
        last = last_mlp(model)
        inside = set() if last is None else {id(module) for module in last.modules()}
        closing = [layer for layer in layers.values() if id(layer) in inside]
        return cls(
            linear=sum(layer.weight.numel() for layer in layers.values()),
            entering=sum(layer.weight.numel() for layer in entering),
            head=model.get_output_embeddings().weight.numel(),
            adapter=sum(layer.in_features + layer.out_features for layer in layers.values()),
            entering_in=sum(layer.in_features for layer in entering),
            closing=sum(layer.weight.numel() for layer in closing),
            closing_sum=sum(layer.in_features + layer.out_features for layer in closing),
            attention=tuple((2 * config.num_attention_heads * head_dim, window) for window in windows),
        )

    def generate_flops(self, prompt_tokens: ArrayLike, new_tokens: ArrayLike, rank: ArrayLike = 0) -> Any:
        """An answer of `new_tokens` (the end token included): prefill, then a step for each new token but the last.

        `rank` 0 is the bare host. With `new_tokens` 0 it is the prefill alone, without LM head.
        """
        prompt, new, rank = _floats(prompt_tokens, new_tokens, rank)
        steps = np.maximum(new - 1, 0)
        total = (prompt + steps) * (self.linear + rank * self.adapter) + new * self.head
        for pair, window in self.attention:
            total = total + pair * (prompt * prompt + _attended(prompt, steps, window))
        return _integers(2 * total)

    def dearness(self, rank: int) -> float:
        """How many times the bare host's linear layers those with an adapter cost: an upper bound for any answer."""
        return float((self.linear + rank * self.adapter) / self.linear)

    def step_flops(self, length: ArrayLike, rank: ArrayLike = 0) -> Any:
        """One decoding step that makes the cached sequence `length` tokens long, its own token included."""
        length, rank = _floats(length, rank)
        total = self.linear + rank * self.adapter + self.head
        for pair, window in self.attention:
            total = total + pair * (np.minimum(length, window) if window else length)
        return _integers(2 * total)

    def extend_flops(self, before: ArrayLike, tokens: ArrayLike, rank: ArrayLike = 0) -> Any:
        """A pass of `tokens` after `before` cached ones, with the dense scores of all; the last layer's MLP and the LM
        head run at one position.
        """
        before, tokens, rank = _floats(before, tokens, rank)
        total = tokens * (self.linear + rank * self.adapter) + self.head
        total = total - (tokens - 1) * (self.closing + rank * self.closing_sum)
        for pair, _ in self.attention:
            total = total + pair * tokens * (before + tokens)
        return _integers(2 * total)

    def score_flops(self, total_tokens: ArrayLike, answer_tokens: ArrayLike, rank: ArrayLike = 0) -> Any:
        """A pass over one row of prompt and answer that gives the probabilities of the answer's tokens."""
        return _integers(2 * self._forward(*_floats(total_tokens, answer_tokens, rank)))

    def train_flops(self, total_tokens: ArrayLike, answer_tokens: ArrayLike, rank: ArrayLike) -> Any:
        """Forward and backward of one row of prompt and answer, the loss at its answer tokens (end token included)."""
        tokens, answer, rank = _floats(total_tokens, answer_tokens, rank)
        scores = self._scores(tokens)
        # Activation gradients through frozen weights.
        inputs = tokens * (self.linear - self.entering) + answer * self.head
        # Each adapter factor has a gradient of its own and passes one on, but for those that face the embeddings.
        adapters = tokens * rank * (2 * self.adapter - self.entering_in)
        return _integers(2 * (self._forward(tokens, answer, rank) + inputs + adapters + 2 * scores))

    def _forward(self, tokens: np.ndarray, answer: np.ndarray, rank: np.ndarray) -> np.ndarray:
        """Multiply-adds of a pass whose LM head runs at the answer's tokens."""
        result: np.ndarray = tokens * (self.linear + rank * self.adapter) + self._scores(tokens) + answer * self.head
        return result

    def _scores(self, tokens: np.ndarray) -> np.ndarray:
        """Multiply-adds of the attention of so many tokens with one another."""
        result: np.ndarray = sum(pair for pair, _ in self.attention) * tokens * tokens
        return result


# Layers that face the embeddings, into which no gradient is passed on.
ENTERING = re.compile(
    r"\.(layers|h|blocks)\.0\.[a-z_]*attn?[a-z_]*(\.attention)?"
    r"\.(q_proj|k_proj|v_proj|qkv_proj|query_key_value|c_attn|Wqkv)$"
)
ENTERING_MLP = re.compile(r"\.(layers|h)\.0\.mlp\.(gate_proj|up_proj|gate_up_proj|fc1|fc_in|dense_h_to_4h)$")


def _parallel(config: Any) -> bool:
    """Whether attention and MLP of a layer have the same input."""
    told = (getattr(config, key, False) for key in ("use_parallel_residual", "parallel_attn"))
    return any(told) or config.model_type in ("codegen", "cohere", "cohere2", "gptj", "phi")


def _floats(*values: ArrayLike) -> tuple[np.ndarray, ...]:
    """Float64 counts: exact to 2^53, and means of token counts are allowed."""
    return tuple(np.asarray(value, dtype=np.float64) for value in values)


def _integers(value: np.ndarray) -> Any:
    return np.rint(value).astype(np.int64)


def _attended(prompt: np.ndarray, steps: np.ndarray, window: int) -> np.ndarray:
    """Tokens attended to in all decoding steps together: Σ over i = 1 … steps of min(prompt + i, window)."""
    free = np.clip(window - prompt, 0, steps) if window else steps  # steps that still see everything
    result: np.ndarray = free * prompt + free * (free + 1) / 2 + (steps - free) * window
    return result
