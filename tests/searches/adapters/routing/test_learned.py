"""The router that sees the prompt alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from evolora_core.engine.meter import Meter
from evolora_core.engine.rng import stream
from evolora_core.errors import DataError
from evolora_core.language.families.registry import get
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.adapters.routing.learned import (
    NOTHING,
    fit,
    guess_families,
    prompt_features,
    read_classifier,
    write_classifier,
)

torch.set_num_threads(1)
FAMILIES = ("json_repair", "string.sort", "logic.bool", "math.sequence")


def items(families: Any, count: int, seed: int) -> Any:
    draw = stream(seed, 0, 0, "router")
    return [get(name).make(draw, depth) for name in families for depth in ("short", "medium") for _ in range(count)]


@pytest.fixture(scope="module")
def nano() -> Any:
    return load_host("nano")


@pytest.fixture(scope="module")
def classifier(nano: Any) -> Any:
    known = items(FAMILIES, 40, 0)
    return fit(prompt_features(nano, known)[0], [item.family for item in known])


def test_it_tells_families_apart_and_knows_what_it_does_not_know(nano: Any, classifier: Any) -> None:
    fresh = items(FAMILIES, 40, 1)
    guessed = classifier.guess(prompt_features(nano, fresh)[0])
    assert np.mean([guess == item.family for guess, item in zip(guessed, fresh, strict=True)]) > 0.95
    foreign = items(("word.count", "code.format"), 40, 2)
    assert np.mean([guess == NOTHING for guess in classifier.guess(prompt_features(nano, foreign)[0])]) > 0.9


def test_families_of_one_surface_are_not_told_apart(nano: Any) -> None:
    alike = items(("string.sort", "string.distinct"), 60, 3)
    learned = fit(prompt_features(nano, alike)[0], [item.family for item in alike])
    fresh = items(("string.sort", "string.distinct"), 60, 4)
    guessed = learned.guess(prompt_features(nano, fresh)[0])
    assert 0.3 < np.mean([guess == item.family for guess, item in zip(guessed, fresh, strict=True)]) < 0.7


def test_a_hundredth_of_what_is_known_falls_outside() -> None:
    draw = np.random.default_rng(0)
    centres = 3 * draw.standard_normal((3, 12))
    families = np.repeat(["a", "b", "c"], 400)
    learned = fit(centres.repeat(400, axis=0) + draw.standard_normal((1200, 12)), families.tolist())
    fresh = centres.repeat(4000, axis=0) + draw.standard_normal((12000, 12))
    assert 0.004 < np.mean([guess == NOTHING for guess in learned.guess(fresh)]) < 0.02


def test_features_are_the_mean_embedding_whatever_stands_beside(nano: Any) -> None:
    some = items(FAMILIES, 5, 5)
    features, flops = prompt_features(nano, some)
    (ids,) = nano.encode_prompts([some[3].prompt])
    with torch.inference_mode():
        embedded = nano.model.get_input_embeddings()(torch.tensor(ids))
    assert np.allclose(features[3], embedded.mean(dim=0).double().numpy(), atol=1e-6)
    assert flops[3] == embedded.numel()
    assert np.array_equal(prompt_features(nano, some[3:4])[0][0], features[3])


def test_asking_costs_a_sliver_of_an_answer_and_is_charged(nano: Any, classifier: Any) -> None:
    some, meter = items(FAMILIES, 5, 6), Meter()
    guessed, flops = guess_families(nano, classifier, some, meter)
    assert guessed == classifier.guess(prompt_features(nano, some)[0])
    assert meter.rows()[0]["purpose"] == "evaluation" and meter.total() == flops.sum()
    lengths = [len(ids) for ids in nano.encode_prompts([item.prompt for item in some])]
    answers = FlopModel.from_model(nano.model).generate_flops(np.array(lengths), 1)
    assert 0 < (flops / answers).max() < 0.01


def test_it_survives_a_file(tmp_path: Path, classifier: Any) -> None:
    write_classifier(tmp_path / "router.safetensors", classifier)
    again = read_classifier(tmp_path / "router.safetensors")
    assert again.families == classifier.families and again.limit == classifier.limit
    assert np.array_equal(again.means, classifier.means) and np.array_equal(again.whitening, classifier.whitening)
    (tmp_path / "router.safetensors").write_bytes(b"no")
    with pytest.raises(DataError, match="router.safetensors: not a router"):
        read_classifier(tmp_path / "router.safetensors")
