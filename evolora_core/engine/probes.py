"""Places in the product that somebody may watch from outside: a benchmark that measures or breaks it, a test.

The product says where it is, by `reached` and `span`; nothing listens unless `probe` or `watch` was asked to. What
listens is no part of a stage's identity, and may raise: that is how faults are tried.

Places that are reached: `generation` (number) as it begins; `update` (population, batch) before a step of learning;
`cache` (rows), `training pass` (tokens) and `examples` (rows, inputs: of SFT) where memory is about to be taken;
`prompts` (ids) and `answers` (ids) of GRPO, as they are encoded and sampled; `committed` (generation, folder) when a
checkpoint stands. Spans: `generate`, `grade`, `learn`, `merge`, `record`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

_probes: dict[str, list[Callable[..., None]]] = {}
_watches: list[Callable[[str], AbstractContextManager[None]]] = []


@contextmanager
def probe(place: str, action: Callable[..., None]) -> Iterator[None]:
    """Call `action` with what is known there, by name, whenever the place is reached."""
    _probes.setdefault(place, []).append(action)
    try:
        yield
    finally:
        _probes[place].remove(action)


@contextmanager
def watch(around: Callable[[str], AbstractContextManager[None]]) -> Iterator[None]:
    """Enter `around(name)` for every span."""
    _watches.append(around)
    try:
        yield
    finally:
        _watches.remove(around)


def reached(place: str, **known: Any) -> None:
    """The product is at a place."""
    for action in tuple(_probes.get(place, ())):
        action(**known)


@contextmanager
def span(name: str) -> Iterator[None]:
    """The product does what `name` says."""
    with ExitStack() as stack:
        for around in _watches:
            stack.enter_context(around(name))
        yield
