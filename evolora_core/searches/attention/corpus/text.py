"""Text that every CPython ships: its documentation topics and the sources of its standard library (PSF licence).

A topic or a file is either for training or held out, which a hash of its name decides, whatever the seed: so no suite
trains on what another is judged by. Sources are held out only from the programs and libraries in `APART`, which neither
torch nor anything else in a child process imports; the docstrings of the others could be read from its memory.
"""

import hashlib
import sysconfig
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch

from evolora_core.engine.rng import stream
from evolora_core.errors import DataError
from evolora_core.searches.attention.corpus.alphabet import encode
from evolora_core.searches.attention.corpus.base import Made
from evolora_core.searches.attention.corpus.windows import apart

DOCS = 0.25  # greatest share of the documentation among the rows; the rest is source
_APART = """
_osx_support _pydecimal aifc antigravity bdb binhex cgi cgitb chunk code codeop compileall configparser crypt curses
dbm distutils doctest ensurepip fileinput ftplib html idlelib imaplib lib2to3 mailbox mailcap modulefinder netrc
nntplib optparse pdb pipes plistlib poplib py_compile pyclbr pydoc rlcompleter sched shelve smtpd smtplib sndhdr
sqlite3 sunau symtable tabnanny telnetlib this tkinter turtle turtledemo venv wave webbrowser wsgiref xdrlib xml
xmlrpc
"""
APART = frozenset(_APART.split())
_LEFT_OUT = {"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test", "encodings", "pydoc_data"}


def is_held_out(name: str) -> bool:
    """Whether the hash of a topic's or a file's name puts it on the held-out side: half of all names."""
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] < 128


@cache
def topics() -> dict[str, str]:
    """The documentation of the language by topic. A topic that contains others stands beside them."""
    from pydoc_data.topics import topics as found

    return {f"topic/{name}": text for name, text in sorted(found.items())}


@cache
def sources() -> dict[str, str]:
    """The standard library's Python files by path, without its tests and tables of characters."""
    root = Path(sysconfig.get_path("stdlib"))
    found = {}
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if not _LEFT_OUT & set(inside.parts) and not inside.name.startswith("_sysconfigdata"):
            found[inside.as_posix()] = path.read_text(encoding="utf-8", errors="replace")
    return found


def may_be_held_out(path: str) -> bool:
    """Whether a file of the standard library is of a module that no child process has in its memory."""
    return Path(path).parts[0].removesuffix(".py") in APART


def cut(documents: Iterable[np.ndarray], width: int) -> np.ndarray:
    """uint8 `[N, width]`: each document's tokens `[length]` cut into rows that do not overlap; what is left at its end
    is dropped.
    """
    parts = [tokens[: len(tokens) // width * width].reshape(-1, width) for tokens in documents]
    return np.concatenate([np.zeros((0, width), dtype=np.uint8), *parts])


def choose(pools: Sequence[np.ndarray], count: int) -> list[int]:
    """How many rows to take from the documentation and from the rest: at most a share of the first."""
    first = min(len(pools[0]), int(count * DOCS))
    return [first, count - first]


def split_text(
    pools: Sequence[tuple[Iterable[str], Iterable[str]]],
    names: Sequence[str],
    width: int,
    train: int,
    held_out: int,
    seed: int,
) -> tuple[Made, list[tuple[str, Made]]]:
    """Training rows, and held-out texts by kind, from two pools of (documents to train on, documents held out).

    width  tokens of a row

    A held-out row is left out where it shares 32 tokens in a row with a training document, whichever rows of that are
    trained on, or with an earlier place of the held-out documents. DataError where too few rows are left.
    """
    documents = [[list(map(encode, side)) for side in pool] for pool in pools]
    fit = apart([*documents[0][1], *documents[1][1]], [*documents[0][0], *documents[1][0]], width)
    rows, left, done = [], [], 0
    for number, (own, others) in enumerate(documents):
        order = stream(seed, 0, number, "text")
        rows.append(cut(own, width))
        texts = cut(others, width)
        left.append(texts[fit[done : done + len(texts)]])
        done += len(texts)
        order.shuffle(rows[-1])
        order.shuffle(left[-1])
    wanted = choose(rows, train)
    taken = np.concatenate([own[:number] for own, number in zip(rows, wanted, strict=True)])
    if len(taken) < train:
        raise DataError(
            f"the text has {len(taken)} training rows of the {train} asked for; lower corpus.train (--train)"
        )
    wanted = choose(left, held_out)
    made = [
        held(own[:number], stream(seed, 1, 0, "text", name))
        for own, number, name in zip(left, wanted, names, strict=True)
    ]
    if (found := sum(len(one.rows) for one in made)) < held_out:
        raise DataError(
            f"the text has {found} held-out texts of the {held_out} asked for, with {done - int(fit.sum())} left out "
            "that stand in training documents or twice; lower corpus.held_out (--texts)"
        )
    return held(taken, stream(seed, 2, 0, "text")), list(zip(names, made, strict=True))


def held(rows: np.ndarray, random: np.random.Generator) -> Made:
    """Rows with lengths of their prefixes: every length equally often, up to one, in an order that is drawn."""
    context = rows.shape[1] - 1
    lengths = random.permutation(np.arange(len(rows)) % context) + 1
    return Made(torch.from_numpy(rows.astype(np.int64)), torch.from_numpy(lengths.astype(np.int64)))


def python_text(context: int, train: int, held_out: int, seed: int) -> tuple[Made, list[tuple[str, Made]]]:
    """Training rows, and held-out texts of the kinds `docs` and `code`."""
    docs, code = topics(), sources()
    pools = []
    for documents, allowed in ((docs, docs), (code, [path for path in code if may_be_held_out(path)])):
        outside = {name for name in allowed if is_held_out(name)}
        pools.append(
            (
                [text for name, text in documents.items() if name not in outside],
                [text for name, text in documents.items() if name in outside],
            )
        )
    return split_text(pools, ("docs", "code"), context + 1, train, held_out, seed)
