"""Models of a user's own are compared with the base before anything is computed."""

from pathlib import Path

import pytest
from tiny_merges import family_folders, moved, saved, tiny

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.stage import HostUse, Work
from evolora_core.errors import ConfigError
from evolora_core.searches.merging.making import make_described
from evolora_core.searches.merging.recipe_file import parse_recipe
from evolora_core.searches.merging.stages.parent import Parent, make


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
    own = Parent(name="mine", domain=None, training=None, model=model, files="0")
    return make(Work(own, {}, use, 0, {"base": folder / "base"}, {}, folder, (), lambda *_: None)).facts.drift


def test_a_parent_of_another_tokenizer_is_refused(words: dict[str, str], other: str, tmp_path: Path) -> None:
    assert 0 < parent(words["base"], words["a"], tmp_path / "a") < 0.5
    with pytest.raises(ConfigError, match=r"models\.mine: .* has another tokenizer than .*: 2 of 48 and 46 tokens"):
        parent(words["base"], other, tmp_path / "mine")


def test_a_recipe_of_several_tokenizers_names_the_one_to_take(
    words: dict[str, str], other: str, tmp_path: Path
) -> None:
    recipe = {"models": words | {"other": other}, "recipe": {"op": "linear", "inputs": ["a", "other"]}}
    with pytest.raises(ConfigError, match=r"models\.other: .* has another tokenizer than 'a': 2 of 48 and 46 tokens"):
        make_described(parse_recipe(recipe), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    make_described(parse_recipe(recipe | {"tokenizer": "a"}), tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (Path(words["a"]) / "tokenizer.json").read_bytes()
