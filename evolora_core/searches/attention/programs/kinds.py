"""What kind of mechanism a program is, read from its text: the cells of an archive.

A cell follows from the names of the operations that a program calls, wherever they stand and whatever they are for.
So it is known before the program has cost anything, whoever wrote it, but different mechanisms may share a cell and
alike ones may differ: a cumulative sum that adds up outer products is `fading` too. Cells are fixed: what a search
finds moves no border between them.
"""

import ast
from functools import lru_cache

from evolora_core.searches.attention.programs.normal import parse

Kind = tuple[str, str]  # how tokens are weighed, and what becomes of the past

_WEIGHED = {
    "softmax": {"softmax", "log_softmax", "logsumexp", "scaled_dot_product_attention"},
    "solved": {"solve", "solve_triangular", "inv", "cholesky", "cholesky_solve", "lstsq"},
}
_PAST = {
    "fading": {"cumsum", "cumprod", "logcumsumexp", "logsigmoid"},
    "by distance": {"arange"},
}


@lru_cache(maxsize=4096)
def kind_of(source: str) -> Kind:
    """The cell of a program. Rejected at stage `syntax` if it does not parse."""
    called = {name for node in ast.walk(parse(source)) if (name := _called(node))}

    def first(groups: dict[str, set[str]], other: str) -> str:
        return next((name for name, own in groups.items() if own & called), other)

    return first(_WEIGHED, "sums"), first(_PAST, "kept")


def _called(node: ast.AST) -> str:
    """The last name of what a call calls; "" for anything else."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""
