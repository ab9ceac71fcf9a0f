"""`string.distinct`: 5, 8 or 12 small letters in alphabetical order, each once.

The prompt is that of `string.sort`, word for word; the rule is another. No text tells the two families apart, so one
adapter cannot serve both: they are for suites that ask what a conflict costs.

Target: the letters in any order, as a string or a list of letters. The score is the fraction of positions that are
right.
"""

from operator import eq
from typing import Any

from evolora_core.language.families import string_sort
from evolora_core.language.families.answers import extract_array, extract_letters
from evolora_core.language.families.base import DEPTHS, NO_ANSWER, Family, Grade, Item
from evolora_core.language.families.verdicts import verify_sequence


def solution(target: Any) -> str:
    """The letters, sorted and joined, repeats left out."""
    return "".join(dict.fromkeys(string_sort.solution(target)))


def verify(item: Item, answer: str) -> Grade:
    """Letters written together or apart, or a JSON array of letters."""
    array = extract_array(answer, anywhere=False)
    found = "".join(map(str, array)) if array else extract_letters(answer)
    return verify_sequence(found, solution(item.target), eq) if found else NO_ANSWER


def solve(prompt: str) -> str:
    """Go through the alphabet and keep the letters that the prompt has."""
    letters = prompt.partition(":")[2].split()
    return "".join(letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter in letters)


FAMILY = Family("string.distinct", DEPTHS, string_sort.draw, solution, verify, solve, string_sort.complaint)
