"""The page of all keys is that of the code, and every key is described."""

import runpy
from pathlib import Path

import pytest

from evolora_core.engine.described import describe
from evolora_core.searches.registry import get_search

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_up_to_date() -> None:
    made = runpy.run_path(str(DOCS / "settings.py"))["page"]()
    assert (DOCS / "settings.md").read_text(encoding="utf-8") == made, (
        "run `python docs/settings.py > docs/settings.md`"
    )


@pytest.mark.parametrize("search", ["adapters", "merging", "attention"])
def test_every_key_says_what_it_does_and_takes(search: str) -> None:
    keys = describe(get_search(search).experiment)
    assert len({own.key for own in keys}) > 60
    assert not [own.key for own in keys if not own.description or "anything" in own.values]
    sections = {own.key for own in keys if not own.values}
    for own in keys:
        above = own.key.rpartition(".")[0]
        assert not above or above.removesuffix(".NAME").removesuffix("[]") in sections, own.key
        assert bool(own.values) == bool(own.default), own.key
