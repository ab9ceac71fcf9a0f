"""Model folders of recipes: ordinary, whole, the same bytes each time; and recipe files, whose faults have a line."""

import json
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save
from tiny_merges import ARCHITECTURES, build, family, family_folders, genome, route, saved, tiny
from transformers import AutoModelForCausalLM, AutoTokenizer

from evolora_core.errors import ConfigError
from evolora_core.searches.merging import make
from evolora_core.searches.merging.build import merged_config
from evolora_core.searches.merging.check import check_models
from evolora_core.searches.merging.make import make_described, make_model
from evolora_core.searches.merging.recipe_file import load_recipe, parse_recipe
from evolora_core.searches.merging.streaming import BYTES, size_of, write_tensors
from evolora_core.searches.merging.weights import FolderWeights, Loaded, Weights, model_path, open_model

TIES = {"op": "ties", "inputs": ["a", "b"], "params": {"density": 0.5}}
DEEP = route((0, 0), (1, 1, 1.5), (1, 2), (0, 2), inputs=[TIES, "c"])
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a family."""
    return family_folders(tmp_path_factory.mktemp("family"))


def opened(words: dict[str, str]) -> dict[str, Weights]:
    return {name: FolderWeights(Path(word)) for name, word in words.items()}


def made(recipe: Any, words: dict[str, str], out: Path, **how: Any) -> Path:
    make_model(genome(recipe, 5), opened(words), "base", out, Path(words["base"]), **how)
    return out


shapes = st.dictionaries(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8).filter(
        lambda name: name != "__metadata__"
    ),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    max_size=6,
)


@settings(max_examples=80)
@given(shapes, st.sampled_from(sorted(BYTES)))
def test_the_file_is_what_safetensors_writes(
    tmp_path_factory: pytest.TempPathFactory, sizes: dict[str, tuple[int, ...]], dtype: str
) -> None:
    tensors = {name: torch.randn(size).to(getattr(torch, dtype)) for name, size in sizes.items()}
    path = tmp_path_factory.mktemp("file") / "model.safetensors"
    write_tensors(path, sizes, lambda name: tensors[name].float(), dtype)
    assert path.read_bytes() == save(tensors, {"format": "pt"})
    assert path.stat().st_size == size_of(sizes, dtype) and [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_route_of_all_layers_is_the_model_byte_for_byte(tmp_path: Path, architecture: str) -> None:
    folder = saved(tiny(architecture), tmp_path / "model")
    recipe = route((0, 0), (0, 1), (0, 2), inputs=["a"])
    out = made(recipe, {"a": str(folder), "base": str(folder)}, tmp_path / "out")
    assert (out / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()
    told, was = (json.loads((one / "config.json").read_text()) for one in (out, folder))
    assert told == {key: value for key, value in was.items() if key != "transformers_version"}
    assert (out / "tokenizer.json").read_bytes() == (folder / "tokenizer.json").read_bytes()


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("recipe", [TIES, DEEP, route((0, 1)), "a"], ids=["ties", "deeper", "shallower", "one"])
def test_transformers_loads_it(tmp_path: Path, architecture: str, recipe: Any) -> None:
    words = family_folders(tmp_path / "family", architecture)
    out = made(recipe, words, tmp_path / "new" / "out")
    loaded: Any = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    model, found = loaded
    assert not found["missing_keys"] and not found["unexpected_keys"] and not found["mismatched_keys"]
    own = build(genome(recipe, 5), opened(words), "base")
    assert all(torch.equal(own[name], tensor) for name, tensor in model.named_parameters())
    ours, theirs = (AutoTokenizer.from_pretrained(folder) for folder in (out, words["base"]))
    assert ours("w5 w6").input_ids == theirs("w5 w6").input_ids and type(ours) is type(theirs)
    assert model.generate(torch.tensor([[5, 6]]), max_new_tokens=3).shape[1] > 2
    assert sorted(path.name for path in out.parent.iterdir()) == ["out"]


def test_mergekit_is_told_of_folders_in_full(
    tmp_path: Path, words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Called from elsewhere it would look for a relative one on the hub."""
    monkeypatch.chdir(Path(words["a"]).parent)
    models = {"a": "a", "b": "./b", "base": "base"}
    file = parse_recipe({"models": models, "base": "base", "recipe": TIES})
    make_described(file, tmp_path / "out", tmp_path / "mergekit.yaml")
    told = yaml.safe_load((tmp_path / "mergekit.yaml").read_text())
    named = [own["model"] for own in told["slices"][0]["sources"]] + [told["base_model"]]
    assert named == [words["a"], words["b"], words["base"], words["base"]]


