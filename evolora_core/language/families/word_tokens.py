"""`word.tokens`: how many words and numbers a text has. Markup tags are none. Target: a number.

The prompt is that of `word.count`, word for word; the rule is another, as if a second annotator counted numbers too.
No text tells the two families apart, so one adapter cannot serve both. Unlike that of `string.distinct`, a right answer
is at most three away from what a host says that counts words: a search can find the second rule.
"""

import re

import numpy as np

from evolora_core.language.families import word_count
from evolora_core.language.families.base import DEPTHS, Family
from evolora_core.language.families.verdicts import number_complaint, number_text, verify_number


def draw(rng: np.random.Generator, depth: str) -> tuple[str, int]:
    """(prompt, target)."""
    prompt, words = word_count.draw(rng, depth)
    return prompt, words + len(re.findall(r"\d+", prompt))


def solve(prompt: str) -> str:
    """Remove the tags, split at white space and count the parts."""
    return str(len(re.sub(r"<[^>]*>", "", prompt.partition(":")[2]).split()))


FAMILY = Family("word.tokens", DEPTHS, draw, number_text, verify_number, solve, number_complaint, to_the_end=True)
