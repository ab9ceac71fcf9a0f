"""A host's folder in Hugging Face's form: configuration, tokenizer, weights. Code that comes with it is never run."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.errors import HostError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import read_text
from evolora_core.foreign.text import error_line, one_line
from evolora_core.language.hosts.leftovers import unused
from evolora_core.language.hosts.progress import bars_on_terminals_only, quiet

if TYPE_CHECKING:
    import torch

WHOLE = "model.safetensors"
ADAPTER = "adapter_config.json"  # of PEFT
INDEX = "model.safetensors.index.json"  # which tensor is in which file, where they are several
READS = ("tokenizer.json", "tokenizer.model", "vocab.json")  # any of them says how a model reads text


def load_folder(folder: Path, dtype: "torch.dtype") -> tuple[Any, Any, list[Path]]:
    """Model, tokenizer and weight files. HostError names the file and the mend."""
    weights = weight_files(folder)
    check_tokenizer(folder)
    load_config(folder)
    tokenizer = load_tokenizer(folder)
    return load_model(folder, dtype), tokenizer, weights


def load_model(folder: Path, dtype: "torch.dtype") -> Any:
    """The model of a folder. HostError unless its files hold all that its configuration asks for, and nothing else."""
    from transformers import AutoModelForCausalLM

    weights = weight_files(folder)
    try:
        with bars_on_terminals_only(), quiet():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=dtype,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                output_loading_info=True,
            )
    except Exception as error:
        raise HostError(
            f"host {folder}: {weights[0].name}: {error_line(error)}; fetch or save the weights anew"
        ) from error
    model, found = loaded
    if missing := sorted(found["missing_keys"]):  # transformers would draw them at random
        raise HostError(
            f"host {folder}: {weights[0].name}: {len(missing)} tensors are missing, such as {missing[0]}; "
            "config.json is of another model, or the weights are not whole"
        )
    if more := unused(found["unexpected_keys"], model):  # transformers would leave them out: another model
        raise HostError(
            f"host {folder}: {weights[0].name}: {len(more)} tensors are not asked for by config.json, such as "
            f"{one_line(more[0], 100)}; config.json is of another model, correct it or save the model anew"
        )
    return model


def weight_files(folder: Path) -> list[Path]:
    """The safetensors that transformers loads of a folder with a configuration: where they are named, no others count,
    such as the same weights in another form. HostError where something is missing.
    """
    if (folder / ADAPTER).exists():
        if not (folder / "config.json").is_file():
            raise HostError(
                f"host {folder}: {ADAPTER}: this is an adapter, no model; load it on its base with PEFT, and save what "
                "merge_and_unload gives, with the tokenizer"
            )
        raise HostError(  # transformers would put it on top of the weights, whose hash would not tell
            f"host {folder}: {ADAPTER}: an adapter lies beside the model and would change it; take its files out, or "
            "save what merge_and_unload gives"
        )
    if (folder / WHOLE).is_file():
        weights = [folder / WHOLE]
    elif (folder / INDEX).is_file():
        weights = _indexed(folder)
    else:
        weights = sorted(folder.glob("*.safetensors"))
    if not weights:
        pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt")])
        found = f"only {pickles[0].name}, which is never unpickled" if pickles else "none found"
        raise HostError(f"host {folder}: no weights (*.safetensors or *.gguf, {found}); save them with save_pretrained")
    if not (folder / "config.json").is_file():
        raise HostError(f"host {folder}: config.json is missing; save the model with save_pretrained")
    return weights


def has_tokenizer(folder: Path) -> bool:
    """Whether a file says how the model reads text."""
    return any((folder / name).is_file() for name in READS)


def check_tokenizer(folder: Path) -> None:
    """HostError where no file says how the model reads text."""
    if not has_tokenizer(folder):
        raise HostError(f"host {folder}: tokenizer.json is missing; save the tokenizer with save_pretrained")


def _indexed(folder: Path) -> list[Path]:
    """The files that hold what the index names."""
    try:
        names = sorted(set(read_json(read_text(folder / INDEX))["weight_map"].values()))
        strange = [name for name in names if Path(name).name != name]
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise HostError(f"host {folder}: {INDEX}: {error_line(error)}; save the weights anew") from error
    for name in names:
        if name in strange or not (folder / name).is_file():
            raise HostError(f"host {folder}: {INDEX}: {one_line(name, 100)} is missing; fetch or save the weights anew")
    return [folder / name for name in names]


def load_config(folder: Path) -> Any:
    """The configuration of a causal language model."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

    try:
        with quiet():
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise HostError(
            f"host {folder}: config.json: {error_line(error)}; name a model that transformers knows"
        ) from error
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        raise HostError(
            f"host {folder}: config.json: model_type {config.model_type!r} is not a causal language model; "
            "name one such as qwen3, llama or gemma3_text"
        )
    return config


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer, with its chat template."""
    from transformers import AutoTokenizer

    try:
        with quiet():
            return AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:
        raise HostError(f"host {folder}: tokenizer.json: {error_line(error)}; save the tokenizer anew") from error