def test_the_same_recipe_gives_the_same_bytes(tmp_path: Path, words: dict[str, str]) -> None:
    recipe = route((0, 0), (0, 2, 1.2), inputs=[{"op": "dare_ties", "inputs": ["a", "b"], "params": {"density": 0.5}}])
    one, two = (made(recipe, words, tmp_path / name, sources=words) for name in ("one", "two"))
    torch.rand(1)
    assert {path.name for path in one.iterdir()} == {path.name for path in two.iterdir()}
    assert all((two / path.name).read_bytes() == path.read_bytes() for path in one.iterdir())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(tmp_path: Path, words: dict[str, str], dtype: str) -> None:
    out = made(TIES, words, tmp_path / "out", dtype=dtype)
    assert json.loads((out / "config.json").read_text())["dtype"] == dtype
    own = build(genome(TIES, 5), opened(words), "base")
    kept = load_file(out / "model.safetensors")
    assert all(torch.equal(kept[name], tensor.to(getattr(torch, dtype))) for name, tensor in own.items())
    with safe_open(out / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_the_recipe_beside_it_makes_it_again(tmp_path: Path, words: dict[str, str]) -> None:
    out = made(DEEP, words, tmp_path / "out", sources=words)
    file = load_recipe(out / "recipe.json")
    assert file.genome == genome(DEEP, 5) and file.models == words
    again = tmp_path / "again"
    make_model(file.genome, opened(file.models), file.base or "", again, Path(words["base"]), file.dtype, file.models)
    assert all((again / path.name).read_bytes() == path.read_bytes() for path in out.iterdir())


def test_only_few_tensors_are_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]) -> None:
    """Each tensor is asked for once and written before the next one."""
    asked: list[str] = []
    plain, models = FolderWeights.get, opened(words)

    def noted(self: FolderWeights, name: str) -> torch.Tensor:
        asked.append(name)
        return plain(self, name)

    monkeypatch.setattr(FolderWeights, "get", noted)
    make_model(genome(TIES), models, "base", tmp_path / "out", None)
    assert asked == [name for name in sorted(models["a"].names) for _ in range(3)]
    assert not (tmp_path / "out" / "tokenizer.json").exists()


def test_a_full_disk_is_told_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10**9, 10**9, 1000))
    with pytest.raises(ConfigError, match=r"out: the merged model takes .* GB, and 0.00 GB are free"):
        made(TIES, words, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_where_it_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]) -> None:
    def killed(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(make, "merged_tensor", killed)
    with pytest.raises(KeyboardInterrupt):
        made(TIES, words, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_what_a_killed_one_left_is_replaced(tmp_path: Path, words: dict[str, str]) -> None:
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "half").write_text("x")
    (tmp_path / "out").mkdir()
    assert not (made("a", words, tmp_path / "out") / "half").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_the_folder_in_which_one_stands_is_filled(
    tmp_path: Path, words: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    made("a", words, Path())
    assert Path("config.json").is_file() and [path.name for path in tmp_path.iterdir()] == ["here"]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_nothing_is_overwritten(tmp_path: Path, words: dict[str, str], kind: str) -> None:
    out = tmp_path / "out"
    if kind == "file":
        out.write_text("x")
    else:
        out.mkdir()
        (out / "mine").write_text("x")
    with pytest.raises(ConfigError, match="not an empty folder"):
        made(TIES, words, out)


def test_infinities_are_not_written(tmp_path: Path) -> None:
    models = family()
    models["a"] = Loaded(models["a"].config, {name: 1e5 * models["a"].get(name) for name in models["a"].names})
    with pytest.raises(ConfigError, match="NaN or infinity in float16; use bfloat16"):
        make_model(genome("a"), models, "", tmp_path / "out", None, "float16")
    models["b"] = Loaded(models["b"].config, {name: 3e37 * models["b"].get(name) for name in models["b"].names})
    twice = {"op": "linear", "inputs": ["b", "b"], "params": {"weight": 10.0}, "options": {"normalize": "no"}}
    with pytest.raises(ConfigError, match="in float32; change the recipe"):
        make_model(genome(twice), models, "", tmp_path / "out", None)
    broken = {name: models["a"].get(name).clone() for name in models["a"].names}
    broken["model.layers.1.mlp.up_proj.weight"][0, 0] = torch.nan
    models["c"] = Loaded(models["c"].config, broken)
    for recipe in ("c", {"op": "sce", "inputs": ["a", "c"], "params": {"select_topk": 0.5}}):
        with pytest.raises(ConfigError, match=r"in float32; model 'c' \(me/c\) has some itself, take another"):
            make_model(genome(recipe), models, "base", tmp_path / "out", None, sources={"c": "me/c"})
    with pytest.raises(ConfigError, match="float64"):
        make_model(genome("a"), models, "", tmp_path / "out", None, "float64")


def test_a_model_that_transformers_would_not_load_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]
) -> None:
    def deeper(*arguments: Any) -> dict[str, Any]:
        return merged_config(genome(route(*[(0, 0)] * 5, inputs=["a"])), opened(words), "base")

    monkeypatch.setattr(make, "merged_config", deeper)
    for small in (0, make.SMALL):
        monkeypatch.setattr(make, "SMALL", small)
        with pytest.raises(ConfigError, match=r"model.layers.4.* is not as config.json asks for"):
            made(route((0, 0), (0, 1), (0, 1), (0, 2), inputs=["a"]), words, tmp_path / "out")


