"""What is and what is not part of a stage's identity."""

from pathlib import Path
from typing import Any

import pytest

from evolora_core import identity
from evolora_core.errors import HostError


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A package named like nothing else, walked as if it were the project; returns a function that writes its
    modules."""
    root = tmp_path / "walked"
    root.mkdir()
    (root / "__init__.py").write_text("")
    monkeypatch.setattr(identity, "ROOT", tmp_path)
    monkeypatch.setattr(identity, "PROJECT", ("walked",))

    def write(name: str, text: str) -> None:
        path = root / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        for cached in (identity._code_hash, identity._imports, identity._tree, identity._source):
            cached.cache_clear()

    return write


def of(**changes: Any) -> str:
    arguments: dict[str, Any] = {
        "entry": "walked.stage",
        "config": {"a": 1},
        "inputs": {"data": "x"},
        "seed": 0,
    } | changes
    return identity.digest(identity.stage_identity(**arguments))


def test_the_closure_follows_every_form_of_import(project: Any) -> None:
    project("sub/__init__.py", "from .inner import f")
    project("sub/inner.py", "import walked.deep")
    project("deep.py", "import numpy")
    project("late.py", "")
    project("unused.py", "")
    project("stage.py", "from walked import sub\n\ndef run():\n    from walked.late import g\n")
    closure = identity.import_closure("walked.stage")
    assert closure == {"walked", "walked.stage", "walked.sub", "walked.sub.inner", "walked.deep", "walked.late"}
    assert "numpy" in identity.library_versions(closure)


def test_code_far_below_counts_and_its_comments_do_not(project: Any) -> None:
    project("stage.py", "import walked.deep\n")
    project("deep.py", '"""About."""\ndef f():\n    """Say."""\n    return 1\n')
    first = of()
    project("deep.py", '"""Other words."""\n\n\ndef f():\n    # why\n    return 1\n')
    assert of() == first
    project("deep.py", "def f():\n    return 2\n")
    assert of() != first
    project("unused.py", "x = 1")
    project("deep.py", "def f():\n    return 1\n")
    assert of() == first


def test_what_a_package_brings_with_it_counts(project: Any) -> None:
    project("stage.py", "from walked import store\n")
    project("store/__init__.py", "")
    project("store/views.sql", "SELECT 1")
    project("store/templates/page.j2", "words")
    project("other/__init__.py", "")
    project("other/views.sql", "SELECT 1")
    first = of()
    project("other/views.sql", "SELECT 2")
    project("store/notes.md", "about")
    assert of() == first
    project("store/templates/page.j2", "other words")
    second = of()
    assert second != first
    project("store/views.sql", "SELECT 2")
    assert of() not in (first, second)


def test_everything_that_is_given_counts(project: Any) -> None:
    project("stage.py", "x = 1")
    variants = [
        of(),
        of(config={"a": 2}),
        of(inputs={"data": "y"}),
        of(seed=1),
        of(host={"files": "1", "threads": 1}),
        of(host={"files": "1", "threads": 2}),
    ]
    assert len(set(variants)) == len(variants)
    assert of() == variants[0]


def test_a_host_is_its_files_without_the_card(tmp_path: Path) -> None:
    for name, text in {"config.json": "{}", "model.safetensors": "w", "README.md": "card"}.items():
        (tmp_path / name).write_text(text)
    first = identity.host_files_hash(tmp_path)
    identity.host_files_hash.cache_clear()
    (tmp_path / "README.md").write_text("longer card")
    (tmp_path / ".cache" / "download").mkdir(parents=True)
    (tmp_path / ".cache" / "download" / "config.json.metadata").write_text("today")
    assert identity.host_files_hash(tmp_path) == first
    identity.host_files_hash.cache_clear()
    (tmp_path / "model.safetensors").write_text("v")
    assert identity.host_files_hash(tmp_path) != first


def test_a_host_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no files"):
        identity.host_files_hash(tmp_path / "absent")


def test_an_entry_without_code_is_refused() -> None:
    with pytest.raises(ValueError, match="tasks.nope: no module of this project"):
        identity.import_closure("tasks.nope")
