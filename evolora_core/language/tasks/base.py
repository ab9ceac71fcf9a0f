"""What a verifier is: a section of settings with functions that grade an answer against what a row gives.

A row's target is what its answers are graded against: for most verifiers the right answer itself. A row without one has
the target None; only verifiers that need none take it.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from evolora_core.engine.strict import Strict
from evolora_core.language.families.base import Grade


def spelled(value: Any) -> str:
    """A cell as text: booleans and numbers as JSON writes them, a gap as nothing."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | int | float) else str(value)


class Verifier(Strict):
    """What all have. labelled: whether it needs an answer in every row."""

    kind: str
    labelled: ClassVar[bool] = True

    def hindrance(self) -> str:
        """Why this machine cannot grade answers; "" if it can."""
        return ""

    def columns(self) -> Mapping[str, Sequence[str]]:
        """The columns that it reads beside that of the answer, by the setting that names them."""
        return {}

    def target(self, answer: Any, row: Mapping[str, Any]) -> Any:
        """What answers to a row are graded against, made of the row's answer and its other columns."""
        return answer

    def complaint(self, target: Any) -> str | None:
        """What is wrong with a target, or None."""
        return None if isinstance(target, str) and target.strip() else "must be text"

    def has_gold(self, target: Any) -> bool:
        """Whether a target is a right answer, and does not only say what one looks like."""
        return target is not None

    def gold(self, target: Any) -> str:
        """The right answer as text."""
        return str(target)

    def verify(self, target: Any, answer: str) -> Grade:
        """The grade of an answer that is not blank."""
        raise NotImplementedError
