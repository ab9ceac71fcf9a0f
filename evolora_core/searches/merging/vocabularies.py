"""Whether models read text as the same tokens. Decided from their tokenizer.json, without importing transformers."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.errors import HostError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import MIB, read_bytes
from evolora_core.foreign.text import one_line
from evolora_core.language.hosts.folder import READS

READING = ("normalizer", "pre_tokenizer")  # parts of tokenizer.json that decide how text is cut
LARGEST = 256 * MIB


@dataclass(frozen=True)
class Vocabulary:
    """The file that says how a model reads text, and its hash."""

    path: Path
    sha256: str


def find_vocabulary(model: Path, file: str | None = None) -> Vocabulary | None:
    """The vocabulary file of a model's folder: `file` if given, else the first known one. None for a GGUF file, which
    has its tokenizer inside, and for weights without a tokenizer.
    """
    path = next((model / name for name in ([file] if file else READS) if (model / name).is_file()), None)
    if path is None:
        return None
    try:
        return Vocabulary(path, hashlib.sha256(read_bytes(path, LARGEST)).hexdigest())
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def tokenizers_differ(one: Path, other: Path) -> str:
    """In what the tokenizers of two models differ, in words; nothing where they mean the same, or where one has no
    file that says so. HostError for a file that cannot be read."""
    both = next((name for name in READS if (one / name).is_file() and (other / name).is_file()), None)
    first, second = (find_vocabulary(model, both) for model in (one, other))
    return _difference(first, second) if first and second else ""


def _difference(one: Vocabulary, other: Vocabulary) -> str:
    """In what two vocabularies differ, in words; nothing where they mean the same. Files may differ in what decides
    nothing here, such as padding."""
    if one.sha256 == other.sha256:
        return ""
    if one.path.name != other.path.name or one.path.name == "tokenizer.model":
        return f"{one.path.name} and {other.path.name} are not of one tokenizer"
    first, second = _read(one.path), _read(other.path)
    ours, theirs = _ids(first), _ids(second)
    if different := sum(ours.get(token) != theirs.get(token) for token in ours.keys() | theirs.keys()):
        return f"{different} of {len(ours)} and {len(theirs)} tokens differ"
    for part in READING:
        if first.get(part) != second.get(part):
            return f"{part} of tokenizer.json differs"
    if _model(first).get("merges") != _model(second).get("merges"):
        return "the merges of tokenizer.json differ"
    return ""


def _read(path: Path) -> dict[str, Any]:
    """The document. A tokenizer.json is given as the library writes it today: older files say the same in other forms,
    such as merges "a b" for ["a", "b"]."""
    try:
        text = read_bytes(path, LARGEST).decode()
        found = read_json(text, constants=True)
        if path.name == "tokenizer.json":
            from tokenizers import Tokenizer

            found = json.loads(Tokenizer.from_str(text).to_str())
    except Exception as error:  # the library raises plain exceptions for what is no tokenizer
        raise _unreadable(path, error) from error
    return found if isinstance(found, dict) else {}


def _model(document: dict[str, Any]) -> dict[str, Any]:
    """The part with the tokens; vocab.json is nothing else."""
    model = document.get("model")
    return model if isinstance(model, dict) else {"vocab": document}


def _ids(document: dict[str, Any]) -> dict[str, Any]:
    """Tokens and their numbers, those that were added later included."""
    vocabulary = _model(document).get("vocab", {})
    if isinstance(vocabulary, list):  # of a unigram tokenizer: the place is the number
        vocabulary = {str(entry[0]): number for number, entry in enumerate(vocabulary) if entry}
    added = document.get("added_tokens")
    more = [token for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    return dict(vocabulary) | {str(token.get("content")): token.get("id") for token in more}


def _unreadable(path: Path, error: Exception) -> HostError:
    return HostError(f"host {path.parent}: {path.name}: {one_line(error, 160)}; save the tokenizer anew")
