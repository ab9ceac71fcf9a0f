"""The identity of a stage: everything that decides what it computes, hashed. Equal identity, equal artefact.

In it: the part of the configuration that the stage reads, the identities of its inputs, the seed, the host's files,
dtype, device kind, thread count, the versions of the libraries that its code imports, and that code itself: the
import closure of its entry module, and of the modules that it loads by a computed name, within this project and the
packages of these modules, which may be a user's. Each module counts by its syntax tree, without docstrings, what is
for type checkers alone and the descriptions of settings; each package with its SQL, templates and styles.

Left out: the operating system, the processor model and the interpreter's patch version (a table that differs in the
last digits of a float after moving to another machine is still the same experiment); other data files read at run
time than the host's; the modules of `ORCHESTRATION` and `COUNTED_OTHERWISE`, and indexes.
"""

import ast
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from evolora_core.engine.artifacts import sha256
from evolora_core.engine.plugins import OURS, source, sql_folders
from evolora_core.errors import HostError, StageError

# They, and the modules below them, decide when and where a stage runs, and never what it computes.
ORCHESTRATION = ("evolora_core.engine.stage", "evolora_core.searches.base", "evolora_core.searches.registry", "tasks")
# What it does is in an identity by itself: the files that are fetched are hashed.
COUNTED_OTHERWISE = ("evolora_core.language.hosts.fetch",)
INDEX = "names"  # a module of this name only says where others are, which a stage names in `also`
DATA = (".sql", ".j2", ".mplstyle")  # files of a package that decide what its code computes
HOST_FILES = (".json", ".safetensors", ".gguf", ".jinja", ".model", ".tiktoken", ".py")  # of a model or its tokenizer
VOCABULARIES = ("merges.txt", "vocab.txt")
DIGITS = 16
SETTLED = 2.0  # seconds: of a file written later than that ago, a second writing may leave the same time
STARTED = "EVOLORA_STARTED"  # in the environment of a flow and its workers, seconds since 1970
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
    also: Iterable[str] = (),
) -> dict[str, Any]:
    """The identity document of a stage; `digest` of it is its identity.

    `entry` is the module with its code, `also` are those that it loads by a computed name: the families, the rule or
    the arm that it uses; `inputs` maps roles to identities of earlier stages; `host` says the host's files hash, dtype,
    device kind and threads, and is None where no model is used.
    """
    loaded = sorted(set(also))
    modules = import_closure(entry, *loaded)
    return {
        "entry": entry,
        "also": loaded,
        "config": dict(config),
        "inputs": dict(inputs),
        "seed": seed,
        "host": dict(host) if host else None,
        "code": digest([(name, _code_hash(name)) for name in sorted(modules)]),
        "libraries": library_versions(modules),
    }


@contextmanager
def code_as_it_is() -> Iterator[None]:
    """Note the time in the environment, for child processes too. Inside, a stage is refused if a file of its code was
    written later (`refuse_changed_code`). Of several in one another the outermost counts: `evolora run` imports what it
    computes with before Prefect's server is there, which can take minutes.
    """
    if STARTED in os.environ:
        yield
        return
    os.environ[STARTED] = str(time.time())
    try:
        yield
    finally:
        del os.environ[STARTED]


def refuse_changed_code(document: Mapping[str, Any]) -> None:
    """Inside `code_as_it_is`, raise StageError if a file of the code in an identity document was written since. Modules
    that are already imported keep the old code, so those imported later would not match them.
    """
    if STARTED not in os.environ:
        return
    for module in sorted(import_closure(document["entry"], *document["also"])):
        for file in filter(None, [source(module), *_data(module)]):
            refuse_changed(file, "code")


def refuse_changed(file: Path, what: str) -> None:
    """Inside `code_as_it_is`, raise StageError if a file was written since; `what` it is, for the message."""
    if STARTED not in os.environ:
        return
    if float(os.environ[STARTED]) < file.stat().st_mtime <= time.time():  # a date in the future says nothing
        raise StageError(f"{file}: was changed while the suite runs; run it again, with the {what} as it is then")


def import_closure(*modules: str) -> frozenset[str]:
    """Every module that these can reach by import statements, wherever they stand, themselves included, within this
    project and the top-level packages of `modules`.
    """
    for name in modules:
        if source(name) is None:
            raise ValueError(f"{name}: no module of this project, nor of what is installed; its code would not count")
    packages = {*OURS, *(name.split(".")[0] for name in modules)}
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name in found or name.split(".")[0] not in packages or source(name) is None or _left_out(name):
            continue
        found.add(name)
        parents = name.split(".")
        waiting += [".".join(parents[:i]) for i in range(1, len(parents))]  # importing a module runs its packages
        waiting += _imports(name)
    return frozenset(found)


def _left_out(module: str) -> bool:
    below = any(module.startswith(f"{name}.") for name in ORCHESTRATION)
    return below or module in (*ORCHESTRATION, *COUNTED_OTHERWISE) or module.endswith(f".{INDEX}")


