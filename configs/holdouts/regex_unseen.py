"""Writes regex_unseen.jsonl: the six regex families in four ways that no draw of theirs has, `EACH` items of a kind.

    .venv/bin/python configs/holdouts/regex_unseen.py > configs/holdouts/regex_unseen.jsonl

The column `holdout_type` says how a row differs:

- `operator`: a quantifier that no pattern of the families has, `{n,}` or `*`;
- `composition`: known parts in an order, or a number, that no pattern of the families has;
- `semantic_coupling`: parts that belong together, dates and times;
- `surface_form`: patterns as they are drawn, asked for in other words.

Prompts are as the families word them, but for the last kind.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.language.families import (
    regex_debugging,
    regex_explanation,
    regex_mutation_effect,
    regex_recognition,
    regex_refactoring,
    regex_synthesis,
)
from evolora_core.language.families.canonical import canonical
from evolora_core.language.families.patterns import (
    CLASSES,
    LONGEST,
    Bounded,
    Literal,
    Run,
    Segment,
    Segments,
    draw_segments,
    pattern_of,
    words_of,
)
from evolora_core.language.families.variants import broken, loosened

EACH = 20  # items of a family and a kind
LONGEST_PROMPT = 170  # characters
Posed = tuple[str, dict[str, Any]]  # prompt and target


@dataclass(frozen=True)
class AtLeast(Run):
    """`low` or more characters of a class."""

    def pattern(self) -> str:
        atom = CLASSES[self.kind][0]
        return f"{atom}*" if self.low == 0 else f"{atom}{{{self.low},}}"

    def words(self) -> str:
        return f"{self.low} or more {self.kind}"

    def sample(self, rng: np.random.Generator) -> str:
        return Run(self.kind, self.low, self.low + 2).sample(rng)


def operator(rng: np.random.Generator) -> Segments:
    """A drawn pattern, one of its runs with another quantifier."""
    segments = list(_drawn(rng))
    runs = [at for at, segment in enumerate(segments) if isinstance(segment, Run)]
    at = runs[int(rng.integers(len(runs)))]
    segments[at] = AtLeast(_kind(segments[at]), 0 if rng.random() < 0.4 else int(rng.integers(2, 6)), None)
    return tuple(segments)


def composition(rng: np.random.Generator) -> Segments:
    """The parts of two drawn patterns, mixed: five at least, no two runs or texts of letters side by side."""
    while True:
        parts: list[Segment] = [*_drawn(rng), *_drawn(rng)]
        mixed = [parts[at] for at in rng.permutation(len(parts)).tolist()]
        apart = all(_stands_apart(left, right) for left, right in zip(mixed, mixed[1:], strict=False))
        if apart and len(mixed) > 4 and len(pattern_of(tuple(mixed))) <= LONGEST:
            return tuple(mixed)


def semantic_coupling(rng: np.random.Generator) -> Segments:
    """A date or a time, alone or beside a word."""
    mark = Literal(":-./_"[int(rng.integers(5))])
    forms: tuple[Segments, ...] = (
        (Bounded("00-23"), mark, Bounded("00-59")),
        (Bounded("01-12"), mark, Bounded("01-31")),
        (Bounded("01-31"), mark, Bounded("01-12")),
        (Run("digits", 4, 4), mark, Bounded("01-12")),
        (Bounded("01-12"), mark, Run("digits", 4, 4)),
    )
    form = forms[int(rng.integers(len(forms)))]
    words: list[Segment] = []
    while not words:
        words = [own for own in draw_segments(rng, "short") if isinstance(own, Literal) and own.text.isalpha()]
    word = words[0]
    return (form, (*form, word), (word, *form))[int(rng.integers(3))]


def surface_form(rng: np.random.Generator) -> Segments:
    """A drawn pattern."""
    return _drawn(rng)


KINDS = {own.__name__: own for own in (operator, composition, semantic_coupling, surface_form)}


def recognition(segments: Segments, rng: np.random.Generator) -> Posed:
    """The family's own item."""
    return regex_recognition.pose(segments, rng)


