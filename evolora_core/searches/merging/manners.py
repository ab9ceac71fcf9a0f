"""How a model is talked to: its chat template and the tokens that end an answer, as the files of its folder say it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.errors import HostError
from evolora_core.foreign.documents import read_json
from evolora_core.foreign.files import MIB, read_text
from evolora_core.foreign.text import one_line
from evolora_core.language.hosts.folder import has_tokenizer

LARGEST = 64 * MIB  # tokenizer_config.json of models with many added tokens has a few


@dataclass(frozen=True)
class Manners:
    """`template` is the text of the chat template, or a list of them by name; None: there is none. `ends` are the EOS
    token and the ids that end an answer."""

    template: Any
    ends: tuple[Any, frozenset[Any]]


def manners_differ(one: Path, other: Path) -> str:
    """What `other` has that `one` has not, in words: a chat template, EOS tokens. Nothing where they have the same, or
    where one of them is a GGUF file or weights without a tokenizer. HostError for a file that cannot be read."""
    if not (has_tokenizer(one) and has_tokenizer(other)):
        return ""
    first, second = _read(one), _read(other)
    differ = (
        ("another chat template", first.template != second.template),
        ("other EOS tokens", first.ends != second.ends),
    )
    return " and ".join(words for words, told in differ if told)


def _read(folder: Path) -> Manners:
    tokenizer = _document(folder / "tokenizer_config.json")
    generation, config = _document(folder / "generation_config.json"), _document(folder / "config.json")
    try:
        template: Any = read_text(folder / "chat_template.jinja", LARGEST)
    except FileNotFoundError:
        template = tokenizer.get("chat_template") or _document(folder / "chat_template.json").get("chat_template")
    except (OSError, ValueError) as error:
        raise _unreadable(folder / "chat_template.jinja", error) from error
    token = tokenizer.get("eos_token")
    ids = generation.get("eos_token_id", config.get("eos_token_id"))  # transformers takes them in this order
    named = frozenset(map(str, ids if isinstance(ids, list) else [ids]))
    return Manners(template or None, (token.get("content") if isinstance(token, dict) else token, named))


def _document(path: Path) -> dict[str, Any]:
    """A JSON object; an empty one where there is no such file."""
    try:
        found = read_json(read_text(path, LARGEST), constants=True)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error
    return found if isinstance(found, dict) else {}


def _unreadable(path: Path, error: Exception) -> HostError:
    return HostError(f"host {path.parent}: {path.name}: {one_line(error, 160)}; save model and tokenizer anew")
