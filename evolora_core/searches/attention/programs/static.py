"""Stage `syntax`: what can be said of a program without running it.

An allow-list of imports and builtins, and a few names that are not for programs. It gives early errors with line
numbers and keeps honest programs from touching what they share with the host (seeds, settings). It is no boundary: that
is the sandbox.
"""

import ast
import builtins
from collections.abc import Iterator

from evolora_core.searches.attention.programs.normal import bound_names, parse
from evolora_core.searches.attention.programs.rejection import Rejected

MOST_CHARACTERS = 10_000
MOST_NESTED = 100  # levels of the syntax tree; ordinary programs have 20

MODULES = frozenset({"math", "torch", "torch.nn", "torch.nn.functional", "torch.nn.init", "torch.fft", "torch.linalg"})

_BUILTINS = """
abs all any bool classmethod complex dict divmod enumerate filter float frozenset getattr hasattr int isinstance iter
len list map max min next object pow print property range reversed round set slice sorted staticmethod str sum super
tuple zip ArithmeticError AssertionError Exception IndexError KeyError NotImplementedError RuntimeError TypeError
ValueError ZeroDivisionError
"""
ALLOWED_BUILTINS = frozenset(_BUILTINS.split())

# Of torch, by whichever name it is reached: files and code, other processes, what programs share with the host, and
# tensors of forms whose work no count of numbers tells.
_FORBIDDEN = """
classes compile cpp_extension cuda data_ptr default_generator distributed format format_map from_file from_numpy hspmm
hub import_module jit library load load_library load_state_dict manual_seed multiprocessing ops overrides package save
seed serialization smm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
sparse_csr_tensor sspaddmm storage sys to_mkldnn to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc
to_sparse_csr untyped_storage use_deterministic_algorithms utils
"""
FORBIDDEN = frozenset(_FORBIDDEN.split())

_STATEMENTS = {
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.AsyncFunctionDef: "async def",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
}


def check_length(source: str) -> None:
    """Rejected where the text is too long to be read."""
    if len(source) > MOST_CHARACTERS:
        raise Rejected("syntax", f"the text has {len(source)} characters; at most {MOST_CHARACTERS} are allowed")


def check_syntax(source: str) -> None:
    """Rejected at stage `syntax` for the first fault, in the order of lines."""
    check_length(source)
    tree = parse(source)
    _check_depth(tree)
    prose = _docstrings(tree)
    known = bound_names(tree) | ALLOWED_BUILTINS
    nodes = [node for node in ast.walk(tree) if id(node) not in prose]
    faults = [(getattr(node, "lineno", 1), fault) for node in nodes for fault in _faults(node, known)]
    if faults:
        line, fault = min(faults, key=lambda found: found[0])
        raise Rejected("syntax", fault, f"line {line}")


def _faults(node: ast.AST, known: set[str]) -> Iterator[str]:
    if type(node) in _STATEMENTS:
        yield f"`{_STATEMENTS[type(node)]}` is not allowed"
    elif isinstance(node, ast.Import):
        yield from (_not_imported(alias.name) for alias in node.names if alias.name not in MODULES)
    elif isinstance(node, ast.ImportFrom):
        if node.level or node.module not in MODULES:
            yield _not_imported("." * node.level + (node.module or ""))
        yield from (
            f"`{alias.name}` may not be imported from {node.module}"
            for alias in node.names
            if alias.name in FORBIDDEN or alias.name == "*" or alias.name.startswith(("_", "set_"))
        )
    elif isinstance(node, ast.Name):
        yield from _of_name(node, known)
    elif isinstance(node, ast.Attribute):
        yield from _of_attribute(node.attr, own=isinstance(node.value, ast.Name) and node.value.id == "self")
    elif isinstance(node, ast.MatchClass):  # `case Kind(name=value)` reads the attribute
        yield from (fault for name in node.kwd_attrs for fault in _of_attribute(name, own=False))
    elif isinstance(node, ast.FunctionDef | ast.ClassDef):
        if node.name.startswith("__") and node.name != "__init__":
            yield f"`{node.name}` may not be defined; of the names with two underscores, only __init__ may"
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "__" in node.value:
        yield "a text with two underscores is not allowed"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr"):
        yield from _of_getattr(node)


def _not_imported(name: str) -> str:
    return f"`{name}` may not be imported; a program imports torch and math alone"


def _of_name(node: ast.Name, known: set[str]) -> Iterator[str]:
    if node.id.startswith("__"):
        yield f"`{node.id}` is not allowed"
    elif isinstance(node.ctx, ast.Load) and node.id not in known:
        forbidden = hasattr(builtins, node.id)
        yield f"`{node.id}` is not allowed" if forbidden else f"the name `{node.id}` is not defined"


def _of_attribute(name: str, *, own: bool) -> Iterator[str]:
    """`own`: of the program's `self`."""
    if name.startswith("__") and name != "__init__":
        yield f"`.{name}` is not allowed"
    elif not own and name.startswith("_") and name != "__init__":
        yield f"`.{name}` is private to something else and not allowed"
    elif not own and (name in FORBIDDEN or name.startswith("set_")):
        yield f"`.{name}` is not allowed"


def _of_getattr(node: ast.Call) -> Iterator[str]:
    name = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else None
    if not isinstance(name, str) or name in FORBIDDEN or name.startswith(("_", "set_")):
        yield "getattr and hasattr are allowed with a plain text for a name alone"


def _check_depth(tree: ast.Module) -> None:
    level: list[ast.AST] = [tree]
    for _ in range(MOST_NESTED):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    line = next((node.lineno for node in level if isinstance(node, ast.stmt | ast.expr)), 1)
    raise Rejected("syntax", f"the text is nested more than {MOST_NESTED} levels deep", f"line {line}")


def _docstrings(tree: ast.Module) -> set[int]:
    """Ids of the texts that stand alone: docstrings and remarks."""
    alone = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    return {id(value) for value in alone if isinstance(value, ast.Constant)}
