"""The identity of a host: hashes of everything that decides its answers."""

from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


def sha256_of_file(path: Path) -> str:
    """Hex SHA-256 of a file's bytes, as `sha256sum` prints it."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def sha256_of_weights(files: list[Path]) -> str:
    """One weights file: its own SHA-256. Shards: the SHA-256 of the lines `sha256  name` in the order of the names, as
    `sha256sum *.safetensors | sha256sum` prints it."""
    if len(files) == 1:
        return sha256_of_file(files[0])
    lines = "".join(f"{sha256_of_file(path)}  {path.name}\n" for path in sorted(files, key=lambda path: path.name))
    return sha256(lines.encode()).hexdigest()


def sha256_of_tokenizer(tokenizer: "PreTrainedTokenizerBase") -> str:
    """SHA-256 of the whole tokenizer model in its canonical JSON form, as it maps text to ids now."""
    return sha256(tokenizer.backend_tokenizer.to_str().encode()).hexdigest()


def sha256_of_text(text: str) -> str:
    """SHA-256 of a text in UTF-8; used for templates."""
    return sha256(text.encode()).hexdigest()
