"""A family of a user in a Python file: loaded, examined before a run, and guarded in it."""

import json
import logging
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import blake2b
from types import ModuleType
from typing import Any

from evolora_core.engine.rng import stream
from evolora_core.errors import ConfigError
from evolora_core.foreign.overdue import within
from evolora_core.foreign.text import one_line, one_value
from evolora_core.language.families.base import DEPTHS, Family, Grade, Item
from evolora_core.language.families.matching import TIMEOUT

log = logging.getLogger(__name__)

Verify = Callable[[Item, str], Grade]
LONGEST_LOAD = 60.0  # seconds of the processor in which it is loaded
LONGEST_CALL = 2.0  # seconds of the processor for one call of a user's function
AUDITED = 40  # items of each depth that a family is examined with
ODD = ("!!", "a longer answer\nof two lines, to no question", "-1")  # answers that a verifier has to grade too
FAILURES = (Exception, SystemExit)  # `sys.exit` of a user's file is no end of ours
REFUSED = 0.5  # share of other items' answers that a verifier has to refuse at least: some are right by chance


@lru_cache(maxsize=64)
def load_family(name: str, source: str, file: str = "") -> Family:
    """The FAMILY of a Python file, examined. It is code of the user's, and runs as that. `file`: where it was read, for
    errors.
    """
    place = f"tasks.{name}.file: {file}" if file else f"tasks.{name}.file"
    module = ModuleType(f"own_task_{blake2b(source.encode(), digest_size=8).hexdigest()}")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    try:
        code = compile(source, f"<tasks.{name}>", "exec")
        within(LONGEST_LOAD, exec, code, module.__dict__)
    except FAILURES as error:
        raise ConfigError(f"{place}{_line(error)}: fails to load ({_words(error)}); mend it there") from error
    family = module.__dict__.get("FAMILY")
    if not isinstance(family, Family):
        raise ConfigError(f"{place}: has no FAMILY of the class Family; docs/extending.md shows one")
    if family.name != name:
        raise ConfigError(f"{place}: its FAMILY is called {family.name!r}, and the task {name!r}; call both the same")
    if isinstance(family.depths, str) or not family.depths or not set(family.depths) <= set(DEPTHS):
        raise ConfigError(f"{place}: `depths` is a tuple of some of {', '.join(DEPTHS)}, such as ('short',)")
    family = replace(family, depths=tuple(family.depths), verify=_checked(family.verify))
    audit(family, place)
    return replace(
        family,
        draw=partial(_called, place, "draw", family.draw),
        solution=partial(_said, place, "solution", family.solution),
        complaint=partial(_called, place, "complaint", family.complaint),
        verify=_guarded(family.verify, name),
    )


def _checked(verify: Verify) -> Verify:
    """The verifier of a user, which may return anything."""

    def checked(item: Item, answer: str) -> Grade:
        grade: object = verify(item, answer)
        if not isinstance(grade, Grade):
            raise TypeError(f"`verify` returns {type(grade).__name__}; return a Grade for every answer")
        score = float(grade.score)  # numbers and truth values may be numpy's
        if not 0.0 <= score <= 1.0:
            raise ValueError(f"`verify` gives the score {score:g}; scores are from 0 to 1")
        return Grade(score, bool(grade.correct), str(grade.reason))

    return checked


def _guarded(verify: Verify, name: str) -> Verify:
    """A verifier that fails or hangs refuses the answer, with the reason, and the run goes on. Each kind of failure is
    told once in a process: many would look like a host that knows nothing.
    """
    told: set[type[BaseException]] = set()

    def guarded(item: Item, answer: str) -> Grade:
        try:
            return within(LONGEST_CALL, verify, item, answer)
        except FAILURES as error:
            if type(error) not in told:
                told.add(type(error))
                log.warning("task %s: `verify` fails (%s); such answers count as wrong", name, _words(error))
            late = isinstance(error, TimeoutError)
            return TIMEOUT if late else Grade(0.0, False, f"verifier failed: {_words(error)}")

    return guarded


