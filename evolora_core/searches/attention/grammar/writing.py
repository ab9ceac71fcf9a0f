"""Writes the classes of a block: names and signatures as they stand in the framework's template, the rest from parts.

A part is what one choice adds to a class. A class to which nothing is added keeps the template's own text.
"""

import ast
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.programs.block import with_block

WIDTH = 120  # of a line
INDENT = 4 * " "


@dataclass(frozen=True)
class Part:
    """Code that a choice adds to a class, as indented as is convenient here.

    attributes, methods  of the class
    init                 lines at the end of `__init__(self, dim, heads)`
    forward              lines of `forward`
    """

    attributes: str = ""
    init: str = ""
    methods: str = ""
    forward: str = ""


def class_text(framework: str, slot: int, says: str, parts: Sequence[Part], result: str) -> str:
    """A class of a block: `slot` is its place among the framework's slots, `result` the expression that it returns."""
    name, init, forward = _heads(framework)[slot]
    attributes = _joined(part.attributes for part in parts)
    methods = [_dedented(part.methods) for part in parts if part.methods]
    functions = [
        f"{init}\n" + _indented(_joined(["super().__init__()", *(part.init for part in parts)])),
        *methods,
        f"{forward}\n" + _indented(_body(parts, result)),
    ]
    inner = [_docstring(says), *([attributes] if attributes else []), *functions]
    return f"class {name}(nn.Module):\n" + _indented("\n\n".join(inner)) + "\n"


def method_text(head: str, says: str, parts: Sequence[Part], result: str) -> str:
    """A method of what would otherwise stand in `forward`."""
    return f"def {head}:\n" + _indented(f'"""{says}"""\n' + _body(parts, result))


def program_text(framework: str, changed: Mapping[int, str]) -> str:
    """The framework's text with the classes of some slots, by place, replaced."""
    classes = [changed.get(slot, text) for slot, text in enumerate(_classes(framework))]
    return with_block(get_framework(framework), "\n\n".join(classes) + "\n\n")


@cache
def _classes(framework: str) -> tuple[str, ...]:
    """The texts of the template's slots."""
    known = get_framework(framework)
    lines = known.source.splitlines(keepends=True)
    nodes = {node.name: node for node in _tree(framework).body if isinstance(node, ast.ClassDef)}
    return tuple("".join(lines[nodes[name].lineno - 1 : nodes[name].end_lineno]) for name in known.slots)


@cache
def _heads(framework: str) -> tuple[tuple[str, str, str], ...]:
    """For each slot: the name of its class, and the first lines of `__init__` and of `forward`, with its docstring."""
    found = []
    for name, text in zip(get_framework(framework).slots, _classes(framework), strict=True):
        (tree,) = ast.parse(text).body
        assert isinstance(tree, ast.ClassDef)
        functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
        lines = text.splitlines()
        init, forward = functions["__init__"], functions["forward"]
        last = forward.body[0].end_lineno if ast.get_docstring(forward) else forward.body[0].lineno - 1
        found.append(
            (
                name,
                textwrap.dedent("\n".join(lines[init.lineno - 1 : init.body[0].lineno - 1])),
                textwrap.dedent("\n".join(lines[forward.lineno - 1 : last])),
            )
        )
    return tuple(found)


def _tree(framework: str) -> ast.Module:
    return ast.parse(get_framework(framework).source)


def _docstring(says: str) -> str:
    """A docstring of a class: on one line if it fits."""
    room = WIDTH - len(INDENT) - 2 * 3
    if len(says) <= room:
        return f'"""{says}"""'
    return '"""' + textwrap.fill(says, room, break_on_hyphens=False) + '\n"""'


def _body(parts: Sequence[Part], result: str) -> str:
    """The lines of a function that returns `result`. If the last of them only names it, its value is returned."""
    lines = _joined(part.forward for part in parts).splitlines()
    if lines and lines[-1].startswith(f"{result} = ") and "  #" not in lines[-1]:
        return "\n".join([*lines[:-1], "return " + lines[-1].removeprefix(f"{result} = ")])
    return "\n".join([*lines, f"return {result}"])


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(_dedented(text) for text in texts if text.strip())


def _dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n").rstrip()


def _indented(text: str) -> str:
    return textwrap.indent(text, INDENT)
