"""Two texts of one program: what is left when comments, docstrings, annotations and the names of locals are taken away.

Programs that differ in no more than that are one program and are run once. The converse does not hold: a program may do
the same as another and be written differently. The text depends on Python's own way to write code, so that ids of one
run are not compared with those of a run under another version of Python.
"""

import ast
import builtins
import re
from collections.abc import Iterator
from hashlib import blake2b

from evolora_core.searches.attention.programs.rejection import Rejected

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
_BUILTINS = frozenset(dir(builtins))


def program_id(source: str) -> str:
    """16 hexadecimal digits: equal for texts of one program."""
    return blake2b(normalised(source).encode(), digest_size=8).hexdigest()


def normalised(source: str) -> str:
    """The program without its author's taste. Rejected at stage `syntax` if it does not parse, or if Python cannot
    write it: Python 3.11 has no way for some texts within an f-string, and none has for an integer of many digits.
    """
    try:
        return _normalised(parse(source))
    except RecursionError:
        raise Rejected("syntax", "the text is nested too deeply") from None
    except ValueError as error:
        raise Rejected("syntax", f"Python cannot write the text anew: {error}") from None


def _normalised(tree: ast.Module) -> str:
    tree = _Bare().visit(tree)
    kept = _seen_from_outside(tree)
    module = _bound_at(tree)
    private = {name for name in module if name.startswith("_") and not name.startswith("__")} - kept
    outer = [*_outermost_functions(tree)]
    local = {id(function): _bound_within(function) - module - kept - _BUILTINS for function in outer}
    renamed = private.union(*local.values())
    prefix = "ν"  # a letter that programs do not use, and more of them where one does
    while any(re.fullmatch(prefix + r"[a-z]?\d+", name) for name in _names(tree) if name not in renamed):
        prefix += "ν"
    for function in outer:
        _rename(function, local[id(function)], prefix)
    _rename(tree, private, prefix + "m")
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def parse(source: str) -> ast.Module:
    """The syntax tree. Rejected at stage `syntax` with the line."""
    try:
        return ast.parse(source)
    except SyntaxError as error:
        raise Rejected("syntax", f"the text does not parse: {error.msg}", f"line {error.lineno or 1}") from None
    except (ValueError, RecursionError, MemoryError) as error:  # null bytes; nested too deeply
        raise Rejected("syntax", f"the text does not parse: {str(error) or type(error).__name__}") from None


class _Bare(ast.NodeTransformer):
    """Takes docstrings and annotations away."""

    def visit_Module(self, node: ast.Module) -> ast.AST:
        return self._body(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._body(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self._body(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

    def visit_If(self, node: ast.If) -> ast.AST:
        return self._filled(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        return self._filled(node)

    def visit_With(self, node: ast.With) -> ast.AST:
        return self._filled(node)

    def _body(self, node: ast.Module | ast.ClassDef | ast.FunctionDef) -> ast.AST:
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:]
        return self._filled(node)

    def _filled(self, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.If | ast.For | ast.With) -> ast.AST:
        """The node with its children visited and `pass` only where nothing else stands."""
        self.generic_visit(node)
        node.body = [inner for inner in node.body if not isinstance(inner, ast.Pass)]
        if not node.body and not isinstance(node, ast.Module):
            node.body = [ast.Pass()]
        return node


def _seen_from_outside(tree: ast.Module) -> set[str]:
    """Names that others may use: in calls by keyword, as attributes of a class, in signatures that are checked."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg:
            found.add(node.arg)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif isinstance(node, ast.ClassDef):
            found |= _bound_at(node)
            for method in node.body:
                if isinstance(method, ast.FunctionDef) and method.name in ("__init__", "forward"):
                    found.update(argument.arg for argument in ast.walk(method.args) if isinstance(argument, ast.arg))
    return found


def _bound_at(owner: ast.Module | ast.ClassDef) -> set[str]:
    """Names that the body of a module or class itself binds."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(owner.body)
    while waiting:
        node = waiting.pop()
        found |= _binds(node)
        if not isinstance(node, ast.ClassDef | _Function):
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _bound_within(function: ast.AST) -> set[str]:
    """Names that a function or anything within it binds; its own name is its owner's."""
    return set().union(*(_binds(node) for node in ast.walk(function) if node is not function))


def _binds(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Name):
        return {node.id} if isinstance(node.ctx, ast.Store | ast.Del) else set()
    if isinstance(node, ast.arg):
        return {node.arg}
    if isinstance(node, _NAMED):
        return {node.name} if node.name else set()
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return set()


def _outermost_functions(node: ast.AST) -> Iterator[ast.AST]:
    """Functions, lambdas and comprehensions that stand in no other, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield child
        else:
            yield from _outermost_functions(child)


def bound_names(tree: ast.AST) -> set[str]:
    """Names that anything in the tree binds."""
    return set().union(*(_binds(node) for node in ast.walk(tree)))


def _names(tree: ast.AST) -> set[str]:
    return bound_names(tree) | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _rename(tree: ast.AST, names: set[str], prefix: str) -> None:
    """Call `names` prefix0, prefix1, … in the order in which they appear."""
    new: dict[str, str] = {}

    def called(name: str) -> str:
        return new.setdefault(name, f"{prefix}{len(new)}") if name in names else name

    def visit(node: ast.AST, top: bool = False) -> None:
        if isinstance(node, ast.Name):
            node.id = called(node.id)
        elif isinstance(node, ast.arg):
            node.arg = called(node.arg)
        elif isinstance(node, _NAMED) and node.name and not top:
            node.name = called(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) in names:
                    alias.asname = called(alias.asname or alias.name)
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(tree, top=True)
