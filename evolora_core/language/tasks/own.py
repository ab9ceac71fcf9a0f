"""Tasks of a user as families: what defines one, how it is kept beside its items, and how a family is made of it."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.engine.identity import refuse_changed
from evolora_core.engine.strict import Strict
from evolora_core.errors import ConfigError, DataError
from evolora_core.language.families.base import Family, Grade, Item
from evolora_core.language.families.registry import enter, get
from evolora_core.language.tasks.base import Verifier
from evolora_core.language.tasks.pools import Pool, files_of, read_pool, read_pools
from evolora_core.language.tasks.python_file import digest_of, load_family
from evolora_core.language.tasks.settings import TaskConfig
from evolora_core.language.tasks.verifiers import AnyVerifier

FILE = "tasks.json"  # beside the items
LONGEST_FILE = 200_000  # characters of a Python file


class Definition(Strict):
    """What grades a task: a verifier, or the text of a Python file. labelled: whether every item has a right answer;
    digest: of the rows, or of items that the file draws.
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
        family = load_family(task.name, source, task.file)
        return Definition(name=task.name, depths=list(family.depths), source=source, digest=digest_of(family))
    pool, verifier = read_pool(task), task.verifier
    assert verifier is not None
    labelled = all(verifier.has_gold(item.target) for items in pool.parts.values() for item in items)
    return Definition(
        name=task.name, depths=list(pool.depths), labelled=labelled, verifier=verifier, digest=pool.digest
    )


def family_of(own: Definition) -> Family:
    """The family of a definition."""
    if own.source is not None:
        return load_family(own.name, own.source)
    verifier = own.verifier
    assert verifier is not None

    def verify(item: Item, answer: str) -> Grade:
        return verifier.verify(item.target, answer)

    functions = (_no_draw, verifier.gold, verify, _no_solver, verifier.complaint)
    return Family(own.name, tuple(own.depths), *functions, rows=True)


def enter_tasks(tasks: Iterable[TaskConfig]) -> set[str]:
    """Make the tasks of a suite known as families; returns the names of those that have items without a right answer.
    ConfigError as in `define`.
    """
    definitions = [define(task) for task in tasks]
    enter(map(family_of, definitions))
    return {own.name for own in definitions if not own.labelled}


def refuse_changed_tasks(tasks: Iterable[TaskConfig]) -> None:
    """StageError where the rows or the file of a task were written since the flow began: other seeds have the old."""
    for task in tasks:
        for file in files_of(task.local) if task.file is None else [Path(task.file)]:
            refuse_changed(file, "file")


def pools_of(tasks: Sequence[TaskConfig], definitions: Sequence[Definition]) -> dict[str, Pool]:
    """The rows of the tasks that have some, by name. DataError where they are not those that were defined."""
    digests = {own.name: own.digest for own in definitions}
    pools = read_pools(tasks)
    for name, pool in pools.items():
        if pool.digest != digests[name]:
            raise DataError(f"tasks.{name}: its rows have changed since the suite was started; start it again")
    return pools


def write_definitions(folder: Path, definitions: Sequence[Definition]) -> None:
    """Keep definitions beside the items of a folder; nothing is written where there are none."""
    if definitions:
        rows = [own.model_dump(mode="json", by_alias=True) for own in definitions]
        (folder / FILE).write_text(json.dumps(rows), encoding="utf-8")


def read_definitions(folder: Path) -> list[Definition]:
    """The definitions that lie in a folder; none where the items are of no task of a user."""
    try:
        rows = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    return [Definition.model_validate(row) for row in rows]


def gold_of(item: Item, verifier: Verifier | None) -> str | None:
    """The right answer to an item as text; None where there is none, as where a row says only what one looks like (its
    own pattern, say). verifier: that of a row of a user.
    """
    answered = item.target is not None if verifier is None else verifier.has_gold(item.target)
    return get(item.family).gold(item) if answered else None


def enter_beside(folder: Path) -> None:
    """Make the tasks known whose definitions lie in a folder, if any do."""
    enter(map(family_of, read_definitions(folder)))


def _text(task: TaskConfig) -> str:
    assert task.file is not None
    try:
        source = Path(task.file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(
            f"tasks.{task.name}.file: {task.file}: cannot be read ({error.strerror}); paths are relative to the folder "
            "that evolora is called in"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"tasks.{task.name}.file: {task.file}: is no text in UTF-8; save it so") from None
    if len(source) > LONGEST_FILE:
        raise ConfigError(
            f"tasks.{task.name}.file: {task.file} has more than {LONGEST_FILE} characters; let it read its data from "
            "another file"
        )
    return source


def _no_draw(rng: np.random.Generator, depth: str) -> tuple[str, Any]:
    raise NotImplementedError("rows are taken from a pool")


def _no_solver(prompt: str) -> str:
    raise NotImplementedError("rows have no solver")