def test_large_ones_are_checked_on_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]
) -> None:
    """Also where a head has another name in the files, as that of GPT-NeoX."""
    monkeypatch.setattr(make, "SMALL", 0)
    assert made(DEEP, words, tmp_path / "out").is_dir()
    neox = family_folders(tmp_path / "neox", "gpt_neox", tie_word_embeddings=False)
    assert made(route((0, 0), (1, 1), (1, 2), (0, 2), inputs=[TIES, "c"]), neox, tmp_path / "deep").is_dir()


@pytest.mark.parametrize(
    ("architecture", "experts"),
    [
        ("mixtral", {"num_local_experts": 2, "num_experts_per_tok": 1}),
        ("qwen3_moe", {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}),
    ],
)
def test_routes_of_experts_are_checked_on_paper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, architecture: str, experts: dict[str, Any]
) -> None:
    """Files have each expert by itself, and loaded models have them in one tensor."""
    monkeypatch.setattr(make, "SMALL", 0)
    words = family_folders(tmp_path / "family", architecture, **experts)
    out = made(route((0, 0), (0, 1), (0, 1), inputs=["a"]), words, tmp_path / "out")
    model, own = AutoModelForCausalLM.from_pretrained(out), AutoModelForCausalLM.from_pretrained(words["a"])
    for to, layer in enumerate((0, 1, 1)):
        there, here = (dict(one.model.layers[at].named_parameters()) for one, at in ((model, to), (own, layer)))
        assert all(torch.equal(there[name], here[name]) for name in here)
    monkeypatch.setattr(
        make, "merged_config", lambda *given: dict(FolderWeights(Path(words["a"])).config) | {"num_hidden_layers": 4}
    )
    with pytest.raises(ConfigError, match=r"model.layers.3.* is not as config.json asks for"):
        made(route((0, 0), (0, 1), (0, 1), inputs=["a"]), words, tmp_path / "deep")


RECIPE = """\
models: {base: nano, code: my-code, math: my-math}
base: base
recipe:
  op: ties
  inputs:
    - code
    - op: linear
      inputs: [code, math]
      params:
        weight: [0.5, 0.7]
  params: {density: 0.4}
dtype: bfloat16
"""


