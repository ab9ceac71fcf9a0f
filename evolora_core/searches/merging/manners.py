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
    """`template` is the text of the chat template, or a list of them by name; None: there is none. `more` are templates
    in files of their own, by name. `ends` are the EOS token and the ids that end an answer."""

    template: Any
    more: dict[str, str]
    ends: tuple[Any, frozenset[Any]]


def further_templates(folder: Path) -> list[Path]:
    """The files of chat templates beside the usual one, for tools, say."""
    return sorted(path for path in folder.glob("additional_chat_templates/*.jinja") if path.is_file())


def manners_differ(one: Path, other: Path) -> str:
    """What `other` has that `one` has not, in words: a chat template, EOS tokens. Nothing where they have the same, or
    where one of them is a GGUF file or weights without a tokenizer. HostError for a file that cannot be read."""
    if not (has_tokenizer(one) and has_tokenizer(other)):
        return ""
    first, second = _read(one), _read(other)
    differ = (
        ("another chat template", (first.template, first.more) != (second.template, second.more)),
        ("other EOS tokens", first.ends != second.ends),
    )
    return " and ".join(words for words, told in differ if told)


def _read(folder: Path) -> Manners:
    tokenizer = _document(folder / "tokenizer_config.json")
    generation, config = _document(folder / "generation_config.json"), _document(folder / "config.json")
    try:
        template: Any = _template(folder / "chat_template.jinja")
    except FileNotFoundError:
        template = tokenizer.get("chat_template") or _document(folder / "chat_template.json").get("chat_template")
    more = {path.stem: _template(path) for path in further_templates(folder)}
    token = tokenizer.get("eos_token")
    ids = generation.get("eos_token_id", config.get("eos_token_id"))  # transformers takes them in this order
    named = frozenset(map(str, ids if isinstance(ids, list) else [ids]))
    return Manners(template or None, more, (token.get("content") if isinstance(token, dict) else token, named))


def _template(path: Path) -> str:
    """The text of a template. FileNotFoundError where there is none."""
    try:
        return read_text(path, LARGEST)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from error


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
