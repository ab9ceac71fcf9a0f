"""Sandboxes that wait for the next test that wants one: a start imports torch and its compiler, which takes seconds."""

import atexit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from evolora_core.sandbox.run import Sandbox
from evolora_core.searches.attention import panel
from evolora_core.searches.attention.commands import check

MOST = 3  # that wait, in each process of the tests

_made: list[Sandbox] = []
_idle: list[Sandbox] = []


class _Kept(Sandbox):
    def close(self) -> None:
        """Wait for the next one, if few do."""
        if self not in _idle and len(_idle) < MOST:
            _idle.append(self)
        elif self not in _idle:
            super().close()


def _taken(preload: Sequence[str] = ("torch",), *, confined: bool = True) -> Sandbox:
    fresh = _Kept(preload, confined=confined)  # refuses where nobody can be confined; not started yet
    for own in _idle:
        if own._settings == fresh._settings:
            _idle.remove(own)
            return own
    _made.append(fresh)
    return fresh


@atexit.register
def _end() -> None:
    for own in _made:
        Sandbox.close(own)


@contextmanager
def kept_sandboxes(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever closes a sandbox inside leaves it to the next one who asks for the same."""
    for module in (panel, check):
        patch.setattr(module, "Sandbox", _taken)
    yield
