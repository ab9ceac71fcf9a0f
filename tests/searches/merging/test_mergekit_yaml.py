"""What we write for mergekit makes mergekit merge the same."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tiny_merges import build, family_folders, genome, route

from evolora_core.errors import ConfigError
from evolora_core.searches.merging.mergekit_yaml import mergekit_yaml
from evolora_core.searches.merging.weights import FolderWeights, Weights

PAIR = ["a", "b"]
GROUPS = [[0.2, 0.7, 1.0], 0.5]  # three groups for a, one for b
RECIPES: dict[str, Any] = {
    "one model": "a",
    "linear": {"op": "linear", "inputs": ["a", "b", "c"], "params": {"weight": [0.5, [0.1, 0.9], 0.3]}},
    "linear sum": {"op": "linear", "inputs": PAIR, "params": {"weight": GROUPS}, "options": {"normalize": "no"}},
    "slerp": {"op": "slerp", "inputs": PAIR, "params": {"t": [0.1, 0.5, 0.8]}},
    "task arithmetic": {"op": "task_arithmetic", "inputs": PAIR, "params": {"weight": GROUPS, "scale": 0.7}},
    "ties": {"op": "ties", "inputs": PAIR, "params": {"weight": GROUPS, "density": [0.5, [0.3, 0.8]], "scale": 1.2}},
    "ties sum": {"op": "ties", "inputs": PAIR, "params": {"density": 0.4}, "options": {"normalize": "no"}},
    "breadcrumbs": {"op": "breadcrumbs", "inputs": PAIR, "params": {"density": 0.6, "gamma": 0.05}},
    "breadcrumbs ties": {"op": "breadcrumbs_ties", "inputs": PAIR, "params": {"density": [0.6, 0.4]}},
    "model stock": {"op": "model_stock", "inputs": ["a", "b", "c"]},
    "sce": {"op": "sce", "inputs": ["a", "b", "c"], "params": {"select_topk": [0.5, 0.9]}},
    "dare of all": {"op": "dare_ties", "inputs": PAIR, "params": {"weight": GROUPS}},
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """Folders of a family by architecture, with a head of its own for llama."""
    found = {}
    for architecture in ("qwen3", "qwen2", "llama"):
        folder = tmp_path_factory.mktemp(architecture)
        found[architecture] = family_folders(folder, architecture, tie_word_embeddings=architecture != "llama")
    return found


def opened(words: dict[str, str]) -> dict[str, Weights]:
    return {name: FolderWeights(Path(word)) for name, word in words.items()}


def read_by_mergekit(document: Any) -> Any:
    """mergekit's own form of a document; what it takes for none is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mergekit.config import MergeConfiguration

        return MergeConfiguration.model_validate(document)


def merged_by_mergekit(text: str, out: Path) -> Weights:
    """Run mergekit on a YAML."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from mergekit.merge import MergeOptions, run_merge

        run_merge(
            read_by_mergekit(yaml.safe_load(text)),
            str(out),
            MergeOptions(copy_tokenizer=True, quiet=True, write_model_card=False),
        )
    return FolderWeights(out)


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
@pytest.mark.parametrize("name", RECIPES)
def test_mergekit_makes_the_same_tensors(
    folders: dict[str, dict[str, str]], tmp_path: Path, architecture: str, name: str
) -> None:
    words, own = folders[architecture], genome(RECIPES[name])
    models = opened(words)
    theirs = merged_by_mergekit(mergekit_yaml(own, models, "base", words), tmp_path / "out")
    ours = build(own, models, "base")
    assert set(theirs.names) == set(ours)
    for tensor, found in ours.items():
        torch.testing.assert_close(found, theirs.get(tensor), atol=1e-6, rtol=1e-6, msg=tensor)


def test_a_route_becomes_slices(folders: dict[str, dict[str, str]], tmp_path: Path) -> None:
    words = folders["llama"]
    own = genome(route((0, 0), (0, 1), (1, 1), (1, 2), (1, 0), (0, 2)))
    models = opened(words)
    text = mergekit_yaml(own, models, "base", words)
    ranges = [one["sources"][0]["layer_range"] for one in yaml.safe_load(text)["slices"]]
    assert ranges == [[0, 2], [1, 3], [0, 1], [2, 3]]
    theirs, ours = merged_by_mergekit(text, tmp_path / "out"), build(own, models, "base")
    assert set(theirs.names) == set(ours) and theirs.config["num_hidden_layers"] == 6
    assert all(torch.equal(ours[tensor], theirs.get(tensor)) for tensor in ours)


@pytest.mark.parametrize("architecture", ["qwen3", "qwen2", "llama"])
def test_random_masks_are_told_too(folders: dict[str, dict[str, str]], tmp_path: Path, architecture: str) -> None:
    words = folders[architecture]
    recipe = {"op": "dare_ties", "inputs": PAIR, "params": {"density": 0.5}, "options": {"rescale": "l1"}}
    text = mergekit_yaml(genome(recipe), opened(words), "base", words, "bfloat16")
    assert yaml.safe_load(text)["parameters"] == {"normalize": False, "rescale": True}
    assert merged_by_mergekit(text, tmp_path / "out").names


@pytest.mark.parametrize("op", ["linear", "ties"])
def test_the_tokenizer_is_told_where_mergekit_would_take_another(folders: dict[str, dict[str, str]], op: str) -> None:
    words, own = folders["qwen3"], genome({"op": op, "inputs": PAIR})
    usual = "a" if op == "linear" else "base"
    told = {}
    for name in ("a", "b", "base"):
        document = yaml.safe_load(mergekit_yaml(own, opened(words), "base", words, tokenizer=name))
        read_by_mergekit(document)
        told[name] = document.get("tokenizer")
    assert told == {name: None if name == usual else {"source": words[name]} for name in told}


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ({"op": "linear", "inputs": ["a", {"op": "linear", "inputs": ["b", "c"]}]}, "one operator over models"),
        (route((0, 0, 2.0), (0, 1), (0, 2)), "does not scale"),
        (route((1, 0), (0, 1), (1, 2)), "embeddings and head"),
        (route((0, 0), (0, 1), (0, 1), (0, 2)), "layer_types"),
        ({"op": "dare_linear", "inputs": PAIR, "params": {"density": [0.5, [1.0, 0.2]]}}, "rescale: l1"),
        ({"op": "linear", "inputs": ["a", "a"]}, "named twice"),
        (
            {"op": "della", "inputs": PAIR, "params": {"density": [1.0, 0.9]}, "options": {"rescale": "l1"}},
            "density ± epsilon",
        ),
        ({"op": "ties", "inputs": ["a", "base"]}, "named twice"),
    ],
)
def test_what_mergekit_has_no_words_for(folders: dict[str, dict[str, str]], recipe: Any, reason: str) -> None:
    words = folders["qwen3"]
    with pytest.raises(ConfigError, match=reason):
        mergekit_yaml(genome(recipe), opened(words), "base", words)


def test_mergekit_reads_no_gguf(folders: dict[str, dict[str, str]]) -> None:
    words = folders["qwen3"]
    with pytest.raises(ConfigError, match="GGUF"):
        mergekit_yaml(genome("a"), opened(words), "base", words | {"a": "a.gguf"})
