"""What `evolora attention` is made of: tuned rates, progress, and the tables of measured curves."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from evolora_core.engine.meter import Meter
from evolora_core.errors import StageError
from evolora_core.searches.attention.commands import measure, validate
from evolora_core.searches.attention.commands.asked import MeasureSettings, Way
from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.panel import Panel
from evolora_core.searches.attention.settings import Budget, Training
from evolora_core.searches.attention.tuning import Tuned, tune

SOURCE = KNOWN[BASELINE].source
TOO_HIGH = 1e30
N = {"xs": 6592, "s": 25472, "m": 84912}


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Texts of a Markov source."""
    return make_corpus(CorpusSettings(shares={"markov": 1.0}, train=64, held_out=16, context=24), seed=0)


@pytest.fixture(scope="module")
def panel(corpus: Corpus) -> Iterator[Panel]:
    """A panel whose grid has a rate with which nothing can be trained."""
    training = Training(steps=4, batch=4, warmup=0, rates=[0.01, TOO_HIGH])
    with Panel(corpus, training, {}, Budget(), trusted=True) as made:
        yield made


def tuned(panel: Panel, meter: Meter) -> Tuned:
    return tune(panel, "mine", SOURCE, ["xs"], 0, meter, lambda *_: None)


def test_a_rate_that_diverges_is_charged_and_not_chosen(panel: Panel) -> None:
    meter = Meter()
    found = tuned(panel, meter)
    assert found.rates == {"xs": 0.01}
    assert math.isinf(found.tried["xs"][TOO_HIGH]) and math.isfinite(found.tried["xs"][0.01])
    assert meter.flops("tuning") % 2 == 0 and meter.flops("tuning") > 0  # both trials cost the same


def test_no_rate_is_left(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel, "training", panel.training.model_copy(update={"rates": [TOO_HIGH, 2 * TOO_HIGH]}))
    with pytest.raises(
        StageError, match=r"mine cannot be trained at size xs with rate 2e\+30: .*finite.*; name lower training"
    ):
        tuned(panel, Meter())


def test_a_grid_of_one_rate_is_not_tried(panel: Panel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panel, "training", panel.training.model_copy(update={"rates": [TOO_HIGH]}))
    meter = Meter()
    assert tuned(panel, meter).rates == {"xs": TOO_HIGH} and not meter.total()


def test_progress_counts_large_models_for_what_they_take(corpus: Corpus) -> None:
    seen: list[tuple[float, float]] = []
    asked = MeasureSettings(("xs", "s"), 10, 2, 0, (0.1, 0.2, 0.3), 64, 16, 1, 1.0)
    way = Way(asked, corpus, tuned=1, measured=2, report=lambda done, total, _="": seen.append((done, total)))
    for number, size in ((3, 6), (2, 4), (2, 4)):
        part = way.part(number, "mine")
        for done in range(size):
            part(done + 1, size)
    steps = np.diff([0.0, *(done for done, _ in seen)])
    assert seen[-1][0] == pytest.approx(seen[-1][1]) and len({total for _, total in seen}) == 1
    assert np.allclose(steps[:3], steps[0]) and steps[3] > 2 * steps[0]


def curve(ahead: float, seeds: range, noise: float = 0.002) -> Curve:
    """Losses that fall with size, and `ahead` nats less of them."""
    made, random = Curve(), np.random.default_rng(int(1000 * ahead))
    for size, n in N.items():
        made.n[size], made.flops[size] = n, 10 * n
        for seed in seeds:
            texts = 2 + 3 * n**-0.14 - ahead + random.normal(0, noise, 40)
            made.texts[size, seed], made.seconds[size, seed] = texts.astype(np.float32), 1.0 + ahead
    return made


def test_gains_are_positive_for_the_better() -> None:
    curves = {BASELINE: curve(0, range(2)), "mine.py": curve(0.1, range(2))}
    rates, tried = dict.fromkeys(N, 0.02), [0.01, 0.02, 0.04]
    rows = [row for row in measure.rows_of(curves, rates, list(N), [0, 1], tried) if row["program"] == "mine.py"]
    assert all(row["lo"] < 0.1 < row["hi"] for row in rows[:3]) and rows[0]["seconds"] == pytest.approx(1.1)
    assert rows[3]["size"] == "3 N, predicted" and rows[3]["gain"] == pytest.approx(0.1, abs=0.02)
    assert len(measure.rows_of(curves, rates, ["xs", "s"], [0, 1], tried)) == 4  # two sizes predict nothing


def test_each_size_has_its_rate_and_the_baseline_says_where_it_is_the_last_one() -> None:
    curves = {BASELINE: curve(0, range(2)), "mine.py": curve(0.1, range(2))}
    rates = {"xs": 0.04, "s": 0.02, "m": 0.01}
    rows = measure.rows_of(curves, rates, list(N), [0, 1], [0.01, 0.02, 0.04])
    assert [row["rate"] for row in rows] == 2 * [0.04, 0.02, 0.01, None]
    widen = "widen --rates: mha ended at an end of them"
    assert [row["note"] for row in rows[:5]] == [widen, "", widen, "", ""]
    assert not measure.rows_of(curves, rates, list(N), [0, 1], [0.04])[0]["note"]  # there was no choice


def test_a_refused_training_predicts_nothing() -> None:
    """Its loss is that of a model that knows nothing, so a law through it says nothing of larger models."""
    whole, lame = curve(0.1, range(2)), curve(0.2, range(2))
    lame.refused["m", 1] = "train: the loss is not finite"
    curves = {BASELINE: curve(0, range(2)), "mine.py": whole}
    rates, tried = dict.fromkeys(N, 0.02), [0.02]
    both = measure.rows_of(curves | {"lame.py": lame}, rates, list(N), [0, 1], tried)
    assert both[:8] == measure.rows_of(curves, rates, list(N), [0, 1], tried)
    assert [row["size"] for row in both[8:]] == list(N)
    against = validate.rows_of({"mine.py": whole, "lame.py": lame}, [rates, rates], list(N), [0, 1], tried)
    assert [row["size"] for row in against] == list(N)


@pytest.mark.parametrize(("seeds", "verdict"), [(4, "undecided"), (8, "mine.py")])
def test_a_verdict_needs_seeds(seeds: int, verdict: str) -> None:
    curves = {"mine.py": curve(0.1, range(seeds)), "mha": curve(0, range(seeds))}
    rates = [dict.fromkeys(N, 0.01), dict.fromkeys(N, 0.02)]
    rows = validate.rows_of(curves, rates, list(N), range(seeds), [0.005, 0.01, 0.02])
    assert [row["verdict"] for row in rows] == [verdict] * 3 + [""]
    assert all(row["p Holm"] == min(1, 3 * row["p"]) for row in rows[:3])
    assert all(row["d lo"] < row["d"] < row["d hi"] and row["rate against"] == 0.02 for row in rows[:3])
    assert rows[3]["lo"] < rows[3]["gain"] < rows[3]["hi"] and rows[3].keys() == rows[0].keys()
    assert all(row["note"].endswith("widen --rates: mha ended at an end of them") for row in rows[:3])
