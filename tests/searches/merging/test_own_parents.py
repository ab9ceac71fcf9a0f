"""Models of a user's own are compared with the base before anything is computed."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_merges import build, character_host, family_folders, genome, moved, saved, tiny
from transformers import AutoTokenizer

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import HostUse, Suite, Work
from evolora_core.errors import ConfigError, HostError
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.make import make_described, make_model
from evolora_core.searches.merging.pool import open_made, source_of
from evolora_core.searches.merging.recipe_file import load_recipe, parse_recipe
from evolora_core.searches.merging.short_family import make_family
from evolora_core.searches.merging.stages.parent import Parent, make
from evolora_core.searches.merging.weights import open_again, open_loaded


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a family."""
    return family_folders(tmp_path_factory.mktemp("family"))


@pytest.fixture
def other(tmp_path: Path) -> str:
    """A model of the same shape that reads text as other tokens."""
    return str(saved(moved(tiny(), 5), tmp_path / "other", words=46))


def parent(base: str, model: str, folder: Path) -> float:
    """The stage of a model that is there; its drift."""
    folder.mkdir()
    use = HostUse(base, "cpu", "float32", 1, host_files_hash(Path(base)), {})
    own = Parent(name="mine", domain=None, training=None, model=model, files=host_files_hash(Path(model)))
    return make(Work(config=own, host=use, seed=0, folder=folder, inputs={"base": folder / "base"})).facts.drift


def test_a_parent_of_another_tokenizer_is_refused(words: dict[str, str], other: str, tmp_path: Path) -> None:
    assert 0 < parent(words["base"], words["a"], tmp_path / "a") < 0.5
    with pytest.raises(ConfigError, match=r"models\.mine: .* has another tokenizer than .*: 2 of 48 and 46 tokens"):
        parent(words["base"], other, tmp_path / "mine")


EXPERTS: dict[str, Any] = {"num_local_experts": 2, "num_experts_per_tok": 1}


@pytest.mark.parametrize(
    ("architecture", "changes"),
    [("gpt_neox", {"tie_word_embeddings": False}), ("mixtral", EXPERTS), ("granitemoe", EXPERTS)],
)
def test_what_a_run_tested_is_what_is_made_again(tmp_path: Path, architecture: str, changes: dict[str, Any]) -> None:
    """Masks and trimming are a tensor's own. Files of GPT-NeoX say `embed_out.weight`, loaded models `lm_head.weight`;
    those of Mixtral have each expert by itself, those of Granite's experts other names in each layer."""
    words = family_folders(tmp_path / "family", architecture, **changes)
    own = genome({"op": "dare_linear", "inputs": ["a", "b"], "params": {"density": 0.5}}, seed=7)
    tested = build(own, {name: open_loaded(word) for name, word in words.items()}, "base")
    again = {name: open_again(word) for name, word in words.items()}
    made = build(own, again, "base")
    assert tested.keys() == made.keys() and all(torch.equal(made[name], tested[name]) for name in tested)
    make_model(own, again, "base", tmp_path / "out", Path(words["base"]))
    kept = open_loaded(str(tmp_path / "out"))
    assert tested.keys() == set(kept.names) and all(torch.equal(kept.get(name), tested[name]) for name in tested)
    files = [set(load_file(Path(one) / "model.safetensors")) for one in (tmp_path / "out", words["base"])]
    assert (files[0] == files[1]) is (architecture != "mixtral")


def test_a_parent_whose_files_name_its_head_otherwise_is_the_base_s(tmp_path: Path) -> None:
    words = family_folders(tmp_path / "family", "gpt_neox", tie_word_embeddings=False)
    assert parent(words["base"], words["base"], tmp_path / "same") == 0
    assert 0 < parent(words["base"], words["a"], tmp_path / "a") < 0.5


def test_a_model_that_keeps_numbers_beside_its_weights_is_refused(tmp_path: Path) -> None:
    """A merge of its tensors would leave them out: the biases of DeepSeek's router are a buffer, and saved."""
    small = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 8}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
    model = tiny("deepseek_v3", first_k_dense_replace=1, moe_intermediate_size=16, **small, **experts)
    with pytest.raises(
        HostError, match=r"gate\.e_score_correction_bias is kept beside its weights and cannot be merged"
    ):
        open_loaded(str(saved(model, tmp_path / "routed")))


def test_what_is_wrong_with_a_parent_s_files_names_its_key(words: dict[str, str], tmp_path: Path) -> None:
    model = saved(moved(tiny(), 5), tmp_path / "mine")
    whole = load_file(model / "model.safetensors")
    del whole["model.norm.weight"]
    save_file(whole, model / "model.safetensors")
    with pytest.raises(ConfigError, match=r"models\.mine: host .*mine: 1 tensors .* such as model\.norm\.weight"):
        parent(words["base"], str(model), tmp_path / "stage")


