"""GGUF files: loaded by transformers, which dequantises them to ordinary floating-point weights."""

import logging
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.errors import HostError
from evolora_core.language.hosts.progress import bars_on_terminals_only, quiet

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def load_gguf(path: Path, dtype: "torch.dtype") -> tuple["PreTrainedModel", "PreTrainedTokenizerBase"]:
    """Model and tokenizer of one GGUF file, with no trace of the quantisation left. HostError names file and mend."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if find_spec("gguf") is None:
        raise HostError(f"host {path}: reading GGUF needs the package gguf; run `pip install -e .[gguf]`")
    check_magic(path)
    try:
        with bars_on_terminals_only(), quiet():
            tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                path.parent, gguf_file=path.name, dtype=dtype, output_loading_info=True
            )
    except Exception as error:  # transformers raises whatever its reader meets: KeyError, ValueError, struct.error …
        reason = " ".join(str(error).split())[:200]
        raise HostError(
            f"host {path}: transformers cannot read this GGUF file ({type(error).__name__}: {reason}); "
            "name a Llama, Qwen or Gemma model, or convert it to safetensors"
        ) from error
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
    tokenizer.save_pretrained(folder)
    logging.getLogger(__name__).info("converted %s to %s", path.name, folder)
