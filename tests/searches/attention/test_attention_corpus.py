"""The corpus: held-out texts are apart from training rows, tasks can be solved, an entropy is the source's."""

import json
import math
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from evolora_core.engine.strict import stated
from evolora_core.errors import DataError
from evolora_core.searches.attention.corpus.alphabet import (
    BLANK,
    CHARACTERS,
    KEYS,
    MARK,
    VALUES,
    encode,
)
from evolora_core.searches.attention.corpus.base import TRAIN, Corpus, Made, load, save
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.corpus.synthetic import MarkovSource, copying, recall, stream_of
from evolora_core.searches.attention.corpus.text import is_held_out, may_be_held_out, sources, topics
from evolora_core.searches.attention.corpus.windows import WINDOW, apart
from evolora_core.searches.attention.stages.corpus import drawn

SETTINGS = CorpusSettings(shares={"text": 0.7, "recall": 0.15, "copying": 0.15}, train=3000, held_out=400)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """A small one of the default mix."""
    return make_corpus(SETTINGS, seed=3)


def decode(tokens: np.ndarray) -> str:
    """The characters of tokens that are text."""
    return "".join(CHARACTERS[token - 1] for token in tokens.tolist())


def windows(rows: torch.Tensor) -> list[set[bytes]]:
    """Every stretch of 32 tokens of each row."""
    texts = [bytes(row) for row in rows.tolist()]
    return [{text[start : start + WINDOW] for start in range(len(text) - WINDOW + 1)} for text in texts]


def of_text(corpus: Corpus) -> torch.Tensor:
    """The held-out texts in a language."""
    return corpus.texts[[kind in ("docs", "code") for kind in corpus.kinds]]


def test_it_has_what_was_asked_for(corpus: Corpus) -> None:
    assert corpus.train.shape == (3000, 33) and corpus.texts.shape == (400, 33) and corpus.context == 32
    counts = {kind: corpus.kinds.count(kind) for kind in sorted(set(corpus.kinds))}
    assert counts == {"code": 210, "copying": 60, "docs": 70, "recall": 60}
    of_a_task = (corpus.train >= KEYS.start).any(dim=1)
    assert int(of_a_task.sum()) == 900  # 30 % of the rows
    assert 0.2 < float(of_a_task[:500].float().mean()) < 0.4  # well mixed


def test_a_seed_fixes_every_byte(corpus: Corpus) -> None:
    again, other = make_corpus(SETTINGS, seed=3), make_corpus(SETTINGS.model_copy(update={"held_out": 40}), seed=4)
    assert torch.equal(again.train, corpus.train) and torch.equal(again.texts, corpus.texts)
    assert torch.equal(again.lengths, corpus.lengths) and again.kinds == corpus.kinds
    assert not torch.equal(other.train, corpus.train) and not torch.equal(other.texts, corpus.texts[:40])


def sides() -> list[bytes]:
    """All tokens of the documents to train on, and of those that are held out."""
    code, docs = sources(), topics()
    held_out = {name for name in code if may_be_held_out(name) and is_held_out(name)} | set(filter(is_held_out, docs))
    return [
        encode("\0".join(text for name, text in (code | docs).items() if (name in held_out) is side)).tobytes()
        for side in (False, True)
    ]


def test_no_stretch_of_a_held_out_text_is_in_a_training_document_or_in_another(corpus: Corpus) -> None:
    """At whatever offset: topics of the documentation stand in others, whole, and are cut there elsewhere."""
    trained, _ = sides()
    held_out = windows(of_text(corpus))
    assert len(held_out) == 280 and not any(window in trained for own in held_out for window in own)
    assert len(set().union(*held_out)) == sum(map(len, held_out))


def test_the_held_out_texts_are_of_other_files(corpus: Corpus) -> None:
    trained, held_out = sides()
    rows = corpus.train[(corpus.train < KEYS.start).all(dim=1)]
    assert all(bytes(row) in trained for row in rows[:200].tolist())
    assert all(bytes(row) in held_out for row in of_text(corpus)[-200:].tolist())


