"""The patterns of the regex families: a few segments one after another, each with its regex, its words and its strings.

Words: `3 digits, 'id', 2 to 4 capitals`: segments in order, separated by commas. A pattern has to match the whole of a
string.

short: two segments, or three with a separator between; medium: four; long: five, one of them a number between bounds.
Patterns have at most `LONGEST` characters.
"""

from dataclasses import dataclass

import numpy as np

LONGEST = 40

CLASSES = {
    "digits": (r"\d", "0123456789"),
    "small letters": ("[a-z]", "abcdefghijklmnopqrstuvwxyz"),
    "capitals": ("[A-Z]", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "hex digits": ("[0-9a-f]", "0123456789abcdef"),
}
BOUNDED = {
    "00-23": r"([01]\d|2[0-3])",
    "00-59": r"[0-5]\d",
    "01-12": r"(0[1-9]|1[0-2])",
    "01-31": r"(0[1-9]|[12]\d|3[01])",
}
SEPARATORS = ("-", ":", "/", "_", "@", "#", ".", "+")

_TEXT = (
    "all and arm art ask axe bag bar bed big bin bit box bus cab can cap car cat cod cow cup cut day dog dot dry "
    "ear egg elm end eye far fat fin fit fly fog fox fun gas gem gum hat hen hip hot hub hut ice ink jam jar jet "
    "joy key kid kit lab lap leg lid lip log low mad man map mat mix mud net new nod nut oak oar oil old one owl "
    "own pan paw pea pen pet pie pig pin pit pop pot ram rat raw red rib rod row rug run sad saw sea set shy sip "
    "six sky son sum sun tag tan tap tea ten tie tin tip toe ton top toy tub two van vet war wax web wet wig win "
    "wit yak yes zip zoo"
)
_WORDS = tuple(_TEXT.split())
_FIGURES = frozenset("0123456789")
_SPECIAL = frozenset(".^$*+?{}[]\\|()")


@dataclass(frozen=True)
class Run:
    """`low` to `high` characters of one class; `high` None means any number from one on."""

    kind: str
    low: int
    high: int | None

    def pattern(self) -> str:
        atom = CLASSES[self.kind][0]
        if self.high is None:
            return f"{atom}+"
        return f"{atom}{{{self.low}}}" if self.low == self.high else f"{atom}{{{self.low},{self.high}}}"

    def words(self) -> str:
        if self.high is None:
            return f"1 or more {self.kind}"
        return f"{self.low} {self.kind}" if self.low == self.high else f"{self.low} to {self.high} {self.kind}"

    def sample(self, rng: np.random.Generator) -> str:
        alphabet = CLASSES[self.kind][1]
        count = int(rng.integers(self.low, self.high or 4, endpoint=True))
        return "".join([alphabet[int(share * len(alphabet))] for share in rng.random(count).tolist()])

    def ends(self, text: str, start: int) -> list[int]:
        alphabet, at = CLASSES[self.kind][1], start
        while at < len(text) and text[at] in alphabet and (self.high is None or at < start + self.high):
            at += 1
        return list(range(start + self.low, at + 1))


@dataclass(frozen=True)
class Literal:
    """One text as it stands, or nothing too if `optional`."""

    text: str
    optional: bool = False

    def pattern(self) -> str:
        plain = escaped(self.text)
        if not self.optional:
            return plain
        return f"{plain}?" if len(self.text) == 1 else f"(?:{plain})?"

    def words(self) -> str:
        return f"optional '{self.text}'" if self.optional else f"'{self.text}'"

    def sample(self, rng: np.random.Generator) -> str:
        return "" if self.optional and rng.random() < 0.5 else self.text

    def ends(self, text: str, start: int) -> list[int]:
        here = [start + len(self.text)] if text.startswith(self.text, start) else []
        return [start, *here] if self.optional else here


@dataclass(frozen=True)
class Choice:
    """One of two texts."""

    first: str
    second: str

    def pattern(self) -> str:
        return f"({escaped(self.first)}|{escaped(self.second)})"

    def words(self) -> str:
        return f"'{self.first}' or '{self.second}'"

    def sample(self, rng: np.random.Generator) -> str:
        return self.first if rng.random() < 0.5 else self.second

    def ends(self, text: str, start: int) -> list[int]:
        return [start + len(word) for word in (self.first, self.second) if text.startswith(word, start)]


@dataclass(frozen=True)
class Bounded:
    """A number of two digits between bounds, such as `00-23`."""

    bounds: str

    def pattern(self) -> str:
        return BOUNDED[self.bounds]

    def words(self) -> str:
        return self.bounds

    def sample(self, rng: np.random.Generator) -> str:
        low, high = map(int, self.bounds.split("-"))
        return f"{int(rng.integers(low, high, endpoint=True)):02d}"

    def ends(self, text: str, start: int) -> list[int]:
        number, (low, high) = text[start : start + 2], self.bounds.split("-")
        return [start + 2] if len(number) == 2 and set(number) <= _FIGURES and low <= number <= high else []


Segment = Run | Literal | Choice | Bounded
Segments = tuple[Segment, ...]


def escaped(text: str) -> str:
    """`text` with a backslash before each character that a regex reads otherwise, and before no other."""
    return "".join([f"\\{character}" if character in _SPECIAL else character for character in text])


def pattern_of(segments: Segments) -> str:
    """The regex."""
    return "".join([segment.pattern() for segment in segments])


def words_of(segments: Segments) -> str:
    """The description."""
    return ", ".join([segment.words() for segment in segments])


def sample(segments: Segments, rng: np.random.Generator) -> str:
    """A string that the pattern matches, by construction."""
    return "".join([segment.sample(rng) for segment in segments])


def matches(segments: Segments, text: str) -> bool:
    """Whether the pattern matches all of `text`: by what the segments mean, without a regex engine."""
    starts = {0}
    for segment in segments:
        starts = {end for start in starts for end in segment.ends(text, start)}
    return len(text) in starts


def draw_segments(rng: np.random.Generator, depth: str) -> Segments:
    """A pattern of the depth."""
    while True:
        segments = _draw(rng, depth)
        if len(pattern_of(segments)) <= LONGEST:
            return segments


def _draw(rng: np.random.Generator, depth: str) -> Segments:
    if depth == "short":
        shape = rng.integers(4)
        if shape < 2:
            return (_run(rng), Literal(_pick(rng, SEPARATORS)), _run(rng))
        pair = (_run(rng), Literal(_pick(rng, _WORDS)))
        return pair if shape == 2 else pair[::-1]
    first = _run(rng)
    separator = Literal(_pick(rng, SEPARATORS), optional=rng.random() < 0.25)
    second = _run(rng)
    tail = Choice(*_two_words(rng)) if rng.random() < 0.5 else Literal(_pick(rng, _WORDS), optional=rng.random() < 0.5)
    if depth == "medium":
        return (first, separator, second, tail) if rng.random() < 0.5 else (tail, first, separator, second)
    number = Bounded(_pick(rng, tuple(BOUNDED)))
    return (number, separator, first, tail, second) if rng.random() < 0.5 else (first, tail, separator, number, second)


def _run(rng: np.random.Generator) -> Run:
    kind, form, low = _pick(rng, tuple(CLASSES)), rng.random(), int(rng.integers(2, 7))
    if form < 0.2:
        return Run(kind, 1, None)
    return Run(kind, low, low + int(rng.integers(1, 4))) if form < 0.5 else Run(kind, low, low)


def _two_words(rng: np.random.Generator) -> tuple[str, str]:
    first, second = rng.choice(len(_WORDS), size=2, replace=False).tolist()
    return _WORDS[first], _WORDS[second]


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
