"""`evolora_core.merging`: the merge search as functions. What needs a finished run: tests/flows/test_merge_suite.py."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_suite import write_suite
from tiny_merges import family_folders, saved, tiny
from transformers import AutoModelForCausalLM, AutoTokenizer

from evolora_core.errors import ConfigError, EvoloraError
from evolora_core.merging import check, load, make, tables
from evolora_core.searches.merging.vocabularies import find_vocabulary
from evolora_core.store import rebuild

RECIPE = {"op": "ties", "inputs": ["a", "b"], "params": {"density": 0.5}}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a family."""
    return family_folders(tmp_path_factory.mktemp("family"), "llama")


@pytest.fixture
def other_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with a suite that merges nothing."""
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    write_suite(tmp_path, seeds=(0,), items=4)
    rebuild(tmp_path)


def test_models_are_checked_by_path_or_word(words: dict[str, str], tmp_path: Path) -> None:
    report = check([Path(words["a"]), words["b"]], base=Path(words["base"]))
    assert report.mergeable and [row["model"] for row in report.rows] == [words["a"], words["b"], words["base"]]
    assert 0 < report.rows[0]["drift"] < 0.5
    narrow = saved(tiny("llama", hidden_size=16), tmp_path / "narrow")
    unlike = check([words["a"], narrow])
    assert not unlike.mergeable and "hidden_size is 16" in unlike.reasons[0]
    with pytest.raises(ConfigError, match=r"models: give a list; a single one as \['my-code'\]"):
        check("my-code", base="my-base")


def test_a_recipe_makes_the_same_model_from_a_file_and_from_a_dictionary(words: dict[str, str], tmp_path: Path) -> None:
    document = {"models": words, "base": "base", "recipe": RECIPE, "dtype": "bfloat16"}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(document))
    assert make(tmp_path / "recipe.yaml", tmp_path / "one") == tmp_path / "one"
    paths = {name: Path(word) for name, word in words.items()}
    assert make(document | {"models": paths}, str(tmp_path / "two")) == tmp_path / "two"
    assert len({(tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")}) == 1
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "two").num_parameters() > 0
    assert len(AutoTokenizer.from_pretrained(tmp_path / "two")) > 0


def test_weights_without_a_tokenizer_are_merged_unless_theirs_is_taken(words: dict[str, str], tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    AutoModelForCausalLM.from_pretrained(words["a"]).save_pretrained(bare)
    assert find_vocabulary(bare) is None
    document = {"models": words | {"a": str(bare)}, "base": "base", "recipe": RECIPE}
    with pytest.raises(EvoloraError, match=r"models\.a: \S+ has no tokenizer\.json for the merged model"):
        make(document | {"tokenizer": "a"}, tmp_path / "out")
    assert len(AutoTokenizer.from_pretrained(make(document, tmp_path / "out"))) > 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"bse": "base"}, "unknown key 'bse'; did you mean 'base'?"),
        ({"recipe": {"op": "tis", "inputs": ["a"]}}, "did you mean 'ties'"),
        ({"recipe": {"op": "ties", "inputs": ["a", "z"]}}, "model 'z' is unknown"),
        ({"models": {}}, "key 'models'"),
        ({"models": {"a": 1, "b": "nano", "base": "nano"}}, "models.a"),
    ],
)
def test_a_fault_in_a_dictionary_is_named(
    words: dict[str, str], tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        make({"models": words, "base": "base", "recipe": RECIPE} | changes, tmp_path / "out")
    assert reason in str(refused.value) and str(refused.value).startswith("recipe:")
    assert not list(tmp_path.iterdir())


def test_runs_and_suites_of_another_search_are_refused(other_search: None) -> None:
    with pytest.raises(ConfigError, match="a run of the search 'adapters', which leaves no whole models"):
        load("example.ecology.s0")
    with pytest.raises(ConfigError, match="a suite of the search 'adapters'"):
        tables("example")
    with pytest.raises(ConfigError, match="no such suite"):
        tables("merge-quickstart")


def test_importing_the_functions_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'transformers', 'prefect', 'duckdb', 'pandas', 'pydantic'}"
    code = f"import sys, evolora_core.merging; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