def test_every_length_of_a_prefix_is_as_frequent(corpus: Corpus) -> None:
    code = [kind == "code" for kind in corpus.kinds]
    counts = torch.bincount(corpus.lengths[code], minlength=33)[1:]
    assert counts.sum() == 210 and int(counts.max()) - int(counts.min()) == 1


def test_windows_are_compared_exactly() -> None:
    """Rows of two letters share many windows by chance; sets of strings say which."""
    random = np.random.default_rng(0)
    pattern = random.integers(0, 2, size=(6, 33), dtype=np.uint8)
    noise = random.integers(0, 2, size=(60, 40), dtype=np.uint8)
    for row in range(60):  # most rows hold one of six patterns, so that many share a window
        if row % 3:
            start = random.integers(0, 8)
            noise[row, start : start + 33] = pattern[row % 6]
    texts, train = noise[:40], noise[40:]
    trained, seen, wanted = set().union(*windows(torch.from_numpy(train))), set[bytes](), []
    for own in windows(torch.from_numpy(texts)):
        wanted.append(not (own & trained) and not (own & seen))
        seen |= own
    assert apart(list(texts), train, 40).tolist() == wanted and 5 < sum(wanted) < 35
    # Documents of two rows of 33 and a rest: what stands at another offset, before or in the rest, is compared too.
    documents = [row.reshape(-1) for row in noise[:40].reshape(10, 160)[:, :80]]
    every, answers = windows(torch.from_numpy(np.stack(documents))), []
    for number, document in enumerate(documents):
        for place in (0, 33):
            own = windows(torch.from_numpy(document[None, place : place + 33]))[0]
            before = set().union(*every[:number], *windows(torch.from_numpy(document[None, : place + 31])))
            answers.append(not (own & trained) and not (own & before))
    assert apart(documents, train, 33).tolist() == answers and 2 < sum(answers) < 18
    assert apart([], train, 33).shape == apart([noise[0, :9]], train, 33).shape == (0,)
    assert apart([noise[0, :20]], [noise[0]], 9).tolist() == [False, False]


def test_a_text_that_stands_in_another_document_is_left_out(tmp_path: Path) -> None:
    """Behind a line of its own, so that no row of the one is a row of the other."""
    common = stories(60, 3)
    (tmp_path / "train.txt").write_text(stories(300, 0) + "\nhere:\n" + common, encoding="utf-8")
    (tmp_path / "validation.txt").write_text(common + "\n" + stories(200, 1), encoding="utf-8")
    settings = CorpusSettings(shares={"text": 1.0}, source=str(tmp_path), train=400, held_out=100, context=32)
    trained = encode((tmp_path / "train.txt").read_text(encoding="utf-8")).tobytes()
    held_out = set().union(*windows(make_corpus(settings, seed=0).texts))
    lines = [window for window in held_out if b"\x01" not in window]  # a document ends after twenty
    assert len(lines) > 50 and not any(window in trained for window in lines)
    with pytest.raises(DataError, match=r"of the 600 asked for, with \d+ left out that stand in training documents"):
        make_corpus(settings.model_copy(update={"held_out": 600}), seed=0)


def test_text_keeps_its_characters() -> None:
    assert decode(encode("a\tb\n~ {}")) == "a   b\n~ {}"
    assert encode("é").tolist() == [0, 0] and max(encode(CHARACTERS)) == 96


def test_recall_can_be_answered_from_the_prefix() -> None:
    for context in (8, 63, 64):
        made = recall(context, 200, np.random.default_rng(1))
        guesses = 0
        for row, length in zip(made.rows.tolist(), made.lengths.tolist(), strict=True):
            prefix, target = row[:length], row[length]
            assert prefix[-1] in KEYS and target in VALUES
            before = {prefix[place + 1] for place in range(0, length - 1, 2) if prefix[place] == prefix[-1]}
            guesses += not before
            assert before <= {target}
        assert guesses == 0  # two keys in four pairs: one of them comes twice


