"""Weights of a model by name: in memory, or read from the files of a folder one tensor at a time."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from evolora_core.errors import HostError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import MIB, read_text
from evolora_core.foreign.text import one_line

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LAYER = re.compile(r"(.*?)\.(\d{1,4})\.(.+)")  # the first number of a name is that of its layer
HEADS = ("lm_head.weight", "embed_out.weight")
BEHIND = math.nextafter(1.0, 0.0)  # the place of what comes after the last layer
LAYER_COUNTS = ("num_hidden_layers", "n_layer", "num_layers")  # keys of config.json
FLOATS = ("F64", "F32", "F16", "BF16")


class Weights(Protocol):
    """A model's weights.

    config    its configuration as transformers reads config.json: every default filled in
    names     of its tensors; a head that is the embedding (`tie_word_embeddings`) is not among them
    """

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a tensor."""

    def get(self, name: str) -> Tensor:
        """A tensor, float32 on the CPU. It is not to be written to."""


@dataclass(frozen=True)
class Loaded:
    """Weights in memory; `tensors` are float32."""

    config: Mapping[str, Any]
    tensors: Mapping[str, Tensor]

    @classmethod
    def of(cls, model: "PreTrainedModel") -> "Loaded":
        """The weights of a model; where they are float32 on the CPU they share its memory."""
        config = model.config.to_dict() | {"architectures": [type(model).__name__]}
        return cls(config, {name: own.detach().to("cpu", torch.float32) for name, own in model.named_parameters()})

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)

    def get(self, name: str) -> Tensor:
        return self.tensors[name]


class FolderWeights:
    """Weights of a folder in Hugging Face's form. Its files are mapped into memory; a tensor is read when asked for."""

    def __init__(self, folder: Path) -> None:
        """HostError, one line, for a folder that is not whole, not safetensors, quantised, or no causal language model.
        Only headers are read."""
        from evolora_core.language.hosts.folder import load_config, weight_files

        self.folder = folder
        self._files = {name: file for path in weight_files(folder) for name, file in _opened(folder, path)}
        raw = _raw_config(folder)
        found = layers_in(tuple(self._files))
        for key in LAYER_COUNTS:  # before transformers believes it: some fill lists of that length
            if raw.get(key, found) != found:
                raise HostError(
                    f"host {folder}: config.json: {key} is {one_line(repr(raw[key]), 40)}, the weights have {found} "
                    "layers; save the model anew"
                )
        if raw.get("quantization_config"):
            raise HostError(f"host {folder}: config.json: its weights are quantised; name the model in float form")
        config: dict[str, Any] = load_config(folder).to_dict()
        self.config: Mapping[str, Any] = config
        self.names: tuple[str, ...] = tuple(
            name
            for name, file in self._files.items()
            if file.get_slice(name).get_dtype() in FLOATS
            and not name.endswith("rotary_emb.inv_freq")  # older files hold this constant
            and not (name.endswith(HEADS) and config.get("tie_word_embeddings"))
        )

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a tensor, from the header."""
        return tuple(self._files[name].get_slice(name).get_shape())

    def get(self, name: str) -> Tensor:
        """A tensor [*shape], float32. Where the file has float32 it lies in the mapped file."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor.to(torch.float32)

    def rows(self, name: str, step: int) -> Tensor:
        """Every so many rows of a tensor, float32: nothing else of it is read from the file."""
        tensor: Tensor = self._files[name].get_tensor(name)
        return tensor[::step].to(torch.float32)


def open_model(word: str) -> Weights:
    """The weights of a described host, a hub id, a folder, or a GGUF file (in memory, dequantised).

    HostError, one line, where there are none. What is not on this machine is fetched.
    """
    return open_weights(model_path(word))


def open_weights(path: Path) -> Weights:
    """The weights of a folder or a GGUF file."""
    from evolora_core.language.hosts.gguf import load_gguf

    if path.is_file():
        return Loaded.of(load_gguf(path, torch.float32)[0])
    return FolderWeights(path)


def model_path(word: str) -> Path:
    """The folder, or the GGUF file, that a word stands for."""
    from evolora_core.language.hosts.catalog import find_host
    from evolora_core.language.hosts.fetch import fetch_host
    from evolora_core.language.hosts.host import _gguf_in

    place = find_host(word)
    path = place.path if place.ready else fetch_host(word)
    return _gguf_in(path) or path


def layer_of(name: str) -> tuple[str, int, str] | None:
    """`model.layers.3.mlp.up_proj.weight` as ("model.layers", 3, "mlp.up_proj.weight"); None outside of the layers."""
    match = LAYER.fullmatch(name)
    return (match[1], int(match[2]), match[3]) if match else None


@lru_cache(maxsize=256)
def layers_in(names: tuple[str, ...]) -> int:
    """How many layers these tensors are of."""
    return max((found[1] + 1 for name in names if (found := layer_of(name))), default=0)


def place_of(name: str, layers: int) -> float:
    """Where a tensor lies in a model of so many layers: from 0 (embeddings, first layer) to just below 1 (last norm and
    head). Groups of layers are told apart by it."""
    found = layer_of(name)
    if found:
        return found[1] / layers
    first = "embed_out" not in name and ("embed" in name or name.endswith(("wte.weight", "wpe.weight")))
    return 0.0 if first else BEHIND


def drift(base: Weights, other: Weights) -> float:
    """|θ − θ₀| / |θ₀|: how far a model is from its base, as a share of the base's own length. Both have the same
    names and shapes."""
    moved, whole = 0.0, 0.0
    for name in base.names:
        start = base.get(name)
        moved += float(torch.linalg.vector_norm(other.get(name) - start, dtype=torch.float64)) ** 2
        whole += float(torch.linalg.vector_norm(start, dtype=torch.float64)) ** 2
    return math.sqrt(moved / whole) if whole else 0.0


def _opened(folder: Path, path: Path) -> list[tuple[str, Any]]:
    """Names of the tensors of a file, each with the open file."""
    from safetensors import SafetensorError, safe_open

    try:
        file: Any = safe_open(path, framework="pt")
        return [(name, file) for name in file.keys()]  # noqa: SIM118  # it is no mapping
    except (SafetensorError, OSError, ValueError) as error:
        raise HostError(f"host {folder}: {path.name}: {one_line(error, 160)}; save the weights anew") from error


def _raw_config(folder: Path) -> dict[str, Any]:
    try:
        found = read_json(read_text(folder / "config.json", 4 * MIB))
        if isinstance(found, dict):
            return found
        reason = "is no JSON object"
    except (OSError, ValueError) as error:
        reason = one_line(error, 160)
    raise HostError(f"host {folder}: config.json: {reason}; save the model anew")
