"""The identity of a host: hashes of everything that decides its answers."""

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from evolora_core.engine.artifacts import sha256

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def sha256_of_weights(files: list[Path]) -> str:
    """One weights file: its own SHA-256. Shards: the SHA-256 of the lines `sha256  name` in the order of the names, as
    `sha256sum *.safetensors | sha256sum` prints it."""
    if len(files) == 1:
        return sha256(files[0])
    lines = "".join(f"{sha256(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name))
    return hashlib.sha256(lines.encode()).hexdigest()


def sha256_of_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> str:
    """SHA-256 of the whole tokenizer model in its canonical JSON form, as it maps text to ids now."""
    return hashlib.sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()


def sha256_of_text(text: str) -> str:
    """SHA-256 of a text in UTF-8; used for templates."""
    return hashlib.sha256(text.encode()).hexdigest()