def test_recall_asks_at_any_key_that_was_named_before() -> None:
    """As it did when it compared each pair with every other one, with the same draws."""
    for context in (8, 63, 64, 300):
        made, random = recall(context, 60, np.random.default_rng(1)), np.random.default_rng(1)
        known, pairs = min(len(KEYS), max(2, context // 16)), context // 2 + 1
        random.random((60, len(KEYS)))
        random.integers(0, len(VALUES), size=(60, known))
        random.integers(0, known, size=(60, pairs))
        keys = made.rows[:, 0::2].numpy()
        named = ((keys[:, :, None] == keys[:, None, :]) & np.tril(np.ones((pairs, pairs), dtype=bool), -1)).any(axis=2)
        named[:, (context + 1) // 2 :] = False
        named[~named.any(axis=1), 0] = True
        asked = np.where(named, random.random(named.shape), -1.0).argmax(axis=1)
        assert np.array_equal(made.lengths.numpy(), 2 * asked + 1)


def test_recall_needs_no_memory_for_pairs_of_pairs() -> None:
    context, count = 1024, 60
    tracemalloc.start()
    try:
        recall(context, count, np.random.default_rng(1))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < count * (context // 2 + 1) ** 2  # bytes of one such table


def test_a_copy_can_be_made_from_the_prefix() -> None:
    made = copying(64, 200, np.random.default_rng(1))
    for row, length in zip(made.rows.tolist(), made.lengths.tolist(), strict=True):
        mark = row.index(MARK)
        symbols = [token for token in row[:mark] if token != BLANK]
        assert len(symbols) == 16 and row[mark + 1 :] == symbols
        assert row[length] == symbols[length - mark - 1]


def entropy(source: MarkovSource) -> float:
    """Nats a token that nobody can predict: H = -sum pi(a, b) p(c | a, b) ln p(c | a, b), exact."""
    logs = np.log(np.where(source.table > 0, source.table, 1.0))
    return float(-(source.stationary()[:, :, None] * source.table * logs).sum())


def paid_by(source: MarkovSource, made: Made) -> np.ndarray:
    """float64 `[N]`: what the source itself pays for each target, in nats. Their mean is the entropy."""
    symbols = made.rows.numpy() - VALUES.start
    place, row = made.lengths.numpy(), np.arange(len(made.rows))
    found: np.ndarray = -np.log(source.table[symbols[row, place - 2], symbols[row, place - 1], symbols[row, place]])
    return found


def test_a_source_pays_its_entropy() -> None:
    even = MarkovSource(np.full((8, 8, 8), 1 / 8))
    assert entropy(even) == pytest.approx(math.log(8))
    certain = MarkovSource(np.broadcast_to(np.roll(np.eye(8), 1, axis=1), (8, 8, 8)))
    assert entropy(certain) == pytest.approx(0, abs=1e-9)
    source = MarkovSource.drawn(5)
    stationary = source.stationary()
    assert np.allclose(np.einsum("ab,abc->bc", stationary, source.table), stationary) and stationary.min() >= 0
    paid = paid_by(source, source.draw(40, 20_000, np.random.default_rng(2)))
    assert abs(paid.mean() - entropy(source)) < 4 * paid.std() / math.sqrt(len(paid))
    assert entropy(source) < 0.7 * math.log(8)


def test_held_out_streams_need_more_than_the_seed() -> None:
    def first(held_out: bool, secret: str) -> int:
        return int(stream_of("recall", 0, held_out=held_out, secret=secret).integers(2**62))

    assert first(True, "a") != first(True, "b") and first(True, "") != first(False, "")
    assert first(False, "a") == first(False, "b")  # training rows hang on the seed alone


def test_training_rows_lie_in_a_file_of_their_own(corpus: Corpus, tmp_path: Path) -> None:
    save(corpus, tmp_path / "corpus")
    again = load(tmp_path / "corpus")
    assert again.vocab == corpus.vocab and again.kinds == corpus.kinds
    for name in ("train", "texts", "lengths", "targets"):
        assert torch.equal(getattr(again, name), getattr(corpus, name))
    assert set(load_file(tmp_path / "corpus" / TRAIN)) == {"train"}
    (tmp_path / "corpus" / TRAIN).unlink()
    with pytest.raises(DataError, match=r"train\.safetensors is missing"):
        load(tmp_path / "corpus")


def test_shares_are_rounded_to_the_whole() -> None:
    settings = CorpusSettings(shares={"text": 0.5, "recall": 0.25, "markov": 0.25})
    assert settings.counts(7) == {"markov": 2, "recall": 2, "text": 3} and sum(settings.counts(999).values()) == 999
    with pytest.raises(ValueError, match=r"0\.8 together"):
        CorpusSettings(shares={"text": 0.5, "recall": 0.3})


def test_a_corpus_without_text_needs_no_files() -> None:
    made = make_corpus(CorpusSettings(shares={"markov": 1.0}, train=50, held_out=20, context=16), seed=0)
    assert set(made.kinds) == {"markov"} and made.train.shape == (50, 17)


def test_more_texts_than_there_are_is_an_error_of_one_line() -> None:
    with pytest.raises(
        DataError, match=r"held-out texts of the 900000 asked for, .*; lower corpus\.held_out \(--texts\)$"
    ):
        make_corpus(CorpusSettings(shares={"text": 1.0}, train=10, held_out=900_000), seed=0)


def stories(number: int, seed: int) -> str:
    """Lines of words, none of them long."""
    random = np.random.default_rng(seed)
    words = ["".join(map(chr, random.integers(97, 123, size=random.integers(2, 9)))) for _ in range(500)]
    return "\n".join(" ".join(random.choice(words, size=12)) for _ in range(number))


def test_a_folder_of_text_files_is_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text(stories(300, 0), encoding="utf-8")
    (tmp_path / "validation.txt").write_text(stories(200, 1), encoding="utf-8")
    settings = CorpusSettings(shares={"text": 1.0}, source=str(tmp_path), train=40, held_out=30, context=32)
    made = make_corpus(settings, seed=0)
    assert made.train.shape == (40, 33) and set(made.kinds) == {"text"}
    held_out = (tmp_path / "validation.txt").read_text(encoding="utf-8")
    assert all(decode(row.numpy()) in held_out for row in made.texts)
    before = drawn(settings).text
    assert before and drawn(settings).text == before
    elsewhere = shutil.copytree(tmp_path, tmp_path.with_name(f"{tmp_path.name}-moved"))
    moved = settings.model_copy(update={"source": str(elsewhere)})
    assert stated(drawn(moved)) == stated(drawn(settings))  # where it lies decides nothing
    (tmp_path / "train.txt").write_text(stories(300, 2), encoding="utf-8")
    assert drawn(settings).text != before  # so the stage is made again
    assert (
        drawn(CorpusSettings(source="tinystories")).text == "tinystories"
        and drawn(CorpusSettings()).text.startswith("Python 3.")
        and not drawn(CorpusSettings(shares={"markov": 1.0})).text
    )
    with pytest.raises(DataError, match="there is no such folder"):
        make_corpus(settings.model_copy(update={"source": str(tmp_path / "none")}), seed=0)


def test_rows_without_text_are_left_out_and_other_letters_refused(tmp_path: Path) -> None:
    for side, seed in (("train", 0), ("validation", 1)):
        rows = [text for line in stories(300, seed).split("\n") for text in (line, None)]
        (tmp_path / f"{side}.jsonl").write_text(
            "\n".join(json.dumps({"text": text}) for text in rows), encoding="utf-8"
        )
    settings = CorpusSettings(shares={"text": 1.0}, source=str(tmp_path), train=40, held_out=30, context=32)
    made = make_corpus(settings, seed=0)
    assert not any("N" in decode(row.numpy()) for row in (*made.train, *made.texts))  # of None
    (tmp_path / "train.jsonl").write_text(json.dumps({"text": "слово и дело " * 200}), encoding="utf-8")
    with pytest.raises(DataError, match="% of its bytes are no ASCII characters, and one token stands for all"):
        make_corpus(settings, seed=0)
