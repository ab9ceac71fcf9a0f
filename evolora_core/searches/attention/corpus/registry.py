"""Makes the corpus of a suite. Whoever adds a kind of text enters it here and in the settings."""

import hashlib

import numpy as np
import torch

from evolora_core.engine.rng import stream
from evolora_core.searches.attention.corpus.base import Corpus, Made, join
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.corpus.synthetic import MarkovSource, copying, recall, stream_of


def make_corpus(settings: CorpusSettings, seed: int) -> Corpus:
    """The corpus of a seed: the same bytes on every machine with the same Python, or the same data set of the hub.

    DataError where the source has too little text or cannot be had.
    """
    counts = (settings.counts(settings.train), settings.counts(settings.held_out))
    train: list[Made] = []
    held_out: list[tuple[str, Made]] = []
    secret = ""
    if "text" in settings.shares:
        made, texts = _text(settings, counts[0]["text"], counts[1]["text"], seed)
        train.append(made)
        held_out += texts
        # What the synthetic held-out texts are drawn from: known only to who can read the held-out files.
        secret = hashlib.blake2b(b"".join(part.rows.numpy().tobytes() for _, part in texts), digest_size=16).hexdigest()
    for kind in sorted(set(settings.shares) - {"text"}):
        for side, count in enumerate((counts[0][kind], counts[1][kind])):
            random = stream_of(kind, seed, held_out=bool(side), secret=secret)
            drawn = _drawn(kind, settings.context, count, seed, random)
            if side:
                held_out.append((kind, drawn))
            else:
                train.append(drawn)
    order = torch.from_numpy(stream(seed, 0, 0, "order").permutation(sum(len(made.rows) for made in train)))
    return join(train, [made for _, made in held_out], [kind for kind, _ in held_out], order)


def _text(settings: CorpusSettings, train: int, held_out: int, seed: int) -> tuple[Made, list[tuple[str, Made]]]:
    if settings.source == "python":
        from evolora_core.searches.attention.corpus.text import python_text

        return python_text(settings.context, train, held_out, seed)
    from evolora_core.searches.attention.corpus.hub import TINY_STORIES, hub_text

    name = TINY_STORIES if settings.source == "tinystories" else settings.source
    return hub_text(name, settings.context, train, held_out, seed)


def _drawn(kind: str, context: int, count: int, seed: int, random: np.random.Generator) -> Made:
    if kind == "recall":
        return recall(context, count, random)
    if kind == "copying":
        return copying(context, count, random)
    return MarkovSource.drawn(seed).draw(context, count, random)
