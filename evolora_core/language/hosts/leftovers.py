"""Tensors of older files that are no weights: constants that transformers computes by itself today."""

import re
from collections.abc import Iterable
from typing import Any

# Masks of GPT-2's relatives and of GPT-NeoX, frequencies of rotary positions, tables of sines.
_CONSTANT = re.compile(
    r"(^|.*\.)((attn|attention)\.(attention\.)?(masked_)?bias|attn\.causal_mask|rotary_emb\.inv_freq"
    r"|position_ids|embed_positions\.weights|decoder\.version)"
)


def is_constant(name: str) -> bool:
    """Whether a tensor of this name is a constant that transformers computes by itself."""
    return _CONSTANT.fullmatch(name) is not None


def unused(names: Iterable[str], model: Any) -> list[str]:
    """Those names that the model neither knows nor leaves out by design, as it does the layers that predict several
    tokens."""
    by_design = [re.compile(pattern) for pattern in model._keys_to_ignore_on_load_unexpected or ()]
    return sorted(
        name for name in names if not is_constant(name) and not any(pattern.search(name) for pattern in by_design)
    )
