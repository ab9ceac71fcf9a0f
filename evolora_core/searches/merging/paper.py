"""A model on paper: the tensors that a configuration asks for, and what those of a folder are called once transformers
has loaded them. No number is read.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.errors import HostError
from evolora_core.foreign.text import error_line, one_line

if TYPE_CHECKING:
    from transformers.core_model_loading import WeightConverter, WeightRenaming, WeightTransform

Sizes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Naming:
    """How files name the tensors of a model.

    stored   each tensor's name in the loaded model, with that in the files
    joined   whether the loaded model has tensors that are made of several in the files, as those of experts are; then
             all but a first part of the names in `stored` are those of the files
    back     makes names of files of those of the loaded model
    """

    stored: Mapping[str, str]
    joined: bool
    back: Sequence["WeightTransform"]


@dataclass(frozen=True)
class Conversion:
    """What transformers makes of names and tensors in files of a model's kind: GPT-NeoX's head has another name there,
    and each expert its own matrices. Names that only very old files have are not told."""

    renamings: Sequence["WeightRenaming"]
    converters: Sequence["WeightConverter"]

    @cached_property
    def _undoing(self) -> list["WeightTransform"]:
        return [own.reverse_transform() for own in self.converters]

    @classmethod
    def of(cls, model: Any) -> "Conversion":
        """That of a model."""
        from transformers.conversion_mapping import get_model_conversion_mapping
        from transformers.core_model_loading import WeightConverter, WeightRenaming

        found = get_model_conversion_mapping(model, add_legacy=False)
        return cls(
            [own for own in found if isinstance(own, WeightRenaming)],
            [own for own in found if isinstance(own, WeightConverter)],
        )

    def renamed(self, name: str) -> str:
        """What the loaded model calls a tensor of the files, unless it is converted."""
        from transformers.core_model_loading import apply_renamings

        return apply_renamings(name, list(self.renamings))

    def converts(self, name: str) -> bool:
        """Whether a tensor of the files, by its name in the loaded model, is converted to others."""
        return any(own.rename_source_key(name)[1] for own in self.converters)

    def makes(self, name: str) -> bool:
        """Whether a tensor of the loaded model is converted from others in the files."""
        return any(own.rename_source_key(name)[1] for own in self._undoing)


def on_paper(config: Any) -> Any:
    """The causal language model of a configuration, without numbers. Settings of no model raise whatever transformers
    does where it meets them."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(config)


def named_as_loaded(folder: Path, sizes: Sizes, config: Any) -> Naming:
    """The names that a model's own tensors have once it is loaded, as transformers reads files of these tensors: those
    of a model without its head leave out the first part (`transformer.` of GPT-2), and older ones hold masks, which
    are no weights. HostError, one line, unless the files hold what the configuration asks for, and nothing else."""
    from evolora_core.language.hosts.leftovers import unused

    try:
        model = on_paper(config)
    except Exception as error:  # what transformers raises depends on where it meets a setting that it cannot use
        raise HostError(f"host {folder}: config.json: {error_line(error)}; save the model anew") from error
    asked, start = {name: tuple(own.shape) for name, own in model.named_parameters()}, model.base_model_prefix + "."
    buffers = {name for name, _ in model.named_buffers()} & model.state_dict().keys()
    known = asked.keys() | buffers  # those that are saved count, such as the biases of DeepSeek's router
    conversion = Conversion.of(model)
    plain = {name: _known(name, known, start) for name in sizes}
    names = {name: own or _known(conversion.renamed(name), known, start) for name, own in plain.items()}
    parts = {name for name in sizes if conversion.converts(conversion.renamed(name))}
    found = {own: name for name, own in names.items() if own}
    if not found.keys() & asked.keys():
        raise HostError(
            f"host {folder}: {one_line(next(iter(sizes), 'no tensor'), 100)} is not of a {type(model).__name__}, "
            "which config.json asks for; save the model anew with save_pretrained"
        )
    missing = sorted(name for name in asked.keys() - found.keys() if not (parts and conversion.makes(name)))
    if missing:
        raise HostError(
            f"host {folder}: {len(missing)} tensors that config.json asks for are in no file, such as "
            f"{one_line(missing[0], 100)}; name a causal language model, or save it anew"
        )
    if more := unused((name for name, own in names.items() if not own and name not in parts), model):
        raise HostError(
            f"host {folder}: {len(more)} tensors are not asked for by config.json, such as "
            f"{one_line(more[0], 100)}; config.json is of another model, correct it or save the model anew"
        )
    _check_sizes(folder, asked, {own: sizes[name] for own, name in found.items() if name not in parts})
    if parts:
        return Naming({plain[name] or name: name for name in sizes}, True, ())
    return Naming(found, False, [own.reverse_transform() for own in conversion.renamings[::-1] if own.was_used()])


def _known(name: str, known: Collection[str], start: str) -> str:
    """A name with or without the first part, whichever is known; nothing where neither is."""
    return next((own for own in (name, start + name, name.removeprefix(start)) if own in known), "")


def _check_sizes(folder: Path, asked: Sizes, found: Sizes) -> None:
    for name, size in asked.items():
        if found.get(name, size) != size:
            raise HostError(
                f"host {folder}: the weights are not as config.json says: {one_line(name, 100)} is "
                f"{list(found[name])} instead of {list(size)}; save the model anew"
            )


def amiss(config: Any, sizes: Sizes) -> list[str]:
    """Tensors that the model of a configuration has otherwise than these files have. Of those that are made of several
    nothing is told."""
    model = on_paper(config)
    conversion = Conversion.of(model)
    asked = {name: tuple(own.shape) for name, own in model.named_parameters()}
    found = {name if name in asked else conversion.renamed(name): size for name, size in sizes.items()}
    joined = any(map(conversion.converts, found))
    kept = _unjoined({*asked, *found}, conversion) if joined else asked.keys() | found.keys()
    return sorted(name for name in kept if asked.get(name) != found.get(name))


def _unjoined(names: Iterable[str], conversion: Conversion) -> set[str]:
    return {name for name in names if not conversion.converts(name) and not conversion.makes(name)}