def test_a_recipe_of_several_tokenizers_names_the_one_to_take(
    words: dict[str, str], other: str, tmp_path: Path
) -> None:
    recipe = {"models": words | {"other": other}, "recipe": {"op": "linear", "inputs": ["a", "other"]}}
    with pytest.raises(ConfigError, match=r"models\.other: .* has another tokenizer than 'a': 2 of 48 and 46 tokens"):
        make_described(parse_recipe(recipe), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    make_described(parse_recipe(recipe | {"tokenizer": "a"}), tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (Path(words["a"]) / "tokenizer.json").read_bytes()


def test_a_parent_that_changes_later_is_refused(words: dict[str, str], tmp_path: Path) -> None:
    model = saved(moved(tiny(), 5), tmp_path / "mine")
    parent(words["base"], str(model), tmp_path / "stage")
    assert source_of(tmp_path / "stage") == str(model)
    saved(moved(tiny(), 6), model)
    with pytest.raises(HostError, match=r"mine: its files are others than when the run began; .* run the suite again"):
        open_made(tmp_path / "stage")


def test_a_parent_with_another_chat_template_is_told(
    words: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = saved(moved(tiny(), 5), tmp_path / "chat")
    (model / "chat_template.jinja").write_text("{{ messages }}")
    with caplog.at_level(logging.WARNING, "evolora_core.stages"):
        parent(words["base"], str(model), tmp_path / "mine")
    (told,) = caplog.messages
    assert told.startswith(f"models.mine: {model} has another chat template than {words['base']}; ")


def test_further_chat_templates_are_compared_and_taken_along(
    words: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For tools, say, as transformers saves several templates."""
    model = saved(moved(tiny(), 5), tmp_path / "tools")
    tokenizer: Any = AutoTokenizer.from_pretrained(model)
    templates = {"default": "{{ messages }}", "tools": "{{ tools }}"}
    tokenizer.chat_template = templates
    tokenizer.save_pretrained(model)
    plain = saved(moved(tiny(), 6), tmp_path / "plain")
    (plain / "chat_template.jinja").write_text(templates["default"])
    recipe = {"models": {"a": str(model), "b": str(plain)}, "recipe": {"op": "linear", "inputs": ["a", "b"]}}
    with caplog.at_level(logging.WARNING):
        make_described(parse_recipe(recipe), tmp_path / "out")
    assert len(caplog.messages) == 1 and "models.b" in caplog.text and "another chat template" in caplog.text
    made: Any = AutoTokenizer.from_pretrained(tmp_path / "out")
    assert made.chat_template == templates


def test_an_estimate_of_models_that_do_not_fit_says_why(tmp_path: Path) -> None:
    character_host(tmp_path / "base", "qwen3")
    character_host(tmp_path / "wide", "qwen3", intermediate_size=64)
    base, wide = str(tmp_path / "base"), str(tmp_path / "wide")
    config = MergeExperiment.model_validate(
        {"name": "own", "host": base, "models": {"one": base, "two": wide}, "conditions": ["base", "uniform"]}
        | {"domains": {"math": {"families": ["math"]}}, "evaluation": {"comparisons": [{"a": "uniform", "b": "base"}]}}
    )
    suite = Suite(config, SuiteId("own", "0" * 8), HostUse(base, "cpu", "float32", 1, host_files_hash(Path(base)), {}))
    with pytest.raises(
        ConfigError,
        match=r"models\.two: .*wide cannot be merged: config\.json: intermediate_size is 64, .*; take it out, or",
    ):
        make_family(suite, 0, None, {}, tmp_path / "family")


def test_what_ends_an_answer_is_of_the_model_whose_tokenizer_is_taken(
    words: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And recipe.json says which, wherever one stands."""
    chat = saved(moved(tiny(eos_token_id=7), 5), tmp_path / "chat")
    monkeypatch.chdir(tmp_path)
    recipe = {"models": {"a": words["a"], "chat": "chat"}, "recipe": {"op": "linear", "inputs": ["a", "chat"]}}
    with caplog.at_level(logging.WARNING):
        make_described(parse_recipe(recipe), Path("plain"))
    (told,) = caplog.messages
    assert told.startswith("warning: models.chat: chat has other EOS tokens than 'a', ") and "`tokenizer`" in told
    caplog.clear()
    make_described(parse_recipe(recipe | {"tokenizer": "chat"}), Path("named"))
    assert not caplog.messages
    for folder, of in (("plain", words["a"]), ("named", str(chat))):
        for name in ("config.json", "generation_config.json"):
            ids = [json.loads((Path(own) / name).read_text()).get("eos_token_id") for own in (folder, of)]
            assert ids[0] == ids[1], name
    kept = load_recipe(Path("named/recipe.json"))
    assert kept.tokenizer == "chat" and kept.models == {"a": words["a"], "chat": str(chat)}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    make_described(kept, Path("again"))
    made = (tmp_path / "named", tmp_path / "elsewhere" / "again")
    assert all((made[1] / path.name).read_bytes() == path.read_bytes() for path in made[0].iterdir())
