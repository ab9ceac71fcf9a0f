"""Sealed scoring: no target is handed over, the loss is the parent's, and seeing the future gains nothing."""

import math

import pytest
import torch
from searches.attention.attention_attacks import HONEST, program

from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.model import build
from evolora_core.searches.attention.host.sizes import SIZES
from evolora_core.searches.attention.host.training import TrainSpec, train
from evolora_core.searches.attention.judging.causality import CELLS
from evolora_core.searches.attention.judging.child import answers
from evolora_core.searches.attention.judging.loading import load_program
from evolora_core.searches.attention.judging.sealed import losses, prefixes, texts_needed
from evolora_core.searches.attention.programs.rejection import Rejected

CONTEXT = 16
torch.set_num_threads(1)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Texts of a Markov source, which a small model learns fast."""
    settings = CorpusSettings(shares={"markov": 1.0}, train=2000, held_out=500, context=CONTEXT)
    return make_corpus(settings, seed=1)


def test_no_target_is_handed_over(corpus: Corpus) -> None:
    shown = prefixes(corpus)
    assert shown.shape == (500, CONTEXT)
    for row, text, length in zip(shown.tolist(), corpus.texts.tolist(), corpus.lengths.tolist(), strict=True):
        assert row[:length] == text[:length] and not any(row[length:])


def test_the_loss_is_the_cross_entropy_of_the_target(corpus: Corpus) -> None:
    logits = torch.randn(500, corpus.vocab, generator=torch.Generator().manual_seed(0))
    targets = torch.tensor([text[length] for text, length in zip(corpus.texts.tolist(), corpus.lengths, strict=True)])
    found = losses(logits, corpus)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(logits.double(), targets, reduction="none"))
    assert losses(torch.zeros(500, corpus.vocab), corpus).tolist() == pytest.approx([math.log(corpus.vocab)] * 500)
    certain = torch.nn.functional.one_hot(targets, corpus.vocab) * 1e3
    assert float(losses(certain, corpus).max()) == 0


def test_answers_of_another_form_have_no_score(corpus: Corpus) -> None:
    good = torch.zeros(500, corpus.vocab)
    for bad in (good[:-1], good[:, :-1], good.long(), torch.full_like(good, math.inf)):
        with pytest.raises(Rejected) as caught:
            losses(bad, corpus)
        assert caught.value.stage == "train"
    good[7, 3] = math.nan
    with pytest.raises(Rejected, match="text 7"):
        losses(good, corpus)


def test_a_smaller_error_needs_more_texts() -> None:
    assert texts_needed(0.5, 0.01) == 2500 and texts_needed(0.5, 0.005) == 10_000 and texts_needed(0.0, 0.1) == 1
    with pytest.raises(ValueError, match="above 0"):
        texts_needed(1.0, 0.0)


def test_who_sees_the_future_gains_nothing(corpus: Corpus) -> None:
    """A program that reads the next token nearly knows it while it trains, and is lost when the texts end."""
    spec = TrainSpec(steps=100, batch=16, context=CONTEXT, rate=2e-2, warmup=10)
    without = "self.positions = False"
    leak = program(without, after="y = y + F.pad(v.transpose(1, 2).reshape(b, t, d), (0, 0, 0, 1))[:, 1:]")
    trained, sealed = {}, {}
    for name, source in (("honest", program(without)), ("leak", leak)):
        model = build(load_program(source), SIZES["xs"], corpus.vocab, seed=0)
        trained[name] = sum(train(model, corpus.train, spec, seed=0)[-20:]) / 20
        logits = answers(model.eval(), prefixes(corpus), corpus.lengths)
        sealed[name] = float(losses(logits, corpus).mean())
    assert trained["leak"] < 0.5 * trained["honest"]
    assert sealed["leak"] > 1.2 * sealed["honest"]


def test_answers_come_back_in_the_order_of_the_texts(corpus: Corpus) -> None:
    model = build(load_program(HONEST), SIZES["xs"], corpus.vocab, seed=0).eval()
    shown = prefixes(corpus)
    found = answers(model, shown, corpus.lengths)
    with torch.no_grad():
        for number in (0, 17, 499):
            length = int(corpus.lengths[number])
            alone = model(shown[number : number + 1, :length])[0, -1]
            torch.testing.assert_close(found[number], alone, atol=1e-5, rtol=1e-5)


def test_of_a_long_context_few_prefixes_are_answered_at_once() -> None:
    model = build(load_program(HONEST), SIZES["xs"], 128, seed=0).eval()
    asked: list[torch.Size] = []
    model.register_forward_pre_hook(lambda _, given: asked.append(given[0].shape))
    shown = torch.randint(128, (48, 600), generator=torch.Generator().manual_seed(0))
    found = answers(model, shown, torch.full((48,), 600))
    assert max(rows * width**2 for rows, width in asked) <= CELLS < 48 * 600**2
    with torch.no_grad():
        torch.testing.assert_close(found[47], model(shown[47:])[0, -1], atol=1e-5, rtol=1e-5)
