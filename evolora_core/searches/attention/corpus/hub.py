"""TinyStories or another set of texts: from the Hugging Face hub where there is one, or from a local folder.

A set with a split `validation` or `test` is judged by that; of one without, a hash of each text decides on its side.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from evolora_core.errors import DataError
from evolora_core.foreign.text import error_line
from evolora_core.searches.attention.corpus.alphabet import encode
from evolora_core.searches.attention.corpus.base import Made
from evolora_core.searches.attention.corpus.text import split_text

TINY_STORIES = "roneneldan/TinyStories"
_SURPLUS = 3  # times the rows asked for: some held-out texts are dropped
_JOINED = 20  # texts make one document: a data set of lines has many that are shorter than a row
_SAMPLE, _FOREIGN = 100_000, 0.5  # characters that are looked at, and the share of bytes without a token of their own


def hub_text(name: str, context: int, train: int, held_out: int, seed: int) -> tuple[Made, list[tuple[str, Made]]]:
    """Training rows, and held-out texts of the kind `text`, from a hub's data set or a folder of text files.

    Reads from the start of a set only as much as it needs. DataError, in one line, where it cannot be had.
    """
    place = str(Path(name).expanduser()) if name.startswith("~") else name
    if place.startswith(("/", ".")) and not Path(place).is_dir():
        raise DataError(f"corpus {name!r}: there is no such folder; name one with text files, or take `python`")
    try:
        sides = _sides(place)
        width = context + 1
        pools = [_read(side, wanted * width * _SURPLUS) for side, wanted in zip(sides, (train, held_out), strict=True)]
    except DataError:
        raise
    except Exception as error:  # offline, no such set, a damaged file: one line says it, whichever class it has
        raise DataError(
            f"corpus {name!r}: it cannot be read ({error_line(error)}); check the name and "
            "the connection, name a folder of text files, or take `python`"
        ) from error
    sample = encode("".join(pools[0])[:_SAMPLE])
    if (foreign := int((sample == 0).sum())) > _FOREIGN * len(sample):
        raise DataError(
            f"corpus {name!r}: {foreign / len(sample):.0%} of its bytes are no ASCII characters, and one token stands "
            "for all of these; name a text in ASCII letters"
        )
    return split_text([([], []), (pools[0], pools[1])], ("docs", "text"), width, train, held_out, seed)


def _sides(name: str) -> list[Iterator[str]]:
    """The texts to train on and the held-out ones."""
    import datasets

    found: Any = datasets.load_dataset(name, streaming=True)
    other = next((split for split in ("validation", "test") if split in found), None)
    if "train" not in found:
        raise DataError(f"corpus {name!r}: it has no split `train` but {', '.join(found)}; name its files train-*")
    columns = found["train"].features or {}
    if columns and "text" not in columns:
        raise DataError(f"corpus {name!r}: it has no column `text` but {', '.join(columns)}; name a set with one")

    def texts(split: str) -> Iterator[str]:
        return (str(row["text"]) for row in found[split] if row["text"] is not None)

    if other is not None:
        return [texts("train"), texts(other)]
    return [(text for text in texts("train") if _outside(text) is side) for side in (False, True)]


def _outside(text: str) -> bool:
    """Whether the hash of a text puts it on the held-out side: one text of ten."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=2).digest()[0] < 26


def _read(texts: Iterator[str], characters: int) -> list[str]:
    """Documents of that many characters together, or all that there are."""
    documents: list[str] = []
    part: list[str] = []
    total = 0
    for text in texts:
        part.append(text)
        total += len(text) + 1
        if len(part) == _JOINED or total >= characters:
            documents.append("\n".join(part))
            part = []
        if total >= characters:
            return documents
    return [*documents, "\n".join(part)] if part else documents