def synthesis(segments: Segments, rng: np.random.Generator) -> Posed:
    """The family's own item."""
    return regex_synthesis.pose(segments, rng)


def explanation(segments: Segments, rng: np.random.Generator) -> Posed:
    """The family's own item."""
    return regex_explanation.pose(segments)


def debugging(segments: Segments, rng: np.random.Generator) -> Posed | None:
    """The family's own item; None where the broken pattern is no good."""
    changed = broken(segments, rng)
    return regex_debugging.pose(segments, changed, rng) if _whole(changed) else None


def refactoring(segments: Segments, rng: np.random.Generator) -> Posed:
    """The family's own item; one or two parts are written longer."""
    longer = [f"(?:{segment.pattern()})" for segment in segments]
    chosen = set(rng.choice(len(segments), size=2, replace=False).tolist())
    original = "".join([longer[at] if at in chosen else own.pattern() for at, own in enumerate(segments)])
    return regex_refactoring.pose(segments, original, rng)


def mutation_effect(segments: Segments, rng: np.random.Generator) -> Posed | None:
    """The family's own item; None where no part can be loosened, it makes no difference, or a string is empty."""
    changed = loosened(segments, rng)
    posed = None if changed is None or not _whole(changed) else regex_mutation_effect.pose(segments, changed, rng)
    return None if posed is None or "" in posed[1]["strings"] else posed


FAMILIES = {own.__name__: own for own in (recognition, synthesis, explanation, debugging, refactoring, mutation_effect)}
OTHER_WORDS = {
    "recognition": ("Is '{test_string}' matched by {pattern}?", "Yes or no: {pattern} matches '{test_string}'."),
    "synthesis": ("A regex that matches: {words}", "Give the pattern of: {words}"),
    "explanation": ("Say in words, like 1 or more digits, 'x': {pattern}", "What is {pattern} in words?"),
    "debugging": ("{broken_pattern} should match: {words}", "Mend {broken_pattern} to match: {words}"),
    "refactoring": ("Make the regex shorter: {original_pattern}", "Simplify {original_pattern}"),
    "mutation_effect": (
        "Matched by {mutated_pattern} and not by {pattern}: {strings}",
        "{pattern} became {mutated_pattern}. Which match only now: {strings}",
    ),
}  # fmt: skip


def rows() -> Iterator[dict[str, Any]]:
    """The rows of the file."""
    taken: set[str] = set()
    for kind, draw in KINDS.items():
        for name, pose in FAMILIES.items():
            rng = stream(0, 0, 0, "holdouts", kind, name)
            made = 0
            while made < EACH:
                segments = draw(rng)
                posed = pose(segments, rng)
                if posed is None:
                    continue
                prompt, target = posed
                if kind == "surface_form":
                    told = target | {"words": words_of(segments), "strings": ", ".join(target.get("strings", []))}
                    prompt = OTHER_WORDS[name][made % 2].format(**told)
                if canonical(prompt) in taken or len(prompt) > LONGEST_PROMPT:
                    continue
                taken.add(canonical(prompt))
                made += 1
                yield {
                    "task_id": f"{kind}.{name}.{made}",
                    "prompt": prompt,
                    "target": target,
                    "family": f"regex.{name}",
                    "depth": "short" if len(segments) < 4 else "medium" if len(segments) == 4 else "long",
                    "holdout_type": kind,
                }


def _drawn(rng: np.random.Generator) -> Segments:
    return draw_segments(rng, "short" if rng.random() < 0.5 else "medium")


def _kind(segment: Segment) -> str:
    return segment.kind if isinstance(segment, Run) else "digits"


def _stands_apart(left: Segment, right: Segment) -> bool:
    """Whether a reader can tell where one part ends: a mark is between, or they are of unlike kinds."""
    if isinstance(left, Run) and isinstance(right, Run):
        return False
    return isinstance(left, Run) or isinstance(right, Run)


def _whole(segments: Segments) -> bool:
    """Whether no part says something else than it means: an `AtLeast` has no upper end."""
    return all(not isinstance(segment, AtLeast) or segment.high is None for segment in segments)


if __name__ == "__main__":
    for row in rows():
        print(json.dumps(row))
