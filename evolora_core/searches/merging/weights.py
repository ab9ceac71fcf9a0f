"""Weights of a model by name: in memory, or read from the files of a folder one tensor at a time.

What looks at headers alone imports no torch.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evolora_core.errors import HostError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import MIB, read_text
from evolora_core.foreign.text import one_line, one_value
from evolora_core.searches.merging.headers import KINDS, Stored, read_headers
from evolora_core.searches.merging.paper import named_as_loaded

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

LAYER = re.compile(r"(.*?)\.(\d{1,4})\.(.+)")  # the first number of a name is that of its layer
HEADS = ("lm_head.weight", "embed_out.weight")
WORDS = ("embed_tokens.weight", "embed_in.weight", "wte.weight", "word_embeddings.weight")  # embeddings of tokens
TIED = "tie_word_embeddings"
BEHIND = math.nextafter(1.0, 0.0)  # the place of what comes after the last layer
LAYER_COUNTS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")  # keys of config.json


class Described(Protocol):
    """What a model's weights are, told without loading them.

    config    its configuration as transformers reads config.json: every default filled in
    names     of its tensors; a head that is the embedding (`tie_word_embeddings`) is not among them
    """

    @property
    def config(self) -> Mapping[str, Any]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a tensor."""

    def rows(self, name: str, step: int) -> NDArray[np.float32]:
        """Every so many rows of a tensor; of a number alone, itself."""


class Weights(Described, Protocol):
    """A model's weights."""

    def get(self, name: str) -> "Tensor":
        """A tensor, float32 on the CPU. It is not to be written to."""

    def stored(self, name: str) -> str:
        """The name that files of this kind of model give to the tensor called `name` after loading."""


@dataclass(frozen=True)
class Loaded:
    """Weights in memory; `tensors` are float32."""

    config: Mapping[str, Any]
    tensors: Mapping[str, "Tensor"]

    @classmethod
    def of(cls, model: "PreTrainedModel") -> "Loaded":
        """The weights of a model, wherever it computes: merges are made on the CPU, which has room for all models.
        Where they are float32 there they share its memory.
        """
        import torch

        config = model.config.to_dict() | {"architectures": [type(model).__name__]}
        head, words = model.get_output_embeddings(), model.get_input_embeddings()
        if TIED in config and head is not None:  # transformers ties none that files have apart, whatever it says
            config[TIED] = head.weight is words.weight
        return cls(config, {name: own.detach().to("cpu", torch.float32) for name, own in model.named_parameters()})

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(self.tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self.tensors[name].shape)

    def get(self, name: str) -> "Tensor":
        return self.tensors[name]

    def stored(self, name: str) -> str:
        return name

    def rows(self, name: str, step: int) -> NDArray[np.float32]:
        return np.atleast_1d(self.tensors[name].numpy())[::step]