def library_versions(modules: frozenset[str]) -> dict[str, str]:
    """Installed versions of the third-party libraries that the modules import, Prefect left out: it computes
    nothing."""
    names = {imported.split(".")[0] for module in modules for imported in _imports(module)}
    names |= {behind for name in names for behind in _BEHIND.get(name, ())}
    names -= {*OURS, *(module.split(".")[0] for module in modules), *sys.stdlib_module_names, "prefect"}
    distributions = _distributions()
    return {name: _version(distributions[name][0]) for name in sorted(names) if name in distributions}


_distributions = cache(metadata.packages_distributions)  # reads every installed package's list of files
_version = cache(metadata.version)  # reads a file each time


def host_files_hash(path: Path) -> str:
    """Hash over the files of a host that are read: weights, configuration, tokenizer, templates. Its card, checkpoints
    in folders below it and what a training still writes beside it are no part of it. HostError if there are none.
    """
    files = [path] if path.is_file() else sorted(file for file in path.glob("*") if _is_read(file))
    files += sorted(path.glob("additional_chat_templates/*.jinja"))
    if not files:
        raise HostError(f"{path}: the host has no files; fetch it with `evolora host fetch`")
    names = [file.relative_to(path).as_posix() if path.is_dir() else file.name for file in files]
    return digest([(name, _file_hash(file)) for name, file in zip(names, files, strict=True)])


def _is_read(file: Path) -> bool:
    """Whether a file is of a kind that transformers reads a model or a tokenizer from."""
    return (file.suffix in HOST_FILES or file.name in VOCABULARIES) and file.name[0] != "." and file.is_file()


def _file_hash(path: Path) -> str:
    """Hash of a file. It is read again only after a change, as every stage asks for the files of a model."""
    told = path.stat()
    if time.time() - told.st_mtime < SETTLED:
        return sha256(path)
    return _kept_hash(path, told.st_size, told.st_mtime_ns, told.st_ctime_ns, told.st_ino)


@lru_cache(maxsize=1024)
def _kept_hash(path: Path, *told: int) -> str:
    """Hash of a file, kept while its size, times and inode stay the same."""
    return sha256(path)


@cache
def _code_hash(module: str) -> str:
    """Hash of what runs of a module, and of its data if it is a package."""
    code = _tree_hash(_text(module)).copy()
    for file in _data(module):
        code.update(file.read_bytes())
    return code.hexdigest()


@cache
def _data(module: str) -> tuple[Path, ...]:
    """The data files of a package, without those of the packages in it, and without the SQL of searches. That SQL only
    decides what a pack says, and it is among the settings of the pack's stage.
    """
    file = source(module)
    if file is None or file.name != "__init__.py":
        return ()
    files = sorted(path for path in file.parent.rglob("*") if path.suffix in DATA)
    files = [path for path in files if not {*path.parents} & {*sql_folders().values()}]
    owners = [next(folder for folder in path.parents if (folder / "__init__.py").is_file()) for path in files]
    return tuple(path for path, owner in zip(files, owners, strict=True) if owner == file.parent)


@cache
def _imports(module: str) -> frozenset[str]:
    """Every name that an import statement of `module` may load. In `from package import name` the name may be a
    module or not; the caller checks.
    """
    found: set[str] = set()
    for node in ast.walk(_running(_text(module))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            found |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def _absolute(module: str, node: ast.ImportFrom) -> str:
    """The module that a `from … import` names, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    file = source(module)
    package = module if file and file.name == "__init__.py" else module.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return f"{package}.{node.module}" if node.module else package


@cache
def _text(module: str) -> str:
    file = source(module)
    return file.read_text(encoding="utf-8") if file else ""


@cache
def _running(text: str) -> ast.Module:
    """The syntax tree of a module's text without what computes nothing. Comments and layout are not in a tree."""
    computing: ast.Module = _Computing().visit(ast.parse(text))
    return computing


@cache
def _tree_hash(text: str) -> "hashlib._Hash":
    return hashlib.sha256(ast.dump(_running(text)).encode())


class _Computing(ast.NodeTransformer):
    """Takes out docstrings, the descriptions of settings, and what only type checkers read."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Drop docstrings: expressions that are only a text."""
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if text else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """Only of pydantic's `Field`: another function may compute with what it calls a description."""
        if _last_name(node.func) == "Field":
            node.keywords = [given for given in node.keywords if not _is_words(given)]
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.AST]:
        """Keep only the `else` of `if TYPE_CHECKING`, as nothing else of it runs."""
        if _last_name(node.test) != "TYPE_CHECKING":
            return self.generic_visit(node)
        return [kept for statement in node.orelse if (kept := self.visit(statement)) is not None]


def _last_name(node: ast.expr) -> str:
    """The last part of a name with or without dots; empty for any other expression."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_words(given: ast.keyword) -> bool:
    """Whether it is `description="…"`, in one piece or several, formatted or not."""
    text = isinstance(given.value, ast.JoinedStr) or (
        isinstance(given.value, ast.Constant) and isinstance(given.value.value, str)
    )
    return given.arg == "description" and text
