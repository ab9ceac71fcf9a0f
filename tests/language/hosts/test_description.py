"""Host files are strict, and the shipped ones are sound."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.strict import load_yaml
from evolora_core.errors import ConfigError, HostError
from evolora_core.language.hosts.catalog import address_of, find_host, list_hosts
from evolora_core.language.hosts.description import load_description, load_descriptions
from evolora_core.language.hosts.pretrain_config import TrainedHost, pretrain_config
from evolora_core.pretraining.data import read_mixture
from evolora_core.pretraining.training import build_model

HUB = "name: {name}\nsummary: s\nlicence: MIT\nparameters: 5\nsource: hub\nrepository: a/b\n"


def _fault(tmp_path: Path, text: str, name: str = "mine", read: Callable[[Path], Any] = load_description) -> str:
    path = tmp_path / f"{name}.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
    return str(caught.value)


def test_unknown_keys_name_their_line_and_the_nearest_key(tmp_path: Path) -> None:
    assert ":2: unknown key 'sumary'; did you mean 'summary'?" in _fault(tmp_path, "name: mine\nsumary: s\n" + HUB[13:])
    nested = HUB.format(name="mine") + "template:\n  promt: x\n"
    assert ":8: unknown key 'template.promt'; did you mean 'prompt'?" in _fault(tmp_path, nested)


def test_incomplete_sources_say_what_they_need(tmp_path: Path) -> None:
    text = HUB.format(name="mine")
    assert "repository: owner/name" in _fault(tmp_path, text.replace("a/b", "b"))
    assert "needs pretrain" in _fault(tmp_path, text.replace("source: hub", "source: trained"))
    assert "packages, member and sha256" in _fault(tmp_path, text.replace("source: hub", "source: package"))


def test_a_file_is_named_after_its_host(tmp_path: Path) -> None:
    assert "must equal the file's name, 'mine'" in _fault(tmp_path, HUB.format(name="yours"))


def test_template_needs_its_places(tmp_path: Path) -> None:
    assert "{prompt}" in _fault(tmp_path, HUB.format(name="mine") + "template: {prompt: hello}\n")


def test_mixture_needs_weight(tmp_path: Path) -> None:
    path = Path(__file__).parents[3] / "configs" / "hosts" / "nano.yaml"
    text = path.read_text(encoding="utf-8")
    head, tail = text[: text.index("  mixture:")], text[text.index("  measurement:") :]
    text = head + "  mixture: {math: {short: 0}}\n" + tail
    assert "mixture weights" in _fault(tmp_path, text, "nano", lambda path: load_yaml(path, TrainedHost))


@pytest.mark.parametrize("name", ["nano-small", "nano-large"])
def test_the_hosts_of_the_ladder_have_the_recipe_of_nano(name: str) -> None:
    own, nano = pretrain_config(name), pretrain_config("nano")
    assert own.model_dump(exclude={"architecture"}) == nano.model_dump(exclude={"architecture"})
    described = load_descriptions()[name].parameters
    assert described == sum(parameter.numel() for parameter in build_model(own.architecture, 0).parameters())


def test_shipped_descriptions_are_sound() -> None:
    known = load_descriptions()
    assert {"nano", "smollm2-135m", "smollm2-135m-q4", "qwen3-0.6b"} <= set(known)
    assert read_mixture(pretrain_config("nano")).cells
    assert [listing.name for listing in list_hosts()] == list(known)
    assert {listing.name: listing.ready for listing in list_hosts()}["nano"]


def test_words_that_stand_for_hosts(tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    assert find_host("nano").ready
    assert find_host(str(tiny_folder)).name == "tiny"
    place = find_host("Some/Model")
    assert not place.ready and place.path == tmp_path / "hosts" / "Some--Model"
    for word in ("nowhere", "./no/folder", "no/file.gguf", "/absent"):
        with pytest.raises(HostError, match="no such name, folder or GGUF file"):
            find_host(word)


def test_others_load_a_host_from_the_hub_or_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smollm2-135m").mkdir()  # of the name of a described host
    monkeypatch.chdir(tmp_path)
    assert address_of("smollm2-135m") == "HuggingFaceTB/SmolLM2-135M-Instruct" and address_of("a/b") == "a/b"
    assert address_of("./smollm2-135m") == str(tmp_path.resolve() / "smollm2-135m")
    assert address_of("nano") == str(find_host("nano").path)
