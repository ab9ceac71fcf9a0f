"""Whether models can be merged, from headers and a sample: what differs is named, and models without a common base."""

import json
import re
import shutil
from contextlib import nullcontext
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from test_weights import rewrite
from tiny_merges import build, family, family_folders, genome, moved, saved, tiny, tokens
from transformers import AutoModelForCausalLM, PreTrainedModel

from evolora_core.errors import ConfigError, HostError
from evolora_core.searches.merging import distances
from evolora_core.searches.merging.check import check_models
from evolora_core.searches.merging.compatibility import misfit
from evolora_core.searches.merging.distances import cosines, sampled_products
from evolora_core.searches.merging.make import make_described
from evolora_core.searches.merging.recipe_file import parse_recipe
from evolora_core.searches.merging.weights import Loaded, Weights, drift, open_model


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a family."""
    return family_folders(tmp_path_factory.mktemp("family"))


def test_a_family_can_be_merged(words: dict[str, str]) -> None:
    report = check_models([words[name] for name in "abc"], words["base"])
    assert report.mergeable and not report.warnings and not report.sampled
    assert [row["model"] for row in report.rows] == [words[name] for name in ("a", "b", "c", "base")]
    models = family()
    for row, name in zip(report.rows, "abc", strict=False):
        assert row["drift"] == pytest.approx(drift(models["base"], models[name]), rel=1e-5)
        assert row["architecture"] == "Qwen3ForCausalLM" and row["layers"] == 3 and row["tied head"]
        assert row["parameters"] == sum(models[name].get(own).numel() for own in models[name].names)
    found = torch.tensor([[row[f"cosine to {name}"] for name in "abc"] for row in report.rows[:3]])
    assert torch.allclose(found, found.T) and torch.allclose(found.diagonal(), torch.ones(3))
    assert found.fill_diagonal_(0).abs().max() < 0.1
    assert report.rows[3]["drift"] == 0 and report.rows[3]["cosine to a"] is None


def test_cosines_tell_what_is_alike() -> None:
    models = family()
    base, a, b = (models[name] for name in ("base", "a", "b"))
    names = base.names
    back = Loaded(base.config, {own: 2 * base.get(own) - a.get(own) for own in names})
    mixed = Loaded(base.config, {own: a.get(own) + b.get(own) - base.get(own) for own in names})
    found = cosines(sampled_products(base, [a, back, mixed, base])[:-1, :-1])
    assert found[0, 1] == pytest.approx(-1, abs=1e-5)
    assert found[0, 2] == pytest.approx(2**-0.5, abs=0.05)
    assert found[3].tolist() == [0, 0, 0, 0]


def test_without_a_base_every_pair_is_measured(words: dict[str, str]) -> None:
    report = check_models([words[name] for name in "abc"])
    assert report.mergeable and not report.warnings
    models = family()
    for row, one in zip(report.rows, "abc", strict=True):
        for other in "abc":
            expected = drift(models[one], models[other])
            assert row[f"distance to {other}"] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_columns_tell_models_of_one_name_apart(tmp_path: Path, words: dict[str, str]) -> None:
    copies = [str(shutil.copytree(words[name], tmp_path / name / "model")) for name in "ab"]
    (first, last) = check_models(copies, words["base"]).rows[:2]
    assert list(first)[-3:] == ["drift", "cosine to a/model", "cosine to b/model"]
    assert first["cosine to a/model"] == pytest.approx(1) == last["cosine to b/model"]
    assert {"distance to a", "distance to model"} < check_models([words["a"], copies[1]]).rows[0].keys()


@pytest.mark.parametrize("based", [True, False])
def test_models_that_began_apart_are_told(tmp_path: Path, words: dict[str, str], based: bool) -> None:
    other = str(saved(tiny(seed=99), tmp_path / "other"))
    report = check_models([words["a"], other], words["base"] if based else None)
    assert report.mergeable
    (warning,) = report.warnings
    assert warning.startswith(f"{other}: is 1.") and "no common base" in warning


def trained(model: PreTrainedModel, seed: int, steps: int, rate: float) -> PreTrainedModel:
    """The model after so many steps on random sequences that repeat."""
    stream = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.requires_grad_(True).parameters(), lr=rate)
    for _ in range(steps):
        ids = torch.randint(3, 48, (8, 6), generator=stream).repeat(1, 2)
        loss: Any = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Two bases, `0` and `1`, that were trained alike from other seeds, and two specialists of each."""
    folder, found = tmp_path_factory.mktemp("trees"), {}
    for base in "01":
        found[base] = str(saved(trained(tiny(seed=int(base)), 5, 60, 3e-3), folder / base))
        for number, name in enumerate("ab"):
            model = AutoModelForCausalLM.from_pretrained(found[base])
            found[base + name] = str(saved(trained(model, 10 + number, 20, 3e-4), folder / (base + name)))
    return found


