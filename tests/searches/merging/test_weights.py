"""Weights by name: what a folder gives is what the model has, and nothing else is read as a model."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_merges import ARCHITECTURES, family, moved, saved, tiny
from tiny_models import COMMON

from evolora_core.errors import HostError
from evolora_core.language.hosts.folder import load_folder
from evolora_core.searches.merging import headers
from evolora_core.searches.merging.check import check_models
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.weights import (
    FolderWeights,
    Loaded,
    drift,
    layer_of,
    layers_in,
    open_loaded,
    open_model,
    open_weights,
    place_of,
)


def rewrite(folder: Path, **changes: Any) -> None:
    """Change keys of config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize("architecture", [*ARCHITECTURES, "gemma3_text"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_folder_gives_what_the_model_has(tmp_path: Path, architecture: str, tied: bool) -> None:
    model = tiny(architecture, tie_word_embeddings=tied)
    there, here = open_model(str(saved(model, tmp_path / "model"))), Loaded.of(model)
    read = open_weights(tmp_path / "model", mapped=False)
    assert set(there.names) == set(here.names)
    assert ("lm_head.weight" in there.names) is not tied
    for name in here.names:
        assert torch.equal(there.get(name), here.get(name)) and there.shape(name) == here.shape(name)
        assert there.get(name).dtype == torch.float32 and torch.equal(read.get(name), here.get(name))
    volatile = {"architectures", "dtype", "_name_or_path", "transformers_version"}
    assert {key: there.config[key] for key in there.config if key not in volatile} == {
        key: here.config[key] for key in here.config if key not in volatile
    }


def test_shards_and_half_precision_are_read(tmp_path: Path) -> None:
    model: Any = tiny()
    model.to(torch.bfloat16)
    folder = saved(model, tmp_path / "model", max_shard_size="20KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    there = FolderWeights(folder)
    for name, own in model.named_parameters():
        assert torch.equal(there.get(name), own.float()) and there.get(name).dtype == torch.float32
        assert torch.equal(FolderWeights(folder, mapped=False).get(name), own.float())
        assert np.array_equal(there.rows(name, 3), own.float()[::3].numpy())


def test_only_the_shards_of_the_index_count(tmp_path: Path) -> None:
    """A repository may hold the same weights under other names, and a folder shards of what was in it before."""
    folder = saved(tiny(), tmp_path / "model", max_shard_size="20KB")
    before = FolderWeights(folder)
    stale = {name: before.get(name) + 1 for name in before.names}
    save_file(stale, folder / "model-00001-of-00999.safetensors")
    save_file({f"old.{name}": own for name, own in stale.items()}, folder / "consolidated.safetensors")
    after = FolderWeights(folder)
    assert set(after.names) == set(before.names)
    assert all(torch.equal(after.get(name), before.get(name)) for name in before.names)
    model, _, files = load_folder(folder, torch.float32)
    assert torch.equal(model.model.norm.weight, after.get("model.norm.weight")) and len(files) > 2
    save_file(stale, folder / "model.safetensors")  # transformers loads it and nothing else
    assert torch.equal(FolderWeights(folder).get("model.norm.weight"), stale["model.norm.weight"])


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ('{"weight_map": {"a": "model-1.safetensors"}}', "model-1.safetensors is missing"),
        ('{"weight_map": {"a": "../model.safetensors"}}', "../model.safetensors is missing"),
        ('{"weight_map": {"a": 7}}', "TypeError"),
        ('{"weight_map": ["a"]}', "AttributeError"),
        ("{}", "KeyError"),
        ("[", "JSONDecodeError"),
    ],
)
def test_an_index_that_names_no_files_is_refused(index: str, reason: str, tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "other.safetensors")
    (folder / "model.safetensors.index.json").write_text(index)
    with pytest.raises(HostError, match=r"model.safetensors.index.json: .*the weights anew") as error:
        FolderWeights(folder)
    assert reason in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_a_stored_copy_of_a_tied_head_is_no_tensor_of_its_own(tmp_path: Path, kind: torch.dtype) -> None:
    model: Any = tiny(tie_word_embeddings=False)
    model.to(kind)
    model.lm_head.weight.data.copy_(model.get_input_embeddings().weight)
    folder = saved(model, tmp_path / "model")
    rewrite(folder, tie_word_embeddings=True)
    assert "lm_head.weight" not in FolderWeights(folder).names


def test_a_head_of_its_own_is_not_dropped_where_the_configuration_has_it_tied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers loads it untied, and so is a model of its weights."""
    monkeypatch.setattr(headers, "BLOCK", 100)
    folder = saved(tiny(tie_word_embeddings=False), tmp_path / "model")
    rewrite(folder, tie_word_embeddings=True)
    for opened in (FolderWeights, lambda own: check_models([str(own), str(own)])):
        with pytest.raises(
            HostError, match="tie_word_embeddings is true, but lm_head.weight is not the embedding; set it to false"
        ):
            opened(folder)
    model: Any = load_folder(folder, torch.float32)[0]
    loaded = Loaded.of(model)
    again = shell(loaded.config, "cpu")
    fill(again, loaded.get)
    assert model.config.tie_word_embeddings and not loaded.config["tie_word_embeddings"]
    ids = torch.tensor([[5, 6]])
    assert torch.equal(again(ids).logits, model(ids).logits)


@pytest.mark.parametrize(("architecture", "start"), [("gpt2", "transformer."), ("gpt_neox", "gpt_neox.")])
def test_files_of_a_model_without_its_head_and_with_masks_are_read_as_transformers_does(
    tmp_path: Path, architecture: str, start: str
) -> None:
    """As gpt2 and pythia are on the hub."""
    folder = saved(tiny(architecture, num_attention_heads=4), tmp_path / "model")
    file, whole = folder / "model.safetensors", FolderWeights(folder)
    layer, own = ("h.0.attn", "") if architecture == "gpt2" else ("layers.0.attention", start)
    masks = {f"{own}{layer}.bias": torch.ones(1, 1, 4, 4), f"{own}{layer}.masked_bias": torch.tensor(-1e9)}
    save_file({name.removeprefix("" if own else start): held for name, held in load_file(file).items()} | masks, file)
    there, (model, *_) = FolderWeights(folder), load_folder(folder, torch.float32)
    assert set(there.names) == set(whole.names) == set(Loaded.of(model).names)
    for name in there.names:
        for read in (there, FolderWeights(folder, mapped=False)):
            assert torch.equal(read.get(name), model.get_parameter(name)) and read.shape(name) == whole.shape(name)
            assert np.array_equal(read.rows(name, 2), model.get_parameter(name)[::2].detach().numpy())


def test_tensors_of_another_kind_of_model_are_named(tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path / "model")
    save_file({"layers.2.attention.wq.weight": torch.ones(2)}, folder / "model.safetensors")
    with pytest.raises(HostError, match="layers.2.attention.wq.weight is not of a Qwen3ForCausalLM") as error:
        FolderWeights(folder)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["lm_head.weight", "model.layers.1.mlp.up_proj.weight"])
def test_tensors_that_no_file_has_are_named(tmp_path: Path, name: str) -> None:
    """transformers would draw them at random."""
    folder = saved(tiny("llama", tie_word_embeddings=False), tmp_path / "model")
    file = folder / "model.safetensors"
    save_file({own: held for own, held in load_file(file).items() if own != name}, file)
    with pytest.raises(HostError, match=f"1 tensors that config.json asks for are in no file, such as {name}"):
        FolderWeights(folder)


def classifier(architecture: str, folder: Path, **changes: Any) -> Path:
    """A model with a head for classes, and none for words."""
    from transformers import AutoConfig, AutoModelForSequenceClassification

    config = AutoConfig.for_model(architecture, **COMMON, num_hidden_layers=2, tie_word_embeddings=False, **changes)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize(
    ("architecture", "changes"), [("llama", {}), ("mixtral", {"num_local_experts": 2, "num_experts_per_tok": 1})]
)
def test_a_model_without_a_head_for_words_is_refused(
    architecture: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    """transformers would draw one at random, another one each time."""
    folder = classifier(architecture, tmp_path / "classes", **changes)
    for opened in (open_loaded, open_model):
        with pytest.raises(
            HostError, match=r"classes: 1 tensors .*lm_head\.weight; name a causal language model"
        ) as error:
            opened(str(folder))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"vocab_size": 60}, r"model\.embed_tokens\.weight is \[48, 32\] instead of \[60, 32\]"),
        ({"intermediate_size": 64}, r"model\.layers\.0\.mlp\.gate_proj\.weight is \[56, 32\] instead of \[64, 32\]"),
    ],
)
def test_sizes_that_are_not_those_of_the_configuration_are_named(
    changes: dict[str, Any], told: str, tmp_path: Path
) -> None:
    folder = saved(tiny("llama"), tmp_path / "odd")
    rewrite(folder, **changes)
    for opened in (open_loaded, open_model):
        with pytest.raises(HostError, match=f"odd: the weights are not as config.json says: {told}; save") as error:
            opened(str(folder))
        assert "\n" not in str(error.value)


def test_sizes_of_experts_are_told_in_one_line(tmp_path: Path) -> None:
    """What is made of several tensors is only known once it is loaded."""
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8}
    folder = saved(tiny("mixtral", **experts), tmp_path / "odd")
    rewrite(folder, intermediate_size=64)
    with pytest.raises(HostError, match=r"odd: model\.safetensors: .*; fetch or save the weights anew") as error:
        open_loaded(str(folder))
    assert "\n" not in str(error.value)


def test_tensors_that_the_model_does_not_ask_for_are_named(tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path / "model")
    file = folder / "model.safetensors"
    save_file(load_file(file) | {"model.layers.0.self_attn.q_proj.bias": torch.ones(8)}, file)
    with pytest.raises(HostError, match=r"not asked for .*such as model.layers.0.self_attn.q_proj.bias") as error:
        FolderWeights(folder)
    assert "\n" not in str(error.value)


def test_constants_of_older_files_are_no_weights(tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path / "model")
    file = folder / "model.safetensors"
    more = {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4), "mask": torch.ones(3, dtype=torch.uint8)}
    names = FolderWeights(folder).names
    save_file(load_file(file) | more, file)
    assert FolderWeights(folder).names == names


def test_names_of_layers() -> None:
    assert layer_of("model.layers.3.mlp.up_proj.weight") == ("model.layers", 3, "mlp.up_proj.weight")
    assert layer_of("model.layers.12.mlp.experts.5.w.weight") == ("model.layers", 12, "mlp.experts.5.w.weight")
    assert layer_of("transformer.h.0.attn.bias") == ("transformer.h", 0, "attn.bias")
    assert layer_of("model.embed_tokens.weight") is None
    assert layers_in(("model.norm.weight", "model.layers.7.a.b", "model.layers.0.a.b")) == 8


def test_places() -> None:
    assert place_of("model.embed_tokens.weight", 4) == place_of("model.layers.0.a.weight", 4) == 0
    assert place_of("model.layers.3.a.weight", 4) == 0.75
    for name in ("model.norm.weight", "lm_head.weight", "embed_out.weight"):
        assert 0.999 < place_of(name, 4) < 1


def test_drift_is_relative() -> None:
    models = family()
    assert drift(models["base"], models["base"]) == 0
    assert 0.02 < drift(models["base"], models["a"]) < 0.2
    double = Loaded(models["base"].config, {name: 2 * models["base"].get(name) for name in models["base"].names})
    assert drift(models["base"], double) == pytest.approx(1)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path / "model")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(HostError, match="never unpickled"):
        open_model(str(folder))


@pytest.mark.parametrize("kept", [0, 5, 100, -10])
def test_a_truncated_file_is_named(tmp_path: Path, kept: int) -> None:
    folder = saved(tiny(), tmp_path / "model")
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(HostError, match="model.safetensors: .*save the weights anew") as error:
        open_model(str(folder))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, the weights have 3 layers"),
        ({"num_hidden_layers": 2}, "the weights have 3 layers"),
        ({"num_hidden_layers": "3"}, "num_hidden_layers is '3'"),
        ({"quantization_config": {"bits": 4, "quant_method": "gptq"}}, "quantised"),
        ({"model_type": "t5"}, "num_layers|causal|T5"),
        ({"model_type": "nope"}, "config.json"),
    ],
)
def test_a_faulty_configuration_is_refused(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    folder = saved(tiny(), tmp_path / "model")
    rewrite(folder, **changes)
    with pytest.raises(HostError, match=reason):
        open_model(str(folder))


def test_a_configuration_that_is_no_object(tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path / "model")
    for text in ("[1]", "{", '{"a": NaN}'):
        (folder / "config.json").write_text(text)
        with pytest.raises(HostError, match="config.json"):
            open_model(str(folder))


def test_memory_is_shared_with_a_model_on_the_cpu() -> None:
    model = moved(tiny(), 1)
    name, own = next(iter(model.named_parameters()))
    assert Loaded.of(model).get(name).data_ptr() == own.data_ptr()
