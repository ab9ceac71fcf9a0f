"""Sandboxes that start once for a module of tests: a start imports torch and its compiler, four seconds of a core."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from evolora_core.sandbox.run import Sandbox
from evolora_core.searches.attention import panel
from evolora_core.searches.attention.commands import check


@contextmanager
def kept_sandboxes(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whoever closes a sandbox inside leaves it to the next one who asks for the same."""
    made: list[Sandbox] = []
    idle: list[Sandbox] = []

    class Kept(Sandbox):
        def close(self) -> None:
            if self not in idle:
                idle.append(self)

    def taken(preload: Sequence[str] = ("torch",), *, confined: bool = True) -> Sandbox:
        fresh = Kept(preload, confined=confined)  # refuses where nobody can be confined; not started yet
        for own in idle:
            if own._settings == fresh._settings:
                idle.remove(own)
                return own
        made.append(fresh)
        return fresh

    for module in (panel, check):
        patch.setattr(module, "Sandbox", taken)
    try:
        yield
    finally:
        for own in made:
            Sandbox.close(own)
