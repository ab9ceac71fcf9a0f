"""`evolora merge`: what it prints, how it ends, and what it leaves."""

import json
from pathlib import Path

import pytest
import yaml
from tiny_merges import family_folders, saved, tiny
from transformers import AutoModelForCausalLM

from flows.cli import main


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a family with a head of their own."""
    return family_folders(tmp_path_factory.mktemp("family"), "llama")


def ended(*arguments: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


def recipe_file(folder: Path, words: dict[str, str], **changes: object) -> str:
    """A recipe of the family."""
    recipe = {"op": "ties", "inputs": ["a", "b"], "params": {"density": 0.5}}
    document = {"models": words, "base": "base", "recipe": recipe} | changes
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in document.items() if value is not None}))
    return str(path)


@pytest.mark.parametrize("command", ["check", "make"])
def test_help_has_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert ended("merge", command, "--help") == 0
    assert f"Example: evolora merge {command}" in " ".join(capsys.readouterr().out.split())


def test_check_shows_a_row_for_each_model(capsys: pytest.CaptureFixture[str], words: dict[str, str]) -> None:
    assert ended("merge", "check", words["a"], words["b"], "--base", words["base"]) == 0
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert len(lines) == 5 and lines[0].endswith("cosine to a  cosine to b") and not printed.err
    assert lines[-1] == "these models can be merged"
    assert ended("merge", "check", words["a"], words["b"], "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["model"] for row in rows] == [words["a"], words["b"]] and 0 < rows[0]["distance to b"] < 0.5


def test_check_ends_with_the_reason(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str]) -> None:
    other = str(saved(tiny("llama", hidden_size=16), tmp_path / "other", words=40))
    capsys.readouterr()
    assert ended("merge", "check", words["a"], other) == 1
    printed = capsys.readouterr()
    assert "error: these models cannot be merged (2 reasons; this is the first)" in printed.err
    assert f"{other}: config.json: hidden_size is 16" in printed.err and len(printed.err.splitlines()) == 1
    assert other in printed.out and "can be merged" not in printed.out


def test_check_warns(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str]) -> None:
    other = str(saved(tiny("llama", seed=9), tmp_path / "other"))
    capsys.readouterr()
    assert ended("merge", "check", words["a"], other) == 0
    assert capsys.readouterr().err.startswith(f"warning: {other}: is 1.")


@pytest.mark.parametrize("arguments", [[], ["nano"], ["nano", "no-such-model"]])
def test_check_of_nothing(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert ended("merge", "check", *arguments) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_make_leaves_a_model(capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str]) -> None:
    out, told = tmp_path / "out", tmp_path / "mergekit.yaml"
    recipe = recipe_file(tmp_path, words)
    assert ended("merge", "make", recipe, "--out", str(out), "--mergekit", str(told)) == 0
    printed = capsys.readouterr().out
    assert printed.startswith(f"{out}: ") and "parameters, recipe " in printed
    assert yaml.safe_load(told.read_text())["merge_method"] == "ties"
    model = AutoModelForCausalLM.from_pretrained(out)
    assert f"{model.num_parameters()} parameters" in printed
    assert ended("merge", "make", str(out / "recipe.json"), "--out", str(tmp_path / "again")) == 0
    again = tmp_path / "again" / "model.safetensors"
    assert again.read_bytes() == (out / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"base": None}, "add the key `base`"),
        ({"recipe": {"op": "tis", "inputs": ["a"]}}, "did you mean 'ties'"),
        ({"models": {"a": "no-such-model", "b": "nano", "base": "nano"}}, "models.a: host 'no-such-model': "),
        ({"models": {"a": "nano", "b": "nano"}}, "model 'base' is unknown"),
        ({"recipe": {"op": "layers", "inputs": ["a"], "route": [{"input": 0, "layer": 9}]}}, "has 3 layers"),
    ],
)
def test_faults_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str], changes: dict[str, object], reason: str
) -> None:
    recipe, out = recipe_file(tmp_path, words, **changes), tmp_path / "out"
    assert ended("merge", "make", recipe, "--out", str(out)) == 1
    printed = capsys.readouterr().err
    assert reason in printed and len(printed.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recipe.yaml"]


def test_a_recipe_beyond_mergekit_is_not_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: dict[str, str]
) -> None:
    recipe = recipe_file(tmp_path, words, recipe={"op": "linear", "inputs": [{"op": "linear", "inputs": ["a", "b"]}]})
    told = str(tmp_path / "mergekit.yaml")
    assert ended("merge", "make", recipe, "--out", str(tmp_path / "out"), "--mergekit", told) == 1
    assert "mergekit cannot express this recipe" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recipe.yaml"]
