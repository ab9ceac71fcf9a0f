"""The block of a program: the text between the markers, and that nothing around it changed."""

from itertools import zip_longest

from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.programs.rejection import Rejected

START, END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


def block_of(source: str) -> str:
    """The lines between the markers. Rejected where there is not exactly one block."""
    lines, start, end = _split(source)
    return "".join(lines[start + 1 : end])


def with_block(framework: Framework, block: str) -> str:
    """The framework's text with another block."""
    lines, start, end = _split(framework.source)
    block = block if block.endswith("\n") else block + "\n"
    return "".join([*lines[: start + 1], block, *lines[end:]])


def check_outside(source: str, framework: Framework) -> None:
    """Rejected unless the text before and after the block is the framework's, byte for byte."""
    lines, start, end = _split(source)
    known, known_start, known_end = _split(framework.source)
    _compare(lines[: start + 1], known[: known_start + 1], 1, framework)
    _compare(lines[end:], known[known_end:], end + 1, framework)


def _compare(found: list[str], wanted: list[str], first: int, framework: Framework) -> None:
    """Rejected at the first of the lines, counted from `first`, that differs."""
    for number, (ours, theirs) in enumerate(zip_longest(found, wanted), first):
        if ours == theirs:
            continue
        if ours is None:
            fault = f"a line of {framework.name} is missing: {theirs.rstrip()[:80]!r}"
        elif theirs is None:
            fault = f"there is a line that {framework.name} does not have: {ours.rstrip()[:80]!r}"
        else:
            fault = f"differs from {framework.name}: {ours.rstrip()[:80]!r} instead of {theirs.rstrip()[:80]!r}"
        raise Rejected("markers", f"outside of the block, {fault}", f"line {number}")


def _split(source: str) -> tuple[list[str], int, int]:
    """All lines with their ends, and the indices of the two markers."""
    lines = source.split("\n")  # str.splitlines would also split at characters that are no ends of lines to Python
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    starts = [index for index, line in enumerate(lines) if START in line]
    ends = [index for index, line in enumerate(lines) if END in line]
    for marker, found in ((START, starts), (END, ends)):
        if not found:
            raise Rejected("markers", f"the line # {marker} is missing")
        if len(found) > 1:
            places = ", ".join(str(index + 1) for index in found)
            raise Rejected("markers", f"there is more than one line with {marker}", f"lines {places}")
    if starts[0] >= ends[0]:
        raise Rejected("markers", f"{END} stands before {START}", f"lines {ends[0] + 1} and {starts[0] + 1}")
    return lines, starts[0], ends[0]
