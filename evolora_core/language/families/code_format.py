"""`code.format`: a CamelCase name in snake_case, of 2, 3 or 4 words. Target: the snake_case name.

At medium and long a quarter of the names end in an acronym (`HTTP`), which is one word. The score is the fraction of
words that are right in their place.

Published rows may have code as their target: anything with a blank or a line break in it. The score is then the
fraction of lines that are right in their place, indentation included.
"""

import re
from operator import eq
from typing import Any

import numpy as np

from evolora_core.language.families.answers import PUNCTUATION, extract_snippet, extract_word, snippet_lines
from evolora_core.language.families.base import CORRECT, DEPTHS, NO_ANSWER, Family, Grade, Item, wrong
from evolora_core.language.families.verdicts import verify_sequence

_WORDS_TEXT = (
    "add age api app area atom band bank bar base batch bit block bold book bound box bus byte call card case cell "
    "chain chip city clip clock code color copy core cost count cube data date day deck depth desk disk door dot "
    "draft drop edge end entry even event face fact file find fine flag flow fold font form frame gate get goal "
    "graph grid group hash head heap hit host icon index input item job join key kind label lane last layer leaf "
    "level limit line link list load lock log loop map mark mask max menu merge mesh min mode model month name next "
    "node note odd open order pack page pair panel part path peak pin plan plot point pool port post price"
)
_WORDS = tuple(_WORDS_TEXT.split())
_ACRONYMS = ("HTTP", "JSON", "XML", "URL")
_COUNT = {"short": 2, "medium": 3, "long": 4}


def draw(rng: np.random.Generator, depth: str) -> tuple[str, str]:
    """(prompt, target)."""
    words = [_WORDS[index] for index in rng.integers(len(_WORDS), size=_COUNT[depth]).tolist()]
    names = [word.capitalize() for word in words]
    if depth != "short" and rng.random() < 0.25:
        names[-1] = _ACRONYMS[int(rng.integers(len(_ACRONYMS)))]
    return f"Write in snake_case: {''.join(names)}", "_".join(names).lower()


def verify(item: Item, answer: str) -> Grade:
    """The name exactly, small letters and all; of code every line exactly, but for blanks at its end."""
    if len(item.target.split()) > 1:
        lines = extract_snippet(answer)
        return verify_sequence(lines, snippet_lines(item.target), eq) if lines else NO_ANSWER
    found, name = extract_word(answer), item.target.strip()
    name = name.strip(PUNCTUATION) or name  # as of the answer
    if found is None:
        return NO_ANSWER
    if found == name:
        return CORRECT
    partial = verify_sequence(found.split("_"), name.split("_"), eq)
    return wrong(partial.score)


def solve(prompt: str) -> str:
    """Put an underscore before each capital that follows a small letter, and write everything small."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", prompt.split()[-1]).lower()


def complaint(target: Any) -> str | None:
    """What is wrong with a target."""
    return None if isinstance(target, str) and target.strip() else "must be a name or code, as text"


FAMILY = Family("code.format", DEPTHS, draw, str, verify, solve, complaint)
