"""The key-value cache of a decoding batch: prompts of unlike length, room for the answers, rows that leave."""

from typing import Any

from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from evolora_core.engine.probes import reached


class RoomyLayer(DynamicLayer):
    """A full-attention layer with room for new keys and values, where `DynamicLayer` copies all of them each step."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self._keys, self._values, self._length = keys, values, length
        self._show()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append; returns all keys and values so far."""
        end = self._length + key_states.shape[-2]
        self._keys[:, :, self._length : end] = key_states
        self._values[:, :, self._length : end] = value_states
        self._length = end
        return self._show()

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows."""
        self._keys = self._keys.index_select(0, indices)
        self._values = self._values.index_select(0, indices)
        self._show()

    def _show(self) -> tuple[Tensor, Tensor]:
        self.keys, self.values = self._keys[:, :, : self._length], self._values[:, :, : self._length]
        return self.keys, self.values


class WindowLayer(DynamicSlidingWindowLayer):
    """A sliding-window layer that starts from prompts which are already there."""

    def __init__(self, keys: Tensor, values: Tensor, length: int, window: int) -> None:
        super().__init__(sliding_window=window)
        self.lazy_initialization(keys, values)
        self.keys, self.values, self.cumulative_length = keys, values, length


def cache_for(model: PreTrainedModel, part: DynamicCache, rows: int, length: int, room: int) -> DynamicCache:
    """A cache for `rows` prompts padded on the left to `length`, for `place` to fill; `part` is one of the prefills.

    `room` more tokens can be appended without copying what is there.
    """
    reached("cache", rows=rows)
    cache = DynamicCache(config=model.config)
    for number, (layer, sample) in enumerate(zip(_layers(cache), _layers(part), strict=True)):
        window = layer.sliding_window if isinstance(layer, DynamicSlidingWindowLayer) else 0
        columns = min(length, window - 1) if window else length + room
        _, heads, _, width = sample.keys.shape
        keys, values = (sample.keys.new_zeros(rows, heads, columns, width) for _ in range(2))
        cache.layers[number] = WindowLayer(keys, values, length, window) if window else RoomyLayer(keys, values, length)
    return cache


def place(
    cache: DynamicCache, part: DynamicCache, sources: Tensor, targets: Tensor, skip: int = 0, until: int | None = None
) -> None:
    """Copy rows `sources` of a prefill to rows `targets` of `cache`; a prompt of several samples goes to several.

    The columns, but for the first `skip` of the prefill, become the last ones of the cache's first `until` (all).
    """
    for layer, own in zip(_layers(cache), _layers(part), strict=True):
        end = layer.keys.shape[2] if until is None else until
        for mine, theirs in ((layer.keys, own.keys), (layer.values, own.values)):
            taken = theirs[:, :, skip:]
            mine[:, :, end - taken.shape[2] : end].index_copy_(0, targets, taken.index_select(0, sources))


def counts_columns(model: PreTrainedModel) -> bool:
    """Whether attention depends on how many columns two tokens are apart, also where some between them are empty: some
    layers attend to the last few columns only, as the cache knows or GPT-Neo alone, or MPT's slopes fall with each.
    """
    config: Any = model.config
    windows = any(isinstance(layer, DynamicSlidingWindowLayer) for layer in DynamicCache(config=config).layers)
    return windows or "local" in getattr(config, "attention_layers", ()) or config.model_type == "mpt"


def keep_rows(cache: DynamicCache, indices: Tensor) -> None:
    """Let all rows leave but these."""
    for layer in _layers(cache):
        layer.batch_select_indices(indices)


def _layers(cache: DynamicCache) -> list[Any]:
    """The layers, all of which hold keys and values in the architectures that we serve."""
    return cache.layers
