"""The router that sees the prompt alone."""

import numpy as np
import pytest
import torch

from evolora_core.compute import FlopModel
from evolora_core.errors import DataError
from evolora_core.families import get
from evolora_core.hosts import load_host
from evolora_core.rng import stream
from evolora_core.routing.learned import NOTHING, fit, prompt_features, read_classifier, write_classifier

torch.set_num_threads(1)
FAMILIES = ("json_repair", "string.sort", "logic.bool", "math.sequence")


def items(families, count, seed):
    draw = stream(seed, 0, 0, "router")
    return [get(name).make(draw, depth) for name in families for depth in ("short", "medium") for _ in range(count)]


@pytest.fixture(scope="module")
def nano():
    return load_host("nano")


@pytest.fixture(scope="module")
def classifier(nano):
    known = items(FAMILIES, 40, 0)
    return fit(prompt_features(nano, known)[0], [item.family for item in known])


def test_it_tells_families_apart_and_knows_what_it_does_not_know(nano, classifier):
    fresh = items(FAMILIES, 40, 1)
    guessed = classifier.guess(prompt_features(nano, fresh)[0])
    assert np.mean([guess == item.family for guess, item in zip(guessed, fresh, strict=True)]) > 0.95
    foreign = items(("word.count", "code.format"), 40, 2)
    assert np.mean([guess == NOTHING for guess in classifier.guess(prompt_features(nano, foreign)[0])]) > 0.9


def test_families_of_one_surface_are_not_told_apart(nano):
    alike = items(("string.sort", "string.distinct"), 60, 3)
    learned = fit(prompt_features(nano, alike)[0], [item.family for item in alike])
    fresh = items(("string.sort", "string.distinct"), 60, 4)
    guessed = learned.guess(prompt_features(nano, fresh)[0])
    assert 0.3 < np.mean([guess == item.family for guess, item in zip(guessed, fresh, strict=True)]) < 0.7


def test_a_hundredth_of_what_is_known_falls_outside():
    draw = np.random.default_rng(0)
    centres = 3 * draw.standard_normal((3, 12))
    families = np.repeat(["a", "b", "c"], 400)
    learned = fit(centres.repeat(400, axis=0) + draw.standard_normal((1200, 12)), families.tolist())
    fresh = centres.repeat(4000, axis=0) + draw.standard_normal((12000, 12))
    assert 0.004 < np.mean([guess == NOTHING for guess in learned.guess(fresh)]) < 0.02


def test_features_are_those_of_the_first_layer_whatever_the_batch(nano):
    some = items(FAMILIES, 5, 5)
    features, flops = prompt_features(nano, some)
    ids = nano.encode_prompts([some[3].prompt])
    with torch.inference_mode():
        states = nano.model(input_ids=torch.tensor(ids), output_hidden_states=True).hidden_states[1][0]
    assert np.allclose(features[3], states.mean(dim=0).double().numpy(), atol=1e-5)
    whole = FlopModel.from_model(nano.model).generate_flops(len(ids[0]), 0)
    assert flops[3] * len(nano.model.get_decoder().layers) == pytest.approx(int(whole), rel=1e-6)


def test_it_survives_a_file(tmp_path, classifier):
    write_classifier(tmp_path / "router.safetensors", classifier)
    again = read_classifier(tmp_path / "router.safetensors")
    assert again.families == classifier.families and again.limit == classifier.limit
    assert np.array_equal(again.means, classifier.means) and np.array_equal(again.whitening, classifier.whitening)
    (tmp_path / "router.safetensors").write_bytes(b"no")
    with pytest.raises(DataError, match="router.safetensors: not a router"):
        read_classifier(tmp_path / "router.safetensors")
