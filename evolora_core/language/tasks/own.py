"""Tasks of a user as families: what defines one, how it is kept beside its items, and how a family is made of it."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.engine.strict import Strict
from evolora_core.errors import ConfigError, DataError
from evolora_core.foreign.overdue import within
from evolora_core.language.families.base import Family, Grade, Item
from evolora_core.language.families.matching import TIMEOUT
from evolora_core.language.families.registry import enter
from evolora_core.language.tasks.pools import Pool, read_pool
from evolora_core.language.tasks.settings import TaskConfig
from evolora_core.language.tasks.verifiers import AnyVerifier

Verify = Callable[[Item, str], Grade]
FILE = "tasks.json"  # beside the items
LONGEST_FILE = 200_000  # characters of a Python file
LONGEST_LOAD = 60.0  # seconds in which it is loaded
LONGEST_CALL = 2.0  # seconds of one call of a user's function
AUDITED = 40  # items of each depth that a family is examined with
REFUSED = 0.5  # share of other items' answers that a verifier has to refuse at least: some are right by chance


class Definition(Strict):
    """What grades a task: a verifier, or the text of a Python file. labelled: whether every item has a right answer;
    digest: of the rows, where there are any.
    """

    name: str
    depths: list[str]
    labelled: bool = True
    verifier: AnyVerifier | None = None
    source: str | None = None
    digest: str = ""


def define(task: TaskConfig) -> Definition:
    """Read a task's rows or file. ConfigError where something is wrong with it."""
    if task.file is not None:
        source = _text(task)
        return Definition(name=task.name, depths=list(_loaded(task.name, source).depths), source=source)
    pool, verifier = read_pool(task), task.verifier
    assert verifier is not None
    labelled = all(verifier.has_gold(item.target) for items in pool.parts.values() for item in items)
    return Definition(
        name=task.name, depths=list(pool.depths), labelled=labelled, verifier=verifier, digest=pool.digest
    )


def family_of(own: Definition) -> Family:
    """The family of a definition."""
    if own.source is not None:
        return _loaded(own.name, own.source)
    verifier = own.verifier
    assert verifier is not None

    def verify(item: Item, answer: str) -> Grade:
        return verifier.verify(item.target, answer)

    return Family(own.name, tuple(own.depths), _no_draw, verifier.gold, verify, _no_solver, verifier.complaint)


def enter_tasks(tasks: Iterable[TaskConfig]) -> set[str]:
    """Make the tasks of a suite known as families; returns the names of those that have items without a right answer.
    ConfigError as in `define`.
    """
    definitions = [define(task) for task in tasks]
    enter(map(family_of, definitions))
    return {own.name for own in definitions if not own.labelled}


def pools_of(tasks: Sequence[TaskConfig], definitions: Sequence[Definition]) -> dict[str, Pool]:
    """The rows of the tasks that have some, by name. DataError where they are not those that were defined."""
    digests = {own.name: own.digest for own in definitions}
    pools = {task.name: read_pool(task) for task in tasks if task.data is not None}
    for name, pool in pools.items():
        if pool.digest != digests[name]:
            raise DataError(f"tasks.{name}: its rows have changed since the suite was started; start it again")
    return pools


def write_definitions(folder: Path, definitions: Sequence[Definition]) -> None:
    """Keep definitions beside the items of a folder; nothing is written where there are none."""
    if definitions:
        rows = [own.model_dump(mode="json", by_alias=True) for own in definitions]
        (folder / FILE).write_text(json.dumps(rows), encoding="utf-8")


def enter_beside(folder: Path) -> None:
    """Make the tasks known whose definitions lie in a folder, if any do."""
    try:
        rows = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return
    enter(family_of(Definition.model_validate(row)) for row in rows)


def _text(task: TaskConfig) -> str:
    assert task.file is not None
    try:
        source = Path(task.file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"tasks.{task.name}.file: {task.file}: cannot be read ({error})") from None
    if len(source) > LONGEST_FILE:
        raise ConfigError(f"tasks.{task.name}.file: {task.file} has more than {LONGEST_FILE} characters")
    return source


@lru_cache(maxsize=64)
def _loaded(name: str, source: str) -> Family:
    """The FAMILY of a Python file, examined. It is code of the user's, and runs as that."""
    module = ModuleType(f"own_task_{name.replace('.', '_').replace('-', '_')}")
    try:
        code = compile(source, f"{name}.py", "exec")
        within(LONGEST_LOAD, exec, code, module.__dict__)
    except Exception as error:
        raise ConfigError(f"tasks.{name}.file: fails to load ({_words(error)})") from error
    family = module.__dict__.get("FAMILY")
    if not isinstance(family, Family):
        raise ConfigError(f"tasks.{name}.file: has no FAMILY of the class Family; see docs/extending.md")
    if family.name != name:
        raise ConfigError(f"tasks.{name}.file: its FAMILY is called {family.name!r}; call both the same")
    audit(family)
    return replace(family, verify=_guarded(family.verify))


def _guarded(verify: Verify) -> Verify:
    """A verifier that fails or hangs refuses the answer, with the reason, and the run goes on."""

    def guarded(item: Item, answer: str) -> Grade:
        try:
            return within(LONGEST_CALL, verify, item, answer)
        except TimeoutError:
            return TIMEOUT
        except Exception as error:
            return Grade(0.0, False, f"verifier failed: {_words(error)}")

    return guarded


def audit(family: Family) -> None:
    """Examine a family on drawn items: its solver finds the answers, its verifier takes right ones and refuses others'.

    ConfigError says what failed, with the prompt.
    """
    place = f"tasks.{family.name}.file"
    for depth in family.depths:
        rng = stream(0, 0, 0, "audit", family.name, depth)
        items = [_called(place, "draw", family.make, rng, depth) for _ in range(AUDITED)]
        answers = [_called(place, "solution", family.gold, item) for item in items]
        for item, gold in zip(items, answers, strict=True):
            shown = f"the prompt {item.prompt[:60]!r} (depth {depth})"
            if complaint := _called(place, "complaint", family.complaint, item.target):
                raise ConfigError(f"{place}: `complaint` refuses the target of {shown}: {complaint}")
            if not _called(place, "verify", family.grade, item, gold).correct:
                raise ConfigError(f"{place}: `verify` refuses the right answer {gold[:40]!r} to {shown}")
            solved = _called(place, "solve", family.solve, item.prompt)
            if not _called(place, "verify", family.grade, item, solved).correct:
                raise ConfigError(f"{place}: `solve` says {solved[:40]!r} and `solution` {gold[:40]!r} to {shown}")
        pairs = [(item, gold) for item in items for gold in answers if gold != family.gold(item)]
        taken = sum(_called(place, "verify", family.grade, item, gold).correct for item, gold in pairs)
        if pairs and taken > (1 - REFUSED) * len(pairs):
            raise ConfigError(f"{place}: `verify` takes {taken} of {len(pairs)} answers to other items (depth {depth})")
        if len({item.prompt for item in items}) < AUDITED // 2:
            raise ConfigError(f"{place}: depth {depth} has hardly any different items; draw more, or leave it out")


def _called(place: str, name: str, function: Any, *given: Any) -> Any:
    try:
        return within(LONGEST_CALL, function, *given)
    except Exception as error:
        raise ConfigError(f"{place}: `{name}` fails ({_words(error)})") from error


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


def _no_draw(rng: np.random.Generator, depth: str) -> tuple[str, Any]:
    raise NotImplementedError("rows are taken from a pool")


def _no_solver(prompt: str) -> str:
    raise NotImplementedError("rows have no solver")