class FolderHeaders:
    """What a folder in Hugging Face's form says of its weights, read from headers alone; rows are read when asked
    for."""

    def __init__(self, folder: Path, fill: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """`fill` gives the defaults that config.json leaves out. HostError, one line, for a folder that is not whole,
        not safetensors, or quantised."""
        from evolora_core.language.hosts.folder import weight_files

        self.folder = folder
        self._stored = read_headers(folder, weight_files(folder))
        raw = _raw_config(folder)
        found = layers_in(tuple(self._stored))
        for key in LAYER_COUNTS:  # before transformers believes it: some fill lists of that length
            if raw.get(key, found) != found:
                raise HostError(
                    f"host {folder}: config.json: {key} is {one_value(raw[key], 40)}, the weights have {found} "
                    "layers; save the model anew"
                )
        if raw.get("quantization_config"):
            raise HostError(f"host {folder}: config.json: its weights are quantised; name the model in float form")
        self.config = fill(raw)
        if self.config.get(TIED):
            _check_tied(folder, self._stored)
        self.names: tuple[str, ...] = tuple(
            name
            for name, stored in self._stored.items()
            if stored.kind in KINDS
            and not name.endswith("rotary_emb.inv_freq")  # older files hold this constant
            and not (name.endswith(HEADS) and self.config.get(TIED))
        )

    def shape(self, name: str) -> tuple[int, ...]:
        """Sizes of a tensor, from the header."""
        return self._stored[name].shape

    def rows(self, name: str, step: int) -> NDArray[np.float32]:
        """Every so many rows of a tensor: nothing else of it is read from the file."""
        return self._stored[name].rows(step)


def _check_tied(folder: Path, stored: Mapping[str, Stored]) -> None:
    """HostError if a head differs from the embedding though config.json ties them; transformers would use that head."""
    heads, words = ([own for name, own in stored.items() if name.endswith(ends)] for ends in (HEADS, WORDS))
    if heads and words and heads[0].kind in KINDS and words[0].kind in KINDS and not heads[0].equals(words[0]):
        raise HostError(
            f"host {folder}: config.json: {TIED} is true, but {one_line(heads[0].name, 100)} is not the embedding; "
            "set it to false"
        )


class FolderWeights(FolderHeaders):
    """Weights of a folder in Hugging Face's form; a tensor is read when asked for."""

    def __init__(self, folder: Path, mapped: bool = True) -> None:
        """mapped   whether tensors lie in the files, which are mapped into memory, as far as they are float32 there; or
                    each is read anew when asked for, so that what was used for another one takes no memory

        HostError, one line, for a folder that is not whole, not safetensors, quantised, or no causal language model.
        Only headers are read.
        """
        from evolora_core.language.hosts.folder import load_config

        loaded: list[Any] = []

        def fill(raw: dict[str, Any]) -> Mapping[str, Any]:
            loaded.append(load_config(folder))
            config: dict[str, Any] = loaded[0].to_dict()
            return config

        super().__init__(folder, fill)
        self.naming = named_as_loaded(folder, {name: self.shape(name) for name in self.names}, loaded[0])
        self.names = tuple(self.naming.stored)
        self._stored = {name: self._stored[own] for name, own in self.naming.stored.items()}
        self._mapped = mapped
        self._files: dict[Path, Any] = {}

    def get(self, name: str) -> "Tensor":
        """A tensor [*shape], float32."""
        import torch

        stored = self._stored[name]
        tensor: Tensor
        if self._mapped:
            tensor = self._open(stored.file).get_tensor(stored.name)
        else:
            tensor = torch.from_numpy(stored.read())
            tensor = tensor.view(torch.bfloat16) if stored.kind == "BF16" else tensor
        return tensor.to(torch.float32)

    def stored(self, name: str) -> str:
        """What these files call a tensor with that name, a first part aside."""
        for renaming in self.naming.back:
            name = renaming.rename_source_key(name)[0]
        return name

    def _open(self, path: Path) -> Any:
        from safetensors import safe_open

        if path not in self._files:
            self._files[path] = safe_open(path, framework="pt")
        return self._files[path]


def open_model(word: str) -> Weights:
    """The weights of a described host, a hub id, a folder, or a GGUF file (in memory, dequantised).

    HostError, one line, where there are none. What is not on this machine is fetched.
    """
    return open_weights(model_path(word))


def open_again(word: str) -> Weights:
    """The weights that `open_loaded` gave a run, tensor by tensor as it had them: of the files, which take less memory,
    unless they have each expert by itself."""
    weights = open_weights(model_path(word), mapped=False)
    return open_loaded(word) if isinstance(weights, FolderWeights) and weights.naming.joined else weights


def open_loaded(word: str) -> Loaded:
    """The same in memory, each tensor as a loaded model has it: files have each expert by itself. HostError also for a
    model that keeps numbers beside its weights, such as the biases of DeepSeek's router, which no merge would have."""
    weights = open_model(word)  # HostError, one line, where something is wrong with the files
    if isinstance(weights, Loaded):
        return weights
    import torch

    from evolora_core.language.hosts.folder import load_model

    model = load_model(model_path(word), torch.float32)
    if beside := sorted(model.state_dict().keys() & {name for name, _ in model.named_buffers()}):
        raise HostError(f"host {word}: {beside[0]} is kept beside its weights and cannot be merged; take another model")
    return Loaded.of(model)


def open_weights(path: Path, mapped: bool = True) -> Weights:
    """The weights of a folder or a GGUF file; `mapped` as in `FolderWeights`."""
    if path.is_file():
        import torch

        from evolora_core.language.hosts.gguf import load_gguf

        return Loaded.of(load_gguf(path, torch.float32)[0])
    return FolderWeights(path, mapped)


def model_path(word: str) -> Path:
    """The folder, or the GGUF file, that a word stands for."""
    from evolora_core.language.hosts.catalog import find_host

    place = find_host(word)
    if place.ready:
        path = place.path
    else:
        from evolora_core.language.hosts.fetch import fetch_host

        path = fetch_host(word)
    if any(path.glob("*.safetensors")):
        return path
    from evolora_core.language.hosts.gguf import gguf_in

    return gguf_in(path) or path


def files_hash(word: str) -> str:
    """Hash over the files of the model that a word stands for, which is fetched if it is not here."""
    from evolora_core.engine.identity import host_files_hash
    from evolora_core.language.hosts.fetch import fetch_host

    return host_files_hash(fetch_host(word))


def check_unchanged(word: str, files: str) -> None:
    """HostError unless the files of a model still have this hash."""
    if files_hash(word) != files:
        raise HostError(
            f"host {one_line(word, 200)}: its files are others than when the run began; put those back, or run the "
            "suite again"
        )


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
    import torch

    moved, whole = 0.0, 0.0
    for name in base.names:
        start = base.get(name)
        moved += float(torch.linalg.vector_norm(other.get(name) - start, dtype=torch.float64)) ** 2
        whole += float(torch.linalg.vector_norm(start, dtype=torch.float64)) ** 2
    return math.sqrt(moved / whole) if whole else 0.0


def _raw_config(folder: Path) -> dict[str, Any]:
    try:
        found = read_json(read_text(folder / "config.json", 4 * MIB))
        if isinstance(found, dict):
            return found
        reason = "is no JSON object"
    except (OSError, ValueError) as error:
        reason = one_line(error, 160)
    raise HostError(f"host {folder}: config.json: {reason}; save the model anew")
