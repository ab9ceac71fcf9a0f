"""The house of the design holds: arrows point one way, heavy imports stay where they belong, files stay small."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted(path for folder in ("evolora_core", "tasks", "flows") for path in (ROOT / folder).rglob("*.py"))


BELOW = {  # a folder of the core: those that it may import, beside `errors`
    "foreign": (),
    "engine": ("foreign",),
    "sandbox": (),
    "language": ("foreign", "engine", "sandbox"),
    "lora": ("foreign", "engine", "language"),
    "statistics": ("foreign", "engine"),
    "store": ("foreign", "engine"),
    "report": ("foreign", "engine", "language", "statistics", "store"),
    "tracking": ("foreign", "engine", "store"),
    "pretraining": ("foreign", "engine", "language", "lora"),
    "searches": ("foreign", "engine", "sandbox", "language", "lora", "statistics", "store", "report", "pretraining"),
}


@cache
def imports(path: Path) -> set[str]:
    """Every module that a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def importers(*packages: str) -> set[str]:
    """Files that import one of `packages` or anything below."""
    return {
        str(path.relative_to(ROOT))
        for path in SOURCES
        if any(name == package or name.startswith(package + ".") for name in imports(path) for package in packages)
    }


def test_the_core_looks_up_to_nobody() -> None:
    assert not {name for name in importers("flows", "tasks", "prefect") if name.startswith("evolora_core/")}


@pytest.mark.parametrize("folder", BELOW)
def test_arrows_point_down(folder: str) -> None:
    """What a folder of the core imports, for type checkers too, is its own or lies below it."""
    files = [path for path in SOURCES if path.is_relative_to(ROOT / "evolora_core" / folder)]
    known = {"evolora_core", *(f"evolora_core.{name}" for name in (folder, "errors", *BELOW[folder]))}
    found = {name for path in files for name in imports(path) if name.split(".")[0] == "evolora_core"}
    assert files and not {name for name in found if ".".join(name.split(".")[:2]) not in known}


def is_package(name: str) -> bool:
    """Whether a module is a folder; naming one of its modules names it too."""
    return (ROOT / name.replace(".", "/")).is_dir()


def test_no_files_import_each_other_in_a_circle() -> None:
    names = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in SOURCES}
    known = set(names.values())
    graph = {
        name: {found for found in imports(path) & known if found != name and not is_package(found)}
        for path, name in names.items()
    }
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_tasks_do_not_know_flows() -> None:
    assert not {name for name in importers("flows") if name.startswith("tasks/")}


def test_only_packs_maps_and_pages_of_searches_are_above_the_report() -> None:
    core = {name for name in importers("evolora_core.report") if name.startswith("evolora_core/")}
    allowed = re.compile(
        r"evolora_core/(report|searches/\w+/(pack|map|scope))/|evolora_core/searches/(packing|registry)\.py"
    )
    assert not {name for name in core if not allowed.match(name)}


def test_statistics_store_and_report_know_no_search() -> None:
    house = ("evolora_core/store/", "evolora_core/report/", "evolora_core/statistics/comparisons.py")
    assert not {name for name in importers("evolora_core.searches") if name.startswith(house)}
    words = re.compile(r"organelle|ecology|adapter|\bfrozen\b(?!=)|router|bare host|\bsft\b", re.IGNORECASE)
    files = [file for name in house[:2] for file in (ROOT / name).rglob("*.*") if file.suffix in (".py", ".sql", ".j2")]
    assert len(files) > 30
    assert not [file for file in files if words.search(file.read_text(encoding="utf-8"))]


def test_only_stages_and_benchmarks_are_above_the_ecology() -> None:
    others = {
        name
        for name in importers("evolora_core.searches.adapters.ecology")
        if not name.startswith("evolora_core/searches/adapters/ecology/")
    }
    assert not {
        name for name in others if not name.startswith(("evolora_core/searches/adapters/arms/", "flows/bench/"))
    } - {"evolora_core/searches/adapters/settings/ecology.py"}  # checks a rule's name


def test_a_learning_rule_is_imported_by_its_name_alone() -> None:
    from evolora_core.searches.adapters.ecology.rules.names import RULES

    assert not importers(*RULES.values())


def written(path: Path) -> set[str]:
    """The attributes of a `state` that a file assigns to, or to a part of which it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For) else targets
        for target in targets:
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute) and ast.unparse(target.value).split(".")[-1] == "state":
                found.add(target.attr)
    return found


def test_the_state_of_an_ecology_is_changed_by_itself_alone() -> None:
    files = [path for path in SOURCES if "ecology" in path.parts and path.name != "state.py"]
    assert len(files) > 20 and not {path.name: written(path) for path in files if written(path)}


def test_only_the_store_opens_duckdb() -> None:
    assert not {name for name in importers("duckdb") if not name.startswith("evolora_core/store/")}


def test_only_two_rivals_use_trl() -> None:
    assert importers("trl") == {
        "evolora_core/searches/adapters/rivals/sft.py",
        "evolora_core/searches/adapters/rivals/grpo.py",
    }


def test_nothing_is_pickled() -> None:
    assert not importers("pickle", "dill", "cloudpickle", "joblib")
    ways = re.compile(r"torch\.(load|save)\(|allow_pickle|(read|to)_pickle|np\.(load|save)\(|weights_only=False")
    assert not [path for path in SOURCES if ways.search(path.read_text(encoding="utf-8"))]


def test_every_folder_of_the_core_has_its_place() -> None:
    assert {path.parent.name for path in (ROOT / "evolora_core").glob("*/*.py")} == set(BELOW)


@pytest.mark.parametrize(
    "package", ["language/families", "foreign", "language/hosts", "searches/adapters", "searches/adapters/routing"]
)
def test_these_packages_hand_nothing_on(package: str) -> None:
    """Whoever imports one module of theirs depends on no other."""
    assert not imports(ROOT / "evolora_core" / package / "__init__.py")


def test_modules_of_names_load_nothing() -> None:
    """They are no part of an identity, so nothing may be computed in them."""
    names = [path for path in SOURCES if path.name == "names.py"]
    assert names and not [path for path in names if "import_module(" in path.read_text(encoding="utf-8")]


def test_a_file_is_one_idea() -> None:
    lines = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert len(lines) > 600 and not {name: many for name, many in lines.items() if many > 400}


@pytest.mark.parametrize(
    "module",
    [
        "evolora_core.searches.adapters.search",
        "evolora_core.language.families.registry",
        "evolora_core.language.datasets",
        "evolora_core.engine.rng",
    ],
)
def test_light_modules_stay_light(module: str) -> None:
    heavy = "{'torch', 'transformers', 'prefect', 'duckdb', 'matplotlib', 'pandas', 'datasets'}"
    code = f"import sys, {module}; sys.exit(str({heavy} & set(sys.modules)) if {heavy} & set(sys.modules) else 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
