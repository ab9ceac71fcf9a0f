"""`string.distinct`: 5, 8 or 12 small letters in alphabetical order, each once.

The prompt is that of `string.sort`, word for word; the rule is another. No text tells the two families apart, so one
adapter cannot serve both: they are for suites that ask what a conflict costs.

Target: the letters in any order, as a string or a list of letters. The score is the fraction of positions that are
right.
"""

from typing import Any

from evolora_core.language.families import string_sort
from evolora_core.language.families.base import DEPTHS, Family, Grade, Item


def solution(target: Any) -> str:
    """The letters, sorted and joined, repeats left out."""
    return "".join(dict.fromkeys(string_sort.solution(target)))


def verify(item: Item, answer: str) -> Grade:
    """Read as in `string.sort`."""
    return string_sort.grade_letters(answer, solution(item.target))


def solve(prompt: str) -> str:
    """Go through the alphabet and keep the letters that the prompt has."""
    letters = prompt.partition(":")[2].split()
    return "".join(letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter in letters)


FAMILY = Family("string.distinct", DEPTHS, string_sort.draw, solution, verify, solve, string_sort.complaint)
