"""The identity of a stage: everything that decides what it computes, hashed. Equal identity, equal artefact.

In it: the part of the configuration that the stage reads, the identities of its inputs, the seed, the host's files,
dtype, device kind, thread count, the versions of the libraries that its code imports, and that code itself: the
import closure of its entry module within this project, each module without docstrings and comments, each package with
its SQL, templates and styles.

Left out: the operating system, the processor model and the interpreter's patch version (a table that differs in the
last digits of a float after moving to another machine is still the same experiment); other data files read at run
time than the host's; code reached only by a computed import name; the private modules of `tasks`, which decide when a
stage runs and never what it computes.
"""

import ast
import hashlib
import json
import sys
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from evolora_core.errors import HostError

PROJECT = ("evolora_core", "tasks")
ROOT = Path(__file__).parents[1]  # where they are; asking Python would find any folder `tasks` on its path
ORCHESTRATION = "tasks._"
DATA = (".sql", ".j2", ".mplstyle")  # files of a package that decide what its code computes
DIGITS = 16
# Libraries that compute for another one without being imported by our code.
_BEHIND = {"transformers": ("tokenizers",), "trl": ("accelerate",)}


def digest(document: Any) -> str:
    """Hash of a JSON document: the same on every machine."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def stage_identity(
    *,
    entry: str,
    config: Mapping[str, Any],
    inputs: Mapping[str, str],
    seed: int,
    host: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The identity document of a stage; `digest` of it is its identity.

    `entry` is the module with its code; `inputs` maps roles to identities of earlier stages; `host` says the host's
    files hash, dtype, device kind and threads, and is None where no model is used.
    """
    modules = import_closure(entry)
    return {
        "entry": entry,
        "config": dict(config),
        "inputs": dict(inputs),
        "seed": seed,
        "host": dict(host) if host else None,
        "code": digest([(name, _code_hash(name)) for name in sorted(modules)]),
        "libraries": library_versions(modules),
    }


def import_closure(entry: str) -> frozenset[str]:
    """Modules of this project that `entry` can reach by import statements, wherever they stand, itself included."""
    if _source(entry) is None:
        raise ValueError(f"{entry}: no module of this project; its code would not count")
    found: set[str] = set()
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        if name in found or name.startswith(ORCHESTRATION):
            continue
        found.add(name)
        parents = name.split(".")
        waiting += [".".join(parents[:i]) for i in range(1, len(parents))]  # importing a module runs its packages
        waiting += [imported for imported in _imports(name) if imported.split(".")[0] in PROJECT]
    return frozenset(found)


def library_versions(modules: frozenset[str]) -> dict[str, str]:
    """Installed versions of the third-party libraries that the modules import, Prefect left out: it computes
    nothing."""
    names = {imported.split(".")[0] for module in modules for imported in _imports(module)}
    names |= {behind for name in names for behind in _BEHIND.get(name, ())}
    names -= {*PROJECT, *sys.stdlib_module_names, "prefect"}
    distributions = _distributions()
    return {name: metadata.version(distributions[name][0]) for name in sorted(names) if name in distributions}


_distributions = cache(metadata.packages_distributions)  # reads every installed package's list of files


@cache
def host_files_hash(path: Path) -> str:
    """Hash over the files of a host: weights, configuration, tokenizer, template; its card (README.md) is not part of
    it."""
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    hidden = [any(part.startswith(".") for part in file.relative_to(path.parent).parts[1:]) for file in files]
    files = [file for file, left_out in zip(files, hidden, strict=True) if file.name != "README.md" and not left_out]
    if not files:
        raise HostError(f"{path}: the host has no files; fetch it with `evolora host fetch`")
    names = [file.relative_to(path).as_posix() if path.is_dir() else file.name for file in files]
    return digest([(name, _file_hash(file)) for name, file in zip(names, files, strict=True)])


def _file_hash(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _code_hash(module: str) -> str:
    """Hash of a module's syntax tree without docstrings, and of its data if it is a package; comments and layout are
    not in a tree.
    """
    tree = _tree(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            node.body = node.body[1:]
    code = hashlib.sha256(ast.dump(tree).encode())
    for file in _data(module):
        code.update(file.read_bytes())
    return code.hexdigest()


def _data(module: str) -> list[Path]:
    """The data files of a package, without those of the packages in it."""
    source = _source(module)
    if source is None or source.name != "__init__.py":
        return []
    files = sorted(file for file in source.parent.rglob("*") if file.suffix in DATA)
    owners = [next(folder for folder in file.parents if (folder / "__init__.py").is_file()) for file in files]
    return [file for file, owner in zip(files, owners, strict=True) if owner == source.parent]


@cache
def _imports(module: str) -> frozenset[str]:
    """Every module that an import statement of `module` may load."""
    found: set[str] = set()
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            found.add(base)
            if base.split(".")[0] in PROJECT:  # `from package import name`: the name may be a module
                found |= {f"{base}.{alias.name}" for alias in node.names if _source(f"{base}.{alias.name}")}
    return frozenset(found)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    """The module that a `from … import` names, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    source = _source(module)
    package = module if source and source.name == "__init__.py" else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


@cache
def _tree(module: str) -> ast.Module:
    source = _source(module)
    return ast.parse(source.read_text(encoding="utf-8")) if source else ast.Module(body=[], type_ignores=[])


@cache
def _source(module: str) -> Path | None:
    """The file of a module of this project, found without importing it; None if there is no such module."""
    base = ROOT.joinpath(*module.split("."))
    for candidate in (base / "__init__.py", base.with_suffix(".py")):
        if candidate.is_file():
            return candidate
    return None