def test_bases_of_two_seeds_are_told_and_specialists_of_one_are_not(trees: dict[str, str]) -> None:
    for base in "01":
        report = check_models([trees[base + "a"], trees[base + "b"]], trees[base])
        assert report.mergeable and not report.warnings
        assert all(0.001 < row["drift"] < 0.2 for row in report.rows[:2])
        assert not check_models([trees[base + "a"], trees[base + "b"]]).warnings
    strangers = [trees[name] for name in ("1", "1a", "1b")]
    report = check_models([trees["0a"], *strangers], trees["0"])
    assert report.mergeable and all(row["drift"] > 1 for row in report.rows[1:4]) and report.rows[0]["drift"] < 0.2
    assert [warning.split(": ")[0] for warning in report.warnings] == strangers
    assert all("no common base" in warning for warning in report.warnings)
    (told,) = check_models([trees["0a"], trees["1a"]]).warnings
    assert told.startswith(trees["1a"]) and "no common base" in told


def test_equal_models_are_told(tmp_path: Path, words: dict[str, str]) -> None:
    report = check_models([words["a"], words["a"]], words["base"])
    assert report.warnings == [f"{words['a']}: looks the same as {words['a']}"]


def test_a_sample_is_near_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [Loaded.of(moved(tiny(hidden_size=128, intermediate_size=512, seed=0), seed)) for seed in (1, 2)]
    base = Loaded.of(tiny(hidden_size=128, intermediate_size=512, seed=0))
    whole = sampled_products(base, models)
    monkeypatch.setattr(distances, "SAMPLE", sum(base.get(name).numel() for name in base.names) // 16)
    near = sampled_products(base, models)
    assert not np.array_equal(near, whole)
    assert np.allclose(near.diagonal(), whole.diagonal(), rtol=0.1)
    assert np.allclose(cosines(near[:-1, :-1]), cosines(whole[:-1, :-1]), atol=0.05)


@pytest.mark.parametrize(
    ("architecture", "changes", "reason"),
    [
        ("llama", {}, "model_type is 'llama', in .*base 'qwen3'"),
        ("qwen3", {"hidden_size": 16}, "hidden_size is 16"),
        ("qwen3", {"num_key_value_heads": 4}, "num_key_value_heads is 4, in .*base 2"),
        ("qwen3", {"rope_parameters": {"rope_theta": 7.0, "rope_type": "default"}}, "rope_parameters is .*7.0"),
        ("qwen3", {"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        ("qwen3", {"vocab_size": 64}, "vocab_size is 64, in .*base 48"),
        ("qwen3", {"num_hidden_layers": 2}, "it has 2 layers, .*base has 3; only a route"),
        (
            "qwen3",
            {"layer_types": ["full_attention", "sliding_attention", "full_attention"]},
            "layer_types.1 is 'sliding_attention', in .*base 'full_attention'",
        ),
    ],
)
def test_another_kind_of_model_is_refused(
    tmp_path: Path, words: dict[str, str], architecture: str, changes: dict[str, Any], reason: str
) -> None:
    other = str(saved(tiny(architecture, **changes), tmp_path / "other"))
    report = check_models([words["a"], other], words["base"])
    assert not report.mergeable
    (told,) = report.reasons
    assert told.startswith(f"{other}: config.json") or "layers" in told
    assert re.search(reason, told), told


def test_the_first_tensor_that_differs_is_named() -> None:
    models = family()
    tensors = {name: models["a"].get(name) for name in models["a"].names}
    name = "model.layers.1.mlp.up_proj.weight"
    short: Weights = Loaded(models["a"].config, tensors | {name: tensors[name][:-1]})
    assert misfit(models["base"], short) == f"{name} is [55, 32], in the base [56, 32]"
    less = Loaded(models["a"].config, {own: one for own, one in tensors.items() if own != name})
    assert misfit(models["base"], less) == f"{name} is missing, in the base [56, 32]"
    assert misfit(models["base"], models["a"]) == ""


def test_another_tokenizer_is_refused(tmp_path: Path, words: dict[str, str]) -> None:
    other = str(saved(moved(tiny(), 5), tmp_path / "other", words=46))
    report = check_models([words["a"], other], words["base"])
    assert report.reasons == [f"{other}: another tokenizer than {words['base']}: 2 of 48 and 46 tokens differ"]


def tokenizer_with(folder: Path, change: Any) -> str:
    """A model whose tokenizer.json was changed."""
    saved(moved(tiny(), 5), folder)
    document = json.loads((folder / "tokenizer.json").read_text())
    change(document)
    (folder / "tokenizer.json").write_text(json.dumps(document))
    return str(folder)


def test_what_decides_nothing_may_differ(tmp_path: Path, words: dict[str, str]) -> None:
    padding = {"strategy": "BatchLongest", "direction": "Left", "pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    other = tokenizer_with(tmp_path / "other", lambda document: document.update(padding=padding))
    assert check_models([words["a"], other], words["base"]).mergeable


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda document: document.update(normalizer={"type": "Lowercase"}), "normalizer of tokenizer.json differs"),
        (lambda document: document.update(pre_tokenizer=None), "pre_tokenizer of tokenizer.json differs"),
        (lambda document: document["model"]["vocab"].update(w3=4, w4=3), "2 of 48 and 48 tokens differ"),
        (
            lambda document: document["added_tokens"].append(document["added_tokens"][0] | {"content": "<new>"}),
            "1 of 48 and 49",
        ),
        (
            lambda document: document.update(model={"type": "Unigram", "vocab": [["<pad>", 0.0]]}),
            "45 of 48 and 3 tokens",
        ),
    ],
)
def test_what_decides_how_text_is_read_must_agree(
    tmp_path: Path, words: dict[str, str], change: Any, reason: str
) -> None:
    report = check_models([words["a"], tokenizer_with(tmp_path / "other", change)], words["base"])
    assert len(report.reasons) == 1 and reason in report.reasons[0]


def pairs(merges: list[Any]) -> Any:
    """What makes a tokenizer of pairs of a tokenizer.json."""
    model = {"type": "BPE", "vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5}, "merges": merges}
    return lambda document: document.update(model=model)


def test_the_old_form_of_a_tokenizer_says_the_same(tmp_path: Path) -> None:
    old, new = tokenizer_with(tmp_path / "old", pairs(["a b"])), tokenizer_with(tmp_path / "new", pairs([["a", "b"]]))
    assert check_models([old, new]).mergeable
    report = check_models([old, tokenizer_with(tmp_path / "none", pairs([]))])
    assert "the merges of tokenizer.json differ" in report.reasons[0]


def templated(folder: Path, **changes: Any) -> str:
    """A model with a chat template, and changes of generation_config.json."""
    saved(moved(tiny(), 5), folder)
    (folder / "chat_template.jinja").write_text("{{ messages }}")
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    return str(folder)


def test_another_chat_template_or_eos_token_is_warned_about(tmp_path: Path, words: dict[str, str]) -> None:
    chat, other = templated(tmp_path / "chat"), templated(tmp_path / "other", eos_token_id=[2, 7])
    report = check_models([words["b"], chat], words["a"])
    assert report.mergeable and len(report.warnings) == 1
    assert report.warnings[0].startswith(f"{chat}: has another chat template than {words['a']}, whose template and EOS")
    (first, _) = check_models([chat, other]).warnings
    assert first.startswith(f"{other}: has other EOS tokens than {chat}, ") and "`tokenizer`" in first
    told = [own for own in check_models([other], words["a"]).warnings if "another chat template and other EOS" in own]
    assert len(told) == 1


def test_a_setting_that_was_rounded_is_the_same(tmp_path: Path, words: dict[str, str]) -> None:
    """As in a GGUF file, which has settings in float32."""
    other = saved(moved(tiny(), 5), tmp_path / "other")
    own = json.loads((other / "config.json").read_text())
    rope = {
        key: value * (1 + 1e-8) if isinstance(value, float) else value for key, value in own["rope_parameters"].items()
    }
    rewrite(other, rms_norm_eps=9.999999974752427e-07, rope_parameters=rope)
    assert own["rms_norm_eps"] == 1e-6 and check_models([words["a"], str(other)], words["base"]).mergeable
    models = {"a": open_model(words["a"]), "b": open_model(str(other))}
    assert build(genome({"op": "linear", "inputs": ["a", "b"]}), models, "")
    rewrite(other, rms_norm_eps=1.1e-6)
    assert "rms_norm_eps" in check_models([words["a"], str(other)], words["base"]).reasons[0]


@pytest.mark.parametrize("windows", [False, True])
def test_the_first_layer_with_a_window_counts_where_there_are_windows(tmp_path: Path, windows: bool) -> None:
    """Models of one base may say another `max_window_layers`, which means nothing where no layer has a window."""
    folders = [saved(tiny("qwen2"), tmp_path / "base"), saved(moved(tiny("qwen2"), 5), tmp_path / "mine")]
    for folder, first in zip(folders, (3, 1), strict=True):
        said = {"max_window_layers": first, "use_sliding_window": windows, "sliding_window": 8}
        rewrite(folder, layer_types=None, **said)
    base, mine = map(str, folders)
    kinds = f"{mine}: config.json: layer_types.1 is 'sliding_attention', in {base} 'full_attention'"
    assert check_models([mine], base).reasons == [kinds] * windows
    models = {"base": open_model(base), "mine": open_model(mine)}
    with pytest.raises(ConfigError, match=r"layer_types\.1") if windows else nullcontext():
        assert build(genome({"op": "linear", "inputs": ["base", "mine"]}), models, "")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_a_reason(tmp_path: Path, words: dict[str, str], value: float) -> None:
    """No recipe makes anything of them. A base that has some is found before the models that are measured from it."""
    model = moved(tiny(), 5)
    model.get_parameter("model.layers.1.mlp.up_proj.weight")[3, 4] = value
    mine = str(saved(model, tmp_path / "mine"))
    for given in (
        [[words["a"], mine, words["b"]], words["base"]],
        [[words["a"], words["b"]], mine],
        [[words["a"], mine]],
    ):
        report = check_models(*given)
        assert report.reasons == [f"{mine}: has NaN or infinity in its weights; take another"] and not report.warnings


def test_an_adapter_is_no_model(tmp_path: Path, words: dict[str, str]) -> None:
    (tmp_path / "adapter_config.json").write_text("{}")
    save_file({"a": torch.ones(1)}, tmp_path / "adapter_model.safetensors")
    with pytest.raises(
        HostError, match=r"adapter_config.json: this is an adapter, no model; .* merge_and_unload"
    ) as error:
        check_models([words["a"], str(tmp_path)])
    assert "\n" not in str(error.value)


def test_a_damaged_tokenizer_is_named(tmp_path: Path, words: dict[str, str]) -> None:
    folder = saved(tiny(), tmp_path / "other")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(HostError, match="tokenizer.json"):
        check_models([words["a"], str(folder)])


def test_another_kind_of_tokenizer_file(tmp_path: Path, words: dict[str, str]) -> None:
    folder = saved(tiny(), tmp_path / "other")
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.model").write_bytes(b"anything")
    report = check_models([words["a"], str(folder)])
    assert "tokenizer.json and tokenizer.model are not of one tokenizer" in report.reasons[0]
    both = saved(tiny(), tmp_path / "both")
    (both / "tokenizer.model").write_bytes(b"anything")
    assert check_models([str(both), str(folder)]).reasons == []
    assert check_models([words["a"], str(both)]).reasons == []
    vocabulary = saved(tiny(), tmp_path / "third")
    (vocabulary / "tokenizer.json").unlink()
    (vocabulary / "vocab.json").write_text(json.dumps(tokens().get_vocab()))
    more = saved(tiny(), tmp_path / "fourth")
    (more / "tokenizer.json").unlink()
    (more / "vocab.json").write_text(json.dumps(tokens(47).get_vocab()))
    assert "1 of 48 and 47 tokens differ" in check_models([str(vocabulary), str(more)]).reasons[0]


@pytest.mark.parametrize("kind", ["pickled", "truncated", "layers", "none"])
def test_what_is_no_model_is_told(tmp_path: Path, words: dict[str, str], kind: str) -> None:
    folder = saved(tiny(), tmp_path / "other")
    file = folder / "model.safetensors"
    if kind == "pickled":
        file.rename(folder / "pytorch_model.bin")
    elif kind == "truncated":
        file.write_bytes(file.read_bytes()[:-100])
    elif kind == "layers":
        rewrite(folder, num_hidden_layers=5)
    else:
        folder = tmp_path / "not there"
    with pytest.raises(HostError) as error:
        check_models([words["a"], str(folder)])
    assert "\n" not in str(error.value)


def test_one_model_alone(words: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="name two models or more"):
        check_models([words["a"]])
    assert check_models([words["a"]], words["base"]).mergeable


def test_of_a_large_model_a_sample_is_read(tmp_path: Path) -> None:
    """135 million weights, three models, as large as SmolLM2-135M; the files are sparse, so they cost no disk."""
    sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "vocab_size": 49152}
    heads = {"num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64}
    with torch.device("meta"):
        shapes = {name: tuple(own.shape) for name, own in tiny_on_paper(sizes | heads).named_parameters()}
    from evolora_core.searches.merging.streaming import header, size_of

    paths = []
    for name in ("base", "a", "b"):
        folder = saved(tiny("llama"), tmp_path / name)
        rewrite(folder, **sizes, **heads)
        with (folder / "model.safetensors").open("wb") as file:
            file.write(header(shapes, "float32"))
            file.truncate(size_of(shapes, "float32"))
        paths.append(str(folder))
    report = check_models(paths[1:], paths[0])
    assert report.rows[0]["parameters"] > 134e6 and report.sampled and report.rows[0]["drift"] == 0
    read = sum(
        shapes[name][0] // step * prod(shapes[name][1:]) for name, step in distances.steps(open_model(paths[0])).items()
    )
    assert read < 1.2 * distances.SAMPLE


def tiny_on_paper(changes: dict[str, Any]) -> Any:
    """A model without numbers."""
    from transformers import AutoConfig, AutoModelForCausalLM

    return AutoModelForCausalLM.from_config(AutoConfig.for_model("llama", tie_word_embeddings=True, **changes))


def test_weights_alone_are_merged_with_the_tokenizer_of_the_base(tmp_path: Path, words: dict[str, str]) -> None:
    moved(tiny(), 7).save_pretrained(tmp_path / "bare")
    bare = str(tmp_path / "bare")
    report = check_models([bare, words["a"]], words["base"])
    assert report.mergeable and report.warnings == [f"{bare}: has no tokenizer, which is not compared"]
    models = {"base": words["base"], "bare": bare, "a": words["a"]}
    described = {"models": models, "recipe": {"op": "linear", "inputs": ["bare", "a"]}}
    make_described(parse_recipe(described | {"base": "base"}), tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (Path(words["base"]) / "tokenizer.json").read_bytes()
    with pytest.raises(HostError, match=r"models\.bare: .* has no tokenizer.json for the merged model; .*`tokenizer`"):
        make_described(parse_recipe(described | {"tokenizer": "bare"}), tmp_path / "other")
