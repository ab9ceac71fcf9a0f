"""What config.json alone says of two models is what transformers says of them."""

import json
from pathlib import Path
from typing import Any

import pytest
from test_weights import rewrite
from tiny_merges import moved, saved, tiny
from transformers import AutoConfig

from evolora_core.errors import HostError
from evolora_core.searches.merging import check
from evolora_core.searches.merging.agreement import SETTINGS
from evolora_core.searches.merging.check import Report, check_models
from evolora_core.searches.merging.plain_config import COMPARED, MOVED, plain_config
from evolora_core.searches.merging.weights import Weights, open_weights

ROPE = {"rope_theta": 10000.0, "rope_type": "default"}
OLD = {"rope_parameters": None, "rope_theta": 10000.0, "rope_scaling": None}  # before transformers 5


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a model."""
    return saved(tiny("qwen3"), tmp_path_factory.mktemp("base") / "base")


def other(folder: Path, **changes: Any) -> Path:
    """One that came from it, whose config.json says this; None takes a key out."""
    saved(moved(tiny("qwen3"), 1), folder)
    rewrite(folder, **changes)
    path = folder / "config.json"
    path.write_text(json.dumps({key: own for key, own in json.loads(path.read_text()).items() if own is not None}))
    return folder


def both(monkeypatch: pytest.MonkeyPatch, *folders: Path) -> tuple[Report | str, Report | str, bool]:
    """What the check says by itself and what it says where transformers reads every configuration; whether it asked
    transformers in the first place."""
    asked: list[Path] = []

    def opened(path: Path) -> Weights:
        asked.append(path)
        return open_weights(path)

    monkeypatch.setattr(check, "open_weights", opened)
    found = told(*folders)
    monkeypatch.setattr(check, "plain_config", lambda raw: None)
    first = bool(asked)
    return found, told(*folders), first


def told(*folders: Path) -> Report | str:
    try:
        return check_models([str(folder) for folder in folders[1:]], str(folders[0]))
    except HostError as error:
        return str(error)


@pytest.mark.parametrize(
    ("changes", "asks"),
    [
        ({}, False),
        ({"rope_parameters": ROPE | {"rope_theta": 7.0}}, False),
        (OLD, False),
        (OLD | {"rope_theta": 7.0}, False),
        ({"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}}, True),
        ({"max_position_embeddings": 999, "bos_token_id": None, "dtype": "bfloat16"}, False),
        ({"attention_bias": None, "use_sliding_window": None, "max_window_layers": None}, False),  # the defaults
        ({"sliding_window": 77}, False),  # not used
        ({"max_window_layers": 21}, True),  # not used either, as `layer_types` says
        ({"sliding_window": 77, "use_sliding_window": True}, False),
        ({"head_dim": None}, True),
        ({"rms_norm_eps": 1e-5}, False),
        ({"rms_norm_eps": "small"}, True),
        ({"hidden_size": 33}, True),
        ({"hidden_act": "gelu"}, False),
        ({"vocab_size": 48.0}, True),
        ({"model_type": "qwen2"}, True),
        ({"model_type": "../qwen3"}, True),
        ({"model_type": "t5"}, True),
        ({"architectures": ["Qwen3Model"]}, True),
        ({"architectures": None}, True),
        ({"layer_types": ["full_attention"]}, True),
        ({"layer_types": None}, True),  # the default, which only transformers fills in
        ({"layer_types": ["full_attention", "sliding_attention", "full_attention"]}, True),
        ({"something_new": 1}, True),
    ],
    ids=str,
)
def test_the_check_says_what_it_would_with_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: Path, changes: dict[str, Any], asks: bool
) -> None:
    found, asked, first = both(monkeypatch, base, other(tmp_path / "other", **changes))
    assert found == asked and first is asks


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"attention_bias": True}, "that config.json asks for are in no file"),
        ({"tie_word_embeddings": None}, "that config.json asks for are in no file"),
        ({"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}, "that config.json asks for are in no file"),
        ({"num_key_value_heads": 4}, "the weights are not as config.json says"),
        ({"intermediate_size": 64}, "the weights are not as config.json says"),
    ],
    ids=str,
)
def test_settings_that_no_file_is_of_are_refused_either_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: Path, changes: dict[str, Any], why: str
) -> None:
    """The setting is told where the other model does without, and the tensor where transformers is asked."""
    found, asked, first = both(monkeypatch, base, other(tmp_path / "other", **changes))
    assert isinstance(found, Report) and isinstance(asked, str) and not first
    assert next(iter(changes)) in found.reasons[0] and why in asked


def test_another_depth_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: Path) -> None:
    found, asked, first = both(monkeypatch, base, saved(tiny("qwen3", num_hidden_layers=2), tmp_path / "other"))
    assert found == asked and not first and isinstance(found, Report) and "it has 2 layers" in found.reasons[0]


@pytest.mark.parametrize("architecture", ["llama", "qwen2", "qwen3", "mistral", "gemma2", "olmo2", "phi3", "granite"])
def test_a_plain_configuration_is_that_of_transformers(architecture: str) -> None:
    """Of every setting that is compared, also where config.json says least."""
    config = AutoConfig.for_model(architecture, num_hidden_layers=2)
    names = {"gemma2": "Gemma2", "olmo2": "Olmo2", "phi3": "Phi3"}
    whole = config.to_dict() | {"architectures": [f"{names.get(architecture, architecture.capitalize())}ForCausalLM"]}
    least = {key: whole[key] for key in ("model_type", "architectures", "num_hidden_layers")}
    for raw in (whole, least):
        found = plain_config(json.loads(json.dumps(raw)))
        assert found is not None
        for key in COMPARED:
            if key not in MOVED and (raw is whole or found.get(key) is not None):
                assert key == "rope_parameters" and raw is least or found.get(key) == whole.get(key), key


def test_every_setting_is_compared() -> None:
    assert set(SETTINGS) < set(COMPARED)
