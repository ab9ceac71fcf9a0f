"""What is and what is not part of a stage's identity."""

import ast
import importlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine import identity, plugins
from evolora_core.errors import HostError, StageError
from evolora_core.language.families.names import MODULES
from evolora_core.language.families.registry import modules_of

ROOT = Path(__file__).parents[2]
Write = Callable[..., None]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Packages on Python's path, as those of a user's searches are; returns a function that writes their modules."""
    monkeypatch.syspath_prepend(tmp_path)

    def write(name: str, text: str, package: str = "walked") -> None:
        path = tmp_path / package / name
        path.parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / package / "__init__.py").touch()
        path.write_text(text)
        importlib.invalidate_caches()
        for cached in (identity._code_hash, identity._data, identity._imports, identity._text, plugins.source):
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


def test_the_closure_follows_every_form_of_import(project: Write) -> None:
    project("sub/__init__.py", "from .inner import f")
    project("sub/inner.py", "import walked.deep")
    project("deep.py", "import numpy")
    project("late.py", "")
    project("unused.py", "")
    project("stage.py", "from walked import sub\n\ndef run():\n    from walked.late import g\n")
    closure = identity.import_closure("walked.stage")
    assert closure == {"walked", "walked.stage", "walked.sub", "walked.sub.inner", "walked.deep", "walked.late"}
    assert "numpy" in identity.library_versions(closure)


def test_code_far_below_counts_and_its_comments_do_not(project: Write) -> None:
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


def test_what_only_type_checkers_read_does_not_count(project: Write) -> None:
    project("stage.py", "def f(x):\n    return x\n")
    project("typed.py", "import numpy")
    project("other.py", "")
    first = of()
    for guard in ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:", "import typing\nif typing.TYPE_CHECKING:"):
        project("stage.py", f"{guard}\n    from walked.typed import T\nelse:\n    import walked.other\n")
        closure = identity.import_closure("walked.stage")
        assert closure == {"walked", "walked.stage", "walked.other"}
        assert "numpy" not in identity.library_versions(closure)
        alone = of()
        project("stage.py", f"{guard}\n    from walked import typed\nelse:\n    import walked.other\n")
        assert of() == alone != first


def test_the_words_of_a_setting_do_not_count_and_its_default_does(project: Write) -> None:
    def with_field(arguments: str) -> str:
        project("stage.py", f"import pydantic\nfrom pydantic import Field\na: int = {arguments}\n")
        return of()

    first = with_field('Field(1, ge=0, description="how many")')
    for words in ('"how " "many of them"', "'how many'", 'f"at most {1 + 1}"'):
        assert with_field(f"Field(1, ge=0, description={words})") == first
    assert with_field("Field(1, ge=0)") == first
    others = ["Field(2, ge=0)", "Field(1, ge=1)", "Field(1, ge=0, title='n')", "Field(1, ge=0, description=words())"]
    others += ["prompt(description='Sort.')", "prompt(description='Count.')"]  # it may compute with the words
    assert len({first, *map(with_field, others)}) == 1 + len(others)


def test_a_module_that_is_loaded_by_a_computed_name_counts(project: Write) -> None:
    project("stage.py", "")
    project("rule.py", "from walked import deep")
    project("deep.py", "x = 1")
    assert identity.import_closure("walked.stage", "walked.rule") >= {"walked.rule", "walked.deep"}
    first, named = of(), of(also=["walked.rule"])
    assert named == of(also=["walked.rule", "walked.rule"])
    project("deep.py", "x = 2")
    assert of() == first and of(also=["walked.rule"]) != named


def test_another_s_code_counts_where_a_stage_names_it(project: Write) -> None:
    """The package of a search that somebody installed, and what it imports of ours; not what it imports of others."""
    project("stage.py", "import evolora_core.engine.rng\nimport stranger.deep")
    project("__init__.py", "import stranger", package="stranger")
    project("deep.py", "x = 1", package="stranger")
    closure = identity.import_closure("walked.stage")
    assert closure == {"walked", "walked.stage", "evolora_core", "evolora_core.engine", "evolora_core.engine.rng"}
    assert "walked" not in identity.library_versions(closure)
    both = identity.import_closure("evolora_core.engine.rng", "walked.stage", "stranger")
    assert both == closure | {"stranger", "stranger.deep"}
    first = of(entry="evolora_core.engine.rng", also=["walked.stage"])
    project("stage.py", "x = 1")
    assert of(entry="evolora_core.engine.rng", also=["walked.stage"]) != first


def test_looking_at_a_module_twice_finds_the_same(project: Write) -> None:
    project("stage.py", '"""About."""\n"""More."""\nimport walked.deep\n\ndef f():\n    """Say."""\n')
    project("deep.py", "")
    first, imports = of(), identity._imports("walked.stage")
    tree = ast.dump(identity._running(identity._text("walked.stage")))
    identity._code_hash.cache_clear()
    identity._imports.cache_clear()
    assert of() == first and identity._imports("walked.stage") == imports
    assert ast.dump(identity._running(identity._text("walked.stage"))) == tree


def test_what_decides_when_a_stage_runs_is_left_out_and_what_it_computes_is_not() -> None:
    for name in (*identity.ORCHESTRATION, *identity.COUNTED_OTHERWISE):
        assert plugins.source(name), f"{name}: there is no such module"
    closure = identity.import_closure("evolora_core.searches.adapters.stages.price")
    assert closure >= {
        "evolora_core.engine.tables",
        "evolora_core.language.hosts.host",
    }  # it writes the results; it loads the host
    assert not closure & {*identity.ORCHESTRATION, *identity.COUNTED_OTHERWISE}


def test_a_host_is_loaded_without_what_pretrains_or_fetches_one() -> None:
    closure = identity.import_closure("evolora_core.language.hosts.host")
    assert not [name for name in closure if ".hosts.pretrain" in name or name == "evolora_core.language.hosts.fetch"]


def test_the_splits_reach_the_families_that_are_named_and_no_other() -> None:
    families = set(MODULES.values())
    assert not families & identity.import_closure("evolora_core.language.datasets")
    named = identity.import_closure("evolora_core.language.datasets", *modules_of(["math", "regex"]))
    assert named & families == {"evolora_core.language.families.math", "evolora_core.language.families.regex_synthesis"}
    assert not {name for name in named if name.startswith(("evolora_core.config", "evolora_core.language.holdouts"))}


def test_nothing_imports_a_family_but_one_that_builds_on_it() -> None:
    families = set(MODULES.values())
    files = [path for folder in ("evolora_core", "tasks", "flows") for path in (ROOT / folder).rglob("*.py")]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in files]
    assert not {name for name in names if name not in families and identity._imports(name) & families}


def test_every_family_can_be_loaded_alone() -> None:
    """Each in turn, with the modules of all families forgotten: no other is loaded than those it builds on."""
    code = """
