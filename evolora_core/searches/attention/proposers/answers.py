"""Makes a program of a model's answer: edits of the parent's block, or a whole block (or file) in a code fence."""

import difflib
import re

from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.programs.block import END, START, block_of, check_outside, with_block
from evolora_core.searches.attention.programs.rejection import Rejected
from evolora_core.searches.attention.programs.static import check_length

SEARCH, DIVIDE, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
STAGE = "syntax"  # of answers that are no program
_FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})")


def read_answer(answer: str, parent: str, framework: Framework) -> tuple[str, str]:
    """The program's text and how it was given: `edits`, `block` or `file`. Rejected says what is wrong with the answer.

    `parent` is the text of the program that edits change. The text is not checked further than that it is another one
    and that nothing changed outside of the block.
    """
    answer = answer.replace("\r\n", "\n")
    if any(line.strip() == SEARCH for line in answer.split("\n")):
        source, form = with_block(framework, _edited(parent, _edits(answer))), "edits"
    else:
        text = _fenced(answer)
        if START in text or END in text:
            check_outside(text, framework)
            source, form = text, "file"
        else:
            source, form = with_block(framework, f"{text.strip(chr(10))}\n\n\n"), "block"
    check_length(source)
    if _lines(source) == _lines(parent):
        raise Rejected(STAGE, "the answer changes nothing")
    return source, form


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n") if line.strip()]


def _fenced(answer: str) -> str:
    """The longest code block of an answer."""
    blocks = _blocks(answer)
    if blocks:
        return max(blocks, key=len)
    if "```" in answer:
        raise Rejected(STAGE, "the code block of the answer does not end; perhaps the answer was too long")
    raise Rejected(STAGE, "the answer has neither SEARCH/REPLACE edits nor a code block")


def _blocks(answer: str) -> list[str]:
    """What stands between fences; one that is never closed opens nothing. In one pass: answers have up to 4 MiB."""
    lines = answer.split("\n")
    last = {line.strip(" \t"): number for number, line in enumerate(lines)}  # where a line stands for the last time
    opened, held, found = "", list[str](), list[str]()
    for number, line in enumerate(lines):
        if opened and line.strip(" \t") == opened:
            found.append("".join(held))
            opened = ""
        elif opened:
            held.append(f"{line}\n")
        elif (mark := _FENCE.match(line)) and last.get(mark[1], -1) > number:
            opened, held = mark[1], []
    return found


def _edits(answer: str) -> list[tuple[list[str], list[str]]]:
    """The edits: lines to search for, and those that take their place."""
    found: list[tuple[list[str], list[str]]] = []
    search: list[str] = []
    replace: list[str] = []
    part: list[str] | None = None  # which of both is being read
    for line in answer.split("\n"):
        mark = line.strip()
        expected = SEARCH if part is None else DIVIDE if part is search else REPLACE
        if mark in (SEARCH, DIVIDE, REPLACE) and mark != expected and (part is not None or mark != DIVIDE):
            raise Rejected(STAGE, f"{mark!r} stands where {expected!r} is expected", f"edit {len(found) + 1}")
        if mark == SEARCH:
            search, replace = [], []
            part = search
        elif mark == DIVIDE and part is search:
            part = replace
        elif mark == REPLACE:
            found.append((search, replace))
            part = None
        elif part is not None:
            part.append(line)
    if part is not None:
        raise Rejected(STAGE, "the edit does not end; perhaps the answer was too long", f"edit {len(found) + 1}")
    return found


def _edited(parent: str, edits: list[tuple[list[str], list[str]]]) -> str:
    """The parent's block after all edits, one after another. Blanks at the ends of lines do not matter."""
    lines = block_of(parent).split("\n")
    whole = [line.rstrip() for line in parent.split("\n")]
    for number, (search, replace) in enumerate(edits, 1):
        wanted = [line.rstrip() for line in search]
        if not any(wanted):
            raise Rejected(STAGE, "the SEARCH text is empty", f"edit {number}")
        plain = [line.rstrip() for line in lines]
        starts = _places(wanted, plain)
        if not starts and _places(wanted, whole):
            raise Rejected(
                "markers", "the SEARCH text reaches out of the block, which alone may change", f"edit {number}"
            )
        if not starts:
            raise Rejected(STAGE, f"the SEARCH text is not in the block; {_nearest(wanted, plain)}", f"edit {number}")
        if len(starts) > 1:
            places = ", ".join(str(at + 1) for at in starts)
            raise Rejected(
                STAGE, f"the SEARCH text is at lines {places} of the block; give more of it", f"edit {number}"
            )
        lines[starts[0] : starts[0] + len(wanted)] = replace
    return "\n".join(lines)


def _places(wanted: list[str], lines: list[str]) -> list[int]:
    """Where the lines stand one after another."""
    return [at for at in range(len(lines) - len(wanted) + 1) if lines[at : at + len(wanted)] == wanted]


def _nearest(wanted: list[str], lines: list[str]) -> str:
    """The first line of the search text that is missing, and the line of the block that is most like it."""
    missing = next((line for line in wanted if line and line not in lines), "")
    if not missing:
        return "all its lines are, but not one after another"
    if not any(lines):
        return "the block is empty after the edits before"
    near = difflib.get_close_matches(missing, [line for line in lines if line], n=1, cutoff=0.0)
    return f"{missing.strip()[:80]!r} is missing; nearest is line {lines.index(near[0]) + 1}, {near[0].strip()[:80]!r}"