def test_a_recipe_file(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    file = load_recipe(path)
    assert file.dtype == "bfloat16" and file.tokenizer_name == "base" and set(file.used) == {"base", "code", "math"}
    inner = {"op": "linear", "inputs": ["code", "math"], "params": {"weight": [0.5, 0.7]}}
    assert file.genome == genome({"op": "ties", "inputs": ["code", inner], "params": {"density": 0.4}})


def test_only_what_is_used_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text("models: {base: nano, code: my-code, math: my-math}\nrecipe: {op: linear, inputs: [math]}\n")
    assert load_recipe(path).used == {"math": "my-math"} and load_recipe(path).tokenizer_name == "math"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("op: ties", "op: tiess", "4: .*did you mean 'ties'"),
        ("op: linear", "op: liner", "7: .*did you mean 'linear'"),
        ("[0.5, 0.7]", "[0.5, x]", "10: "),
        ("[0.5, 0.7]", "[0.5]", "9: .*1 values for 2 inputs"),
        ("[0.5, 0.7]", "[0.5, 77]", "9: .*77.0 is not from -10 to 10"),
        ("density: 0.4", "densty: 0.4", "11: .*no parameter 'densty'"),
        ("density: 0.4", "density: .nan", "11: "),
        ("base: base\n", "", "2: .*'ties' works on differences from a common base; add the key `base`"),
        ("base: base\n", "base: nope\n", "2: .*model 'nope' is unknown; `models` has base, code, math"),
        ("inputs: [code, math]", "inputs: [code, mth]", "3: .*model 'mth' is unknown"),
        ("inputs: [code, math]", "inputs: [code, 7]", "8: .*expected a model's name"),
        ("inputs: [code, math]", "inputs: []", "8: .*at least 1"),
        ("inputs: [code, math]", "input: [code, math]", "8: .*unknown key 'input'; did you mean 'inputs'"),
        ("dtype: bfloat16", "dtype: float8", "12: key 'dtype'"),
        ("dtype: bfloat16", "tokenizer: nope", "12: key 'tokenizer': model 'nope'"),
        ("dtype: bfloat16", "seed: -1", "12: key 'seed'"),
        ("models: {base: nano, code: my-code, math: my-math}\n", "", "key 'models' is missing"),
        ("recipe:", "recept:", "unknown key 'recept'; did you mean 'recipe'"),
    ],
)
def test_faults_of_a_recipe_have_a_line(tmp_path: Path, old: str, new: str, reason: str) -> None:
    path = tmp_path / "recipe.yaml"
    assert old in RECIPE
    path.write_text(RECIPE.replace(old, new, 1))
    with pytest.raises(ConfigError, match=rf"recipe.yaml:.*{reason}") as error:
        load_recipe(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("{op: layers, inputs: [a], route: [{input: 1, layer: 0}]}", "input 1 is not there"),
        ("{op: layers, inputs: [a]}", "key 'route' is missing"),
        ("{op: layers, inputs: [a], route: [{input: 0, layer: 0, scale: 0}]}", "greater than 0"),
        ("{op: linear, inputs: [{op: linear, inputs: [{op: linear, inputs: [{op: linear, inputs: [a]}]}]}]}", "4 oper"),
        ("[a]", "expected a model's name"),
    ],
)
def test_faults_of_routes_and_trees(tmp_path: Path, recipe: str, reason: str) -> None:
    path = tmp_path / "recipe.yaml"
    path.write_text(f"models: {{a: nano}}\nrecipe: {recipe}\n")
    with pytest.raises(ConfigError, match=rf"recipe.yaml:2: .*{reason}"):
        load_recipe(path)


def test_gguf_files_are_merged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: dict[str, str]) -> None:
    """How such files are read is tested elsewhere; here, that their weights and tokenizer are taken."""
    file = tmp_path / "little.gguf"
    file.write_bytes(b"GGUF")

    def load(path: Path, dtype: torch.dtype) -> tuple[Any, Any]:
        assert path == file and dtype == torch.float32
        return AutoModelForCausalLM.from_pretrained(words["a"]), AutoTokenizer.from_pretrained(words["a"])

    monkeypatch.setattr("evolora_core.language.hosts.gguf.load_gguf", load)
    models = {"a": open_model(str(file)), "b": open_model(words["b"])}
    make_model(genome({"op": "linear", "inputs": ["a", "b"]}), models, "", tmp_path / "out", model_path(str(file)))
    mean = build(genome({"op": "linear", "inputs": ["a", "b"]}), opened(words), "")
    kept = load_file(tmp_path / "out" / "model.safetensors")
    assert all(torch.equal(kept[name], tensor) for name, tensor in mean.items())
    assert AutoTokenizer.from_pretrained(tmp_path / "out")("w5").input_ids == [5]
    report = check_models([str(file), words["b"]], words["base"])
    assert report.mergeable and report.warnings == [f"{file}: the tokenizer of a GGUF file is not compared"]
