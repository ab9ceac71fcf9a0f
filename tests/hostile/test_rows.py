"""Rows of holdout files, and answers graded by them."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confinement import confined
from hostile.conftest import accepted_or_refused, tried
from hostile.values import ANY, WORDS, as_json, garbled, spoilt
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.language.datasets import read_items, write_items
from evolora_core.language.families.canonical import canonical
from evolora_core.language.families.registry import gold, grade
from evolora_core.language.holdouts import read_holdout
from evolora_core.language.tasks.code_verifier import Code

DATA = Path(__file__).parents[1] / "data"
GOOD = [
    json.loads(line)
    for name in ("holdout_grid.jsonl", "holdout_regex.jsonl")
    for line in (DATA / name).read_text(encoding="utf-8").splitlines()
    if line.strip()
]
TARGETS = st.one_of(
    ANY, st.sampled_from(["1e999999999", "9" * 5000, "-1e-99999", "1_0", "١٢", " ", "0x10", "1e1500", 10**999, 1e300])
)
ROWS = st.one_of(
    st.sampled_from(GOOD).flatmap(spoilt).map(as_json),
    st.sampled_from(GOOD).flatmap(lambda row: TARGETS.map(lambda target: as_json(row | {"target": target}))),
    st.sampled_from(GOOD).flatmap(lambda row: garbled(as_json(row), '[]{}":,\\ue0-9 ')),
    st.sampled_from(
        ["[" * 100_000, '{"a":' * 2000, '{"prompt": ' + "9" * 5000 + "}", "1e999", "NaN", "null", '"\\ud800"']
    ),
)
CODE = {"tests": "assert add(1, 2) == 3", "answer": "def add(a, b): return a + b"}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return tmp_path_factory.mktemp("rows") / "rows.jsonl"


def test_rows_that_are_not_spoilt_are_taken(file: Any) -> None:
    file.write_text("\n".join(map(as_json, GOOD)), encoding="utf-8")
    assert len(accepted_or_refused(lambda: read_holdout(file))) == len(GOOD) > 10


@tried
@given(
    rows=st.lists(ROWS, min_size=1, max_size=3),
    answer=st.one_of(WORDS, st.text(max_size=40), st.sampled_from(GOOD).map(str)),
)
def test_holdout_rows(file: Any, rows: Any, answer: Any) -> None:
    file.write_bytes("\n".join(rows).encode("utf-8", "surrogatepass"))
    items = accepted_or_refused(lambda: read_holdout(file))
    for item in items or ():
        assert 0 <= grade(item, answer).score <= 1
        answered = accepted_or_refused(partial(gold, item))  # a row for evaluation only has none
        assert answered is None or isinstance(answered, str)
        canonical(item.prompt)
    if items:
        write_items(file, items)
        assert read_items(file) == items


@confined
@tried
@given(
    target=st.one_of(spoilt(CODE), garbled(CODE["tests"], "()[]{}:='\n\\ ").map(lambda tests: CODE | {"tests": tests})),
    answer=st.one_of(WORDS, st.text(max_size=40), garbled(CODE["answer"], "()[]{}:='\n\\ ")),
)
def test_code_rows(target: Any, answer: Any) -> None:
    verifier = Code(kind="code", seconds=1.0)
    if verifier.complaint(target) is None:
        assert verifier.verify(target, answer).score in (0, 1)
        assert verifier.has_gold(target) == bool(verifier.gold(target))
