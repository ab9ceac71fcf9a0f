"""The page of all keys is that of the code, and every key is described."""

import json
import runpy
from pathlib import Path
from typing import Any

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
        assert own.default or not own.values, own.key


LEAST: dict[str, dict[str, Any]] = {  # of each search the keys without which there is no suite
    "adapters": {
        "data": {f"{split}_families": ["math"] for split in ("train", "ood", "retention")},
        "evaluation": {"comparisons": []},
    },
    "merging": {
        "domains": {name: {"families": ["math"]} for name in ("sums", "series")},
        "evaluation": {"comparisons": [{"a": "uniform", "b": "base"}]},
    },
    "attention": {"conditions": ["mha", "rope"]},
}


@pytest.mark.parametrize("search", LEAST)
def test_defaults_are_those_that_a_suite_gets(search: str) -> None:
    model = get_search(search).experiment
    suite = model.model_validate({"name": "least", **LEAST[search]}).model_dump(mode="json")
    compared = 0
    for own in describe(model):
        value: Any = suite
        for part in own.key.split("."):
            value = value[part] if isinstance(value, dict) and part in value else ...
        if own.values and own.default != "required" and value is not ...:
            assert (own.default if isinstance(value, str) else json.loads(own.default)) == value, own.key
            compared += 1
    assert compared > 30
