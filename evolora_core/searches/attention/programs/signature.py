"""Stage `signature`: what a program's classes have to be called like. Told from its text."""

import ast

from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.programs.rejection import Rejected

FREE = {"__init__": ["self", "dim", "heads"], "forward": ["self", "x"]}  # of Attention
_MODULE = (["nn.Module"], ["torch.nn.Module"])


def check_signature(source: str, framework: Framework | None) -> None:
    """Rejected unless each class of the contract stands once in the file with the arguments that it is called with."""
    wanted = {"Attention": FREE}
    if framework is not None:
        template = _classes(framework.source)
        wanted = {name: _methods(template[name][0]) for name in framework.slots}
    found = _classes(source)
    for name, methods in wanted.items():
        if name not in found:
            raise Rejected("signature", f"there is no class {name}", "the file")
        if len(found[name]) > 1:
            lines = ", ".join(str(node.lineno) for node in found[name])
            raise Rejected("signature", f"the class {name} stands more than once", f"lines {lines}")
        node = found[name][0]
        if framework is not None and [ast.unparse(base) for base in node.bases] not in _MODULE:
            raise Rejected("signature", f"the class {name} is no nn.Module", f"line {node.lineno}")
        own = _methods(node)
        for method, arguments in methods.items():
            if method not in own:
                raise Rejected("signature", f"{name} has no method {method}", f"line {node.lineno}")
            if own[method] != arguments:
                says = f"{name}.{method}({', '.join(own[method])}) instead of ({', '.join(arguments)})"
                raise Rejected("signature", says, f"line {_line_of(node, method)}")


def _classes(source: str) -> dict[str, list[ast.ClassDef]]:
    found: dict[str, list[ast.ClassDef]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found.setdefault(node.name, []).append(node)
    return found


def _methods(node: ast.ClassDef) -> dict[str, list[str]]:
    """The arguments of `__init__` and `forward`, as they are written; a starred one with its stars."""
    found = {}
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name in FREE:
            given = part.args
            names = [argument.arg for argument in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
            names += [f"*{given.vararg.arg}"] if given.vararg else []
            found[part.name] = names + ([f"**{given.kwarg.arg}"] if given.kwarg else [])
    return found


def _line_of(node: ast.ClassDef, method: str) -> int:
    return next(part.lineno for part in node.body if isinstance(part, ast.FunctionDef) and part.name == method)
