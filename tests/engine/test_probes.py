"""What watches the product from outside hears of every place, and only while it is asked to."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from evolora_core.engine.probes import probe, reached, span, watch


def test_a_probe_hears_of_its_place_while_it_is_there() -> None:
    heard: list[int] = []
    with probe("generation", lambda number: heard.append(number)):
        reached("generation", number=1)
        reached("cache", rows=4)
    reached("generation", number=2)
    assert heard == [1]


def test_a_probe_may_stop_what_it_watches_and_is_gone_then() -> None:
    def stop(number: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), probe("generation", stop):
        reached("generation", number=0)
    reached("generation", number=0)


def test_a_watch_is_around_every_span() -> None:
    heard: list[str] = []

    @contextmanager
    def around(name: str) -> Iterator[None]:
        heard.append(f"{name} begins")
        yield
        heard.append(f"{name} ends")

    with watch(around), span("learn"), span("grade"):
        pass
    with span("merge"):
        pass
    assert heard == ["learn begins", "grade begins", "grade ends", "learn ends"]
