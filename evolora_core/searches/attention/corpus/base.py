"""A corpus: rows to train on, and held-out texts of which a child process only ever sees a prefix.

Both lie in files of their own, so that one can be handed over without the other.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from evolora_core.errors import DataError
from evolora_core.searches.attention.corpus.alphabet import VOCAB

TRAIN, TEXTS = "train.safetensors", "texts.safetensors"


@dataclass(frozen=True)
class Made:
    """What one kind contributes to one side of a corpus.

    rows     int64 `[N, context + 1]` tokens
    lengths  int64 `[N]` tokens of the prefix that is shown when a row is a held-out text, 1 … context
    """

    rows: torch.Tensor
    lengths: torch.Tensor


@dataclass(frozen=True)
class Corpus:
    """Tokens to train on and to be judged by.

    train    int64 `[N, context + 1]` examples, in the order fixed by the corpus' seed
    texts    int64 `[M, context + 1]` held-out texts
    lengths  int64 `[M]` tokens of each text that are shown; the token behind them is the target
    kinds    what each text is, such as `code` or `recall`
    """

    vocab: int
    train: torch.Tensor
    texts: torch.Tensor
    lengths: torch.Tensor
    kinds: tuple[str, ...]

    def __post_init__(self) -> None:
        width, count = self.texts.shape[1], len(self.texts)
        if self.train.shape[1] != width or len(self.lengths) != count or len(self.kinds) != count:
            raise ValueError("the parts of a corpus do not fit together")
        if count and not (int(self.lengths.min()) >= 1 and int(self.lengths.max()) < width):
            raise ValueError("a prefix has to leave its target out and to show a token at least")
        largest = max(int(part.max()) for part in (self.train, self.texts) if part.numel())
        if largest >= self.vocab:
            raise ValueError(f"token {largest} is none of a vocabulary of {self.vocab}")

    @property
    def context(self) -> int:
        """Tokens that a model sees at once."""
        return self.texts.shape[1] - 1

    @property
    def targets(self) -> torch.Tensor:
        """int64 `[M]`: the token behind each prefix. Never handed to a child process."""
        return self.texts.gather(1, self.lengths[:, None])[:, 0]


def narrow(tokens: torch.Tensor, vocab: int) -> torch.Tensor:
    """The same tokens in the smallest type that the files use."""
    return tokens.to(torch.uint8 if vocab <= 256 else torch.int32)


def save_train(corpus: Corpus, path: Path) -> None:
    """Write the training rows alone: what a child process may read."""
    save_file({"train": narrow(corpus.train, corpus.vocab)}, path, {"vocab": str(corpus.vocab)})


def load_train(path: Path) -> torch.Tensor:
    """int64 `[N, context + 1]`, as `save_train` wrote them."""
    return load_file(path)["train"].long()


def save(corpus: Corpus, folder: Path) -> None:
    """Write a corpus as two files."""
    folder.mkdir(parents=True, exist_ok=True)
    save_train(corpus, folder / TRAIN)
    names = sorted(set(corpus.kinds))
    numbers = torch.tensor([names.index(kind) for kind in corpus.kinds], dtype=torch.uint8)
    tensors = {"texts": narrow(corpus.texts, corpus.vocab), "lengths": corpus.lengths.to(torch.int32), "kinds": numbers}
    save_file(tensors, folder / TEXTS, {"vocab": str(corpus.vocab), "kinds": json.dumps(names)})


def load(folder: Path) -> Corpus:
    """Read a corpus back. DataError where a file is missing."""
    for name in (TRAIN, TEXTS):
        if not (folder / name).is_file():
            raise DataError(f"{folder}: {name} is missing; make the corpus again")
    with safe_open(folder / TEXTS, "pt") as file:
        facts = file.metadata()
        parts = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
    names = json.loads(facts["kinds"])
    return Corpus(
        vocab=int(facts["vocab"]),
        train=load_train(folder / TRAIN),
        texts=parts["texts"].long(),
        lengths=parts["lengths"].long(),
        kinds=tuple(names[number] for number in parts["kinds"].tolist()),
    )


def join(train: Sequence[Made], held_out: Sequence[Made], kinds: Sequence[str], order: torch.Tensor) -> Corpus:
    """One corpus of several kinds' contributions.

    kinds   the name of each of `held_out`
    order   a permutation of the training rows of all kinds: the order in which they lie in the file
    """
    names = [kind for kind, made in zip(kinds, held_out, strict=True) for _ in range(len(made.rows))]
    return Corpus(
        vocab=VOCAB,
        train=torch.cat([made.rows for made in train])[order],
        texts=torch.cat([made.rows for made in held_out]),
        lengths=torch.cat([made.lengths for made in held_out]),
        kinds=tuple(names),
    )
