"""GGUF files: loaded by transformers, which dequantises them to ordinary floating-point weights."""

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from evolora_core.errors import HostError
from evolora_core.foreign.text import error_line
from evolora_core.language.hosts.progress import bars_on_terminals_only, quiet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_gguf(path: Path, dtype: "torch.dtype") -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """Model and tokenizer of one GGUF file, with no trace of the quantisation left. HostError names file and mend."""
    from transformers import AutoModelForCausalLM

    tokenizer = load_gguf_tokenizer(path)
    _check_rope(path)
    with _alone(path) as given, bars_on_terminals_only():
        loaded: Any = AutoModelForCausalLM.from_pretrained(**given, dtype=dtype, output_loading_info=True)
    model, found = loaded
    if missing := sorted(found["missing_keys"]):  # transformers would draw them at random
        raise HostError(
            f"host {path}: {len(missing)} tensors are missing, such as {missing[0]}; fetch or convert the file anew"
        )
    # The weights are plain tensors now; with these marks left they could be neither saved nor loaded again.
    model.hf_quantizer = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model, tokenizer


def _check_rope(path: Path) -> None:
    """HostError where positions are rotated by scaled frequencies, which transformers leaves out without a word: what
    it loads is another model.
    """
    from gguf import GGUFReader

    reader = GGUFReader(path)
    kinds = {key: own.contents() for key, own in reader.fields.items() if key.endswith(".rope.scaling.type")}
    scaling = [key for key, kind in kinds.items() if kind != "none"]
    factors = [tensor.name for tensor in reader.tensors if tensor.name.startswith(("rope_freqs", "rope_factors"))]
    if found := [*scaling, *factors]:
        raise HostError(
            f"host {path}: {found[0]}: transformers does not read this scaling of positions from GGUF files; take the "
            "model's safetensors, whose config.json says it"
        )


def load_gguf_tokenizer(path: Path) -> Any:
    """The tokenizer of one GGUF file, with its chat template. HostError names file and mend."""
    from transformers import AutoTokenizer

    if find_spec("gguf") is None:
        raise HostError(
            f"host {path}: reading GGUF needs the package gguf; run `pip install -c constraints.txt -e '.[gguf]'`"
        )
    check_magic(path)
    with _alone(path) as given:
        return AutoTokenizer.from_pretrained(**given)


def gguf_in(path: Path) -> Path | None:
    """The GGUF file that a path names: itself, or the only one of a folder without safetensors."""
    if path.is_file():
        return path
    files = sorted(path.glob("*.gguf"))
    if not files or any(path.glob("*.safetensors")):
        return None
    if len(files) > 1:
        raise HostError(f"host {path}: {len(files)} GGUF files; name one of them, such as {files[0]}")
    return files[0]


@contextmanager
def _alone(path: Path) -> Iterator[dict[str, Any]]:
    """What `from_pretrained` needs to read this file and nothing that lies beside it: of an adapter's configuration
    there transformers would take another model's name, and ask the hub for it. HostError for what it raises.
    """
    with TemporaryDirectory(prefix="evolora-gguf-") as folder, quiet():
        (Path(folder) / path.name).symlink_to(path.resolve())
        given = {"pretrained_model_name_or_path": folder, "gguf_file": path.name}
        try:
            yield given | {"local_files_only": True, "trust_remote_code": False}
        except Exception as error:  # whatever its reader meets: KeyError, ValueError, struct.error …
            kind = error_line(error, 200)
            raise HostError(
                f"host {path}: transformers cannot read this GGUF file ({kind}); "
                "name a Llama, Qwen or Gemma model, or convert it to safetensors"
            ) from error


def check_magic(path: Path) -> None:
    """Raise HostError unless a file begins as GGUF files do."""
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise HostError(f"host {path}: not a GGUF file (it does not begin with 'GGUF'); name one, or a folder")


def convert_gguf(path: Path, folder: Path) -> None:
    """Write a GGUF file as safetensors (float32: dequantised values stay exact) with its tokenizer into a folder."""
    import torch

    model, tokenizer = load_gguf(path, torch.float32)
    with bars_on_terminals_only():
        model.save_pretrained(folder)
    for how in ("is_local", "local_files_only"):  # it was loaded: files of a host say what it is, alike on all machines
        tokenizer.init_kwargs.pop(how, None)
    tokenizer.save_pretrained(folder)
    for weights in folder.glob("*.safetensors"):
        shutil.copymode(folder / "config.json", weights)  # safetensors writes for its owner alone
    logging.getLogger(__name__).info("converted %s to %s", path.name, folder)