import sys
from evolora_core.language import families
from evolora_core.language.families.names import MODULES
from evolora_core.language.families.registry import get
from evolora_core.engine.identity import import_closure

for name, module in MODULES.items():
    for other in MODULES.values():
        sys.modules.pop(other, None)
        vars(families).pop(other.rpartition(".")[2], None)
    assert get(name).name == name and get(name) is get(name)
    loaded = {other for other in MODULES.values() if other in sys.modules}
    assert loaded == set(MODULES.values()) & import_closure(module), (name, loaded)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_what_a_package_brings_with_it_counts(project: Write) -> None:
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


def test_everything_that_is_given_counts(project: Write) -> None:
    project("stage.py", "x = 1")
    project("other.py", "x = 1")
    variants = [
        of(),
        of(config={"a": 2}),
        of(inputs={"data": "y"}),
        of(seed=1),
        of(also=["walked.other"]),
        of(host={"files": "1", "threads": 1}),
        of(host={"files": "1", "threads": 2}),
    ]
    assert len(set(variants)) == len(variants)
    assert of() == variants[0]


@pytest.mark.parametrize("changed", ["inner.py", "style.mplstyle"])
def test_code_that_changes_while_it_runs_is_refused(
    project: Write, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    project("inner.py", "x = 1")
    project("stage.py", "from walked.inner import x")
    project("style.mplstyle", "font.size: 9")
    document = {"entry": "walked.stage", "also": []}
    monkeypatch.delenv(identity.STARTED, raising=False)
    with identity.code_as_it_is():
        since = os.environ[identity.STARTED]
        with identity.code_as_it_is():
            assert os.environ[identity.STARTED] == since  # the outermost counts
        identity.refuse_changed_code(document)
        file, later = (
            Path(str(plugins.source("walked.inner"))).with_name(changed),
            float(os.environ[identity.STARTED]) + 0.001,
        )
        os.utime(file, (later, later))
        time.sleep(0.01)  # until then
        with pytest.raises(StageError, match=rf"{file}: was changed while the suite runs; run it again"):
            identity.refuse_changed_code(document)
        os.utime(file, (later + 9e4, later + 9e4))  # a clock that is wrong
        identity.refuse_changed_code(document)
        os.utime(file, (later, later))
    identity.refuse_changed_code(document)  # nobody says since when


def test_a_host_is_the_files_that_are_read(tmp_path: Path) -> None:
    read = {"config.json": "{}", "model.safetensors": "w", "merges.txt": "a b"}
    for name, text in (read | {"README.md": "card"}).items():
        (tmp_path / name).write_text(text)
    first = identity.host_files_hash(tmp_path)
    (tmp_path / "README.md").write_text("longer card")
    (tmp_path / ".cache" / "download").mkdir(parents=True)
    (tmp_path / ".cache" / "download" / "config.json").write_text("today")
    (tmp_path / "train.log").write_text("step 1")
    (tmp_path / "checkpoint-1").mkdir()
    (tmp_path / "checkpoint-1" / "model.safetensors").write_text("u")
    assert identity.host_files_hash(tmp_path) == first
    found = {first}
    for name in read:
        (tmp_path / name).write_text("v")
        found.add(identity.host_files_hash(tmp_path))
    (tmp_path / "additional_chat_templates").mkdir()
    (tmp_path / "additional_chat_templates" / "tool.jinja").write_text("v")
    assert len(found | {identity.host_files_hash(tmp_path)}) == 2 + len(read)


def test_files_of_a_host_that_are_as_they_were_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_text("old")
        os.utime(tmp_path / name, (10**9, 10**9))
    read: list[Path] = []

    def noted(path: Path) -> str:
        read.append(path)
        return path.read_text()

    monkeypatch.setattr(identity, "sha256", noted)
    first = identity.host_files_hash(tmp_path)
    assert identity.host_files_hash(tmp_path) == first and len(read) == 2
    changed = tmp_path / "model.safetensors"
    changed.write_text("new")  # of the same size
    assert identity.host_files_hash(tmp_path) != first and read[2:] == [changed]
    time.sleep(0.02)
    os.utime(changed, (10**9, 10**9))  # and the same time
    assert identity.host_files_hash(tmp_path) != first and read[3:] == [changed]


def test_a_host_without_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="no files"):
        identity.host_files_hash(tmp_path / "absent")


def test_an_entry_without_code_is_refused() -> None:
    with pytest.raises(ValueError, match="tasks.nope: no module of this project"):
        identity.import_closure("tasks.nope")
