"""The section of a suite that brings tasks of a user."""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Strict, repeated
from evolora_core.foreign.nearest import nearest
from evolora_core.language.families.names import ALIASES, MODULES
from evolora_core.language.tasks.columns import Template, columns_of
from evolora_core.language.tasks.verifiers import AnyVerifier

Part = Literal["train", "selection", "holdout"]
NAME = re.compile(r"^[a-z][a-z0-9_]*([.-][a-z0-9_]+)*$")
LONGEST_NAME = 60
Name = Annotated[str, Field(pattern=NAME, max_length=LONGEST_NAME)]
Column = Annotated[str, Field(min_length=1, max_length=200)]


class TaskConfig(Strict):
    """A family of your own: rows of a data set with a verifier, or a Python file with a FAMILY."""

    name: Name = Field(description="name of the family where a suite names families, and in every table")
    file: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="Python file with a FAMILY, as docs/extending.md shows; relative to where evolora is called",
    )
    data: str | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="what `datasets` reads: a file (.jsonl, .csv, .parquet) or a folder, relative to where evolora is "
        "called, or the id of a set of the hub",
    )
    subset: str | None = Field(None, max_length=200, description="configuration of the data set, where it has several")
    splits: dict[Part, str] | None = Field(
        None,
        min_length=1,
        description="which split of the data set each part is made of; none: all rows are one pool, cut by prompt",
    )
    prompt: Template = Field(
        "prompt", description="column of the prompt, or a template of columns: `{title}: {question}`"
    )
    answer: Column | None = Field(
        "answer", description="column of the right answer; null: there is none, and the verifier needs none"
    )
    depth: Column | None = Field(None, description="column that says how hard a row is; none: all rows are alike")
    where: dict[Column, str] | None = Field(
        None, min_length=1, json_schema_extra=LATER, description="only rows whose columns have these values"
    )
    family: Column | None = Field(
        None,
        json_schema_extra=LATER,
        description="column that tells several families apart: value `x` of the task `mine` is the family `mine.x`",
    )
    verifier: AnyVerifier | None = Field(None, description="how an answer is graded, with its settings")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.name in MODULES or self.name in ALIASES:
            raise ValueError(f"name: {self.name} is a family of this project; choose another name")
        if (self.file is None) == (self.data is None):
            raise ValueError(f"{self.name}: give either `data` with a `verifier`, or a `file`")
        if self.file is not None:
            fields = type(self).model_fields
            given = [key for key in fields if key not in ("name", "file") and getattr(self, key) != fields[key].default]
            if given:
                raise ValueError(f"{self.name}: {given[0]} says something of rows, and the task is a file")
            return self
        if self.verifier is None:
            raise ValueError(f"{self.name}: how are answers graded? add `verifier: {{kind: exact}}`, or another kind")
        if self.answer is None and self.verifier.labelled:
            raise ValueError(f"{self.name}: the verifier {self.verifier.kind} needs answers; name their column")
        # Words that are asked for, and a pattern to be fit, may stand in the prompt; an answer to be copied may not.
        if self.answer in columns_of(self.prompt) and self.verifier.kind not in ("contains-all", "regex"):
            raise ValueError(
                f"{self.name}: the prompt shows {self.answer!r}, the column of the right answer; take it out"
            )
        if (twice := repeated(list((self.splits or {}).values()))) is not None:
            raise ValueError(
                f"{self.name}: splits: {twice} is named for two parts, which may share no row; without `splits` rows "
                "are cut by their prompts"
            )
        if self.family is not None and self.family in (self.where or {}):
            raise ValueError(f"{self.name}: column {self.family!r} is in `where` and in `family`; keep one")
        return self

    def families(self, used: Iterable[str]) -> "list[TaskConfig]":
        """This task; where a column tells families apart, one task for each of them that is in `used`."""
        if self.family is None:
            return [self]
        values = sorted({name.removeprefix(f"{self.name}.") for name in used if name.startswith(f"{self.name}.")})
        return [
            self.model_copy(
                update={
                    "name": f"{self.name}.{value}",
                    "family": None,
                    "where": {**(self.where or {}), self.family: value},
                }
            )
            for value in values
        ]

    @property
    def local(self) -> Path | None:
        """The file or folder of the data, where it is one."""
        path = Path(self.data or "")
        return path if self.data and path.exists() else None


def own_families(tasks: Iterable[TaskConfig], used: Collection[str]) -> list[TaskConfig]:
    """The tasks of a suite whose families are `used`, one for each family."""
    return [own for task in tasks for own in task.families(used)]


def check_named(tasks: Sequence[TaskConfig], used: Collection[str], place: str) -> None:
    """Refuse, by a ValueError, tasks that are not `used`, and names that stand twice. place: where a suite names its
    families, in words.
    """
    for task in tasks:
        if task.family is not None and not task.families(used):
            raise ValueError(
                f"tasks: no {place} names a family of {task.name!r}, such as {task.name}.VALUE with a value of its "
                f"column {task.family!r}; add some there, or take it out here"
            )
        for own in task.families(used):
            if not NAME.match(own.name) or len(own.name) > LONGEST_NAME:
                raise ValueError(
                    f"tasks: {own.name!r} cannot be the name of a family: at most {LONGEST_NAME} lower-case letters, "
                    f"digits, '_', '-' and '.'; write the values of column {task.family!r} that way, in a copy of the "
                    "rows"
                )
    names = [task.name for task in own_families(tasks, used)]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ValueError(f"tasks: {name!r} stands twice; give one another name")
        if name not in used:
            near = nearest(name, sorted({*used} - {*MODULES, *ALIASES, *names}))
            mend = f", but one has {near!r}; write both alike" if near else "; add it there, or take it out here"
            raise ValueError(f"tasks: no {place} names {name!r}{mend}")
