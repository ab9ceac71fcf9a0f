"""A home whose store has the example suite, for tests that change it; one that is packed, for tests that read it."""

import shutil
from pathlib import Path

import pytest
from example_suite import write_suite

from evolora_core.report import build
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.store import rebuild

SUITE = "example-0a1b2c3d"


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the suite that `built` is of; it is never changed."""
    home = tmp_path_factory.mktemp("packed")
    write_suite(home, SUITE, items=96)
    rebuild(home)
    return home


@pytest.fixture
def home(packed: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return Path(shutil.copytree(packed, tmp_path, dirs_exist_ok=True))


@pytest.fixture(scope="session")
def built(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(packed, SUITE, tmp_path_factory.mktemp("packs") / "example", SECTIONS)


@pytest.fixture
def pack(built: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(built, tmp_path / "example"))