def audit(family: Family, place: str) -> None:
    """Examine a family on drawn items: its solver finds the answers, its verifier takes right ones and refuses others'.

    ConfigError says what failed, with the prompt.
    """
    for depth in family.depths:
        items = _drawn(family, depth, place)
        if [item.prompt for item in items] != [item.prompt for item in _drawn(family, depth, place)]:
            raise ConfigError(f"{place}: `draw` gives other items a second time (depth {depth}); draw by `rng` alone")
        answers = [_said(place, "solution", family.gold, item) for item in items]
        for item, gold in zip(items, answers, strict=True):
            shown = f"the prompt {item.prompt[:60]!r} (depth {depth})"
            if not _kept(item.target):
                raise ConfigError(
                    f"{place}: `draw` gives the target {one_value(item.target, 40)}, which is another one when it is "
                    f"read back from JSON, to {shown}; make it of text, Python's own numbers, lists, and dicts with "
                    "text as keys"
                )
            if complaint := _called(place, "complaint", family.complaint, item.target):
                raise ConfigError(f"{place}: `complaint` refuses the target of {shown}: {complaint}")
            if not _called(place, "verify", family.grade, item, gold).correct:
                raise ConfigError(f"{place}: `verify` refuses the right answer {gold[:40]!r} to {shown}")
            for odd in ODD:
                _called(place, "verify", family.grade, item, odd)
            solved = _said(place, "solve", family.solve, item.prompt)
            if not _called(place, "verify", family.grade, item, solved).correct:
                raise ConfigError(f"{place}: `solve` says {solved[:40]!r} and `solution` {gold[:40]!r} to {shown}")
        pairs = [(item, gold) for item in items for gold in answers if gold != family.gold(item)]
        taken = sum(_called(place, "verify", family.grade, item, gold).correct for item, gold in pairs)
        if pairs and taken > (1 - REFUSED) * len(pairs):
            raise ConfigError(f"{place}: `verify` takes {taken} of {len(pairs)} answers to other items (depth {depth})")
        if len({item.prompt for item in items}) < AUDITED // 2:
            raise ConfigError(f"{place}: depth {depth} has hardly any different items; draw more, or leave it out")


@lru_cache(maxsize=64)
def digest_of(family: Family) -> str:
    """Hash of the prompts that a family was examined with, and of their answers. These also depend on files that the
    family's own file reads, which its text does not show.
    """
    drawn = [[item.prompt, family.gold(item)] for depth in family.depths for item in _drawn(family, depth)]
    return blake2b(json.dumps(drawn).encode(), digest_size=8).hexdigest()


def _drawn(family: Family, depth: str, place: str | None = None) -> list[Item]:
    """The items that a family is examined with; `place` for errors of one whose `draw` is not guarded yet."""
    rng = stream(0, 0, 0, "audit", family.name, depth)
    make = family.make if place is None else partial(_called, place, "draw", family.make)
    return [make(rng, depth) for _ in range(AUDITED)]


def _kept(target: Any) -> bool:
    """Whether a target is the same when a run reads it back from its items' file: JSON makes lists of tuples."""
    try:
        return bool(json.loads(json.dumps(target)) == target)
    except (TypeError, ValueError, RecursionError):
        return False


def _said(place: str, name: str, function: Any, given: Any) -> str:
    """The text that a function of a user gives as an answer."""
    text = _called(place, name, function, given)
    if not isinstance(text, str):
        raise ConfigError(f"{place}: `{name}` gives {type(text).__name__}; return the answer as text, such as str(…)")
    return text


def _called(place: str, name: str, function: Any, *given: Any) -> Any:
    try:
        return within(LONGEST_CALL, function, *given)
    except FAILURES as error:
        raise ConfigError(f"{place}: `{name}` fails ({_words(error)})") from error


def _line(error: BaseException) -> str:
    """Where in the file an error arose, as far as it is known: `:12`."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    numbers = [frame.lineno for frame in frames if frame.filename.startswith("<tasks.")]
    return f":{numbers[-1]}" if numbers else ""


def _words(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {one_line(text, 160)}"
