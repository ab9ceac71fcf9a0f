"""The key-value cache of a decoding batch: prompts of unlike length side by side, room for the answers, rows that leave."""

from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer


class RoomyLayer(DynamicLayer):
    """A full-attention layer that writes new keys and values into room kept for them, where `DynamicLayer` copies all each step."""

    def __init__(self, keys: Tensor, values: Tensor, length: int) -> None:
        super().__init__()
        self.dtype, self.device = keys.dtype, keys.device
        self.is_initialized = True
        self._keys, self._values, self._length = keys, values, length
        self._show()

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append; returns all keys and values so far."""
        end = self._length + key_states.shape[-2]
        self._keys[:, :, self._length : end] = key_states
        self._values[:, :, self._length : end] = value_states
        self._length = end
        self._show()
        return self.keys, self.values

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows."""
        self._keys = self._keys.index_select(0, indices)
        self._values = self._values.index_select(0, indices)
        self._show()

    def _show(self) -> None:
        self.keys = self._keys[:, :, : self._length]
        self.values = self._values[:, :, : self._length]


class WindowLayer(DynamicSlidingWindowLayer):
    """A sliding-window layer that starts from prompts which are already there."""

    def __init__(self, keys: Tensor, values: Tensor, length: int, window: int) -> None:
        super().__init__(sliding_window=window)
        self.lazy_initialization(keys, values)
        self.keys, self.values, self.cumulative_length = keys, values, length


def cache_for(model: PreTrainedModel, part: DynamicCache, rows: int, length: int, room: int) -> DynamicCache:
    """A cache for `rows` prompts padded on the left to `length`, to be filled by `place`; `part` is one of the prefills.

    `room` more tokens can be appended without copying what is there.
    """
    cache = DynamicCache(config=model.config)
    for number, layer in enumerate(cache.layers):
        sample = part.layers[number].keys
        sliding = isinstance(layer, DynamicSlidingWindowLayer)
        columns = min(length, layer.sliding_window - 1) if sliding else length + room
        keys, values = (sample.new_zeros(rows, sample.shape[1], columns, sample.shape[3]) for _ in range(2))
        if sliding:
            cache.layers[number] = WindowLayer(keys, values, length, layer.sliding_window)
        else:
            cache.layers[number] = RoomyLayer(keys, values, length)
    return cache


def place(cache: DynamicCache, part: DynamicCache, sources: Tensor, targets: Tensor) -> None:
    """Copy the rows `sources` of a prefill to the rows `targets` of `cache`; a prompt with several samples goes to several rows."""
    for layer, own in zip(cache.layers, part.layers, strict=True):
        columns, width = layer.keys.shape[2], own.keys.shape[2]
        for mine, theirs in ((layer.keys, own.keys), (layer.values, own.values)):
            mine[:, :, columns - width :].index_copy_(0, targets, theirs.index_select(0, sources))


def keep_rows(cache: DynamicCache, indices: Tensor) -> None:
    """Let all rows leave but these."""
    for layer in cache.layers:
        layer.batch_select_indices(indices)
