"""Holdout files: both published forms, graded as they stand; a bad line is named with file, line and key."""

import json
from pathlib import Path
from typing import Any

import pytest

from evolora_core.errors import DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import gold, grade
from evolora_core.language.holdouts import read_holdout
from evolora_core.language.tasks.own import enter_tasks
from evolora_core.language.tasks.settings import TaskConfig

DATA = Path(__file__).parents[1] / "data"
GRID_ROW = {"prompt": "Add 1 and 2.", "target": 3, "family": "math", "depth": "short"}
REGEX_ROW = {"prompt": "Does it match?", "capability": "recognition", "expected_answer": "no", "test_cases": []}


def test_grid_form() -> None:
    items = read_holdout(DATA / "holdout_grid.jsonl")
    assert [item.task_id for item in items[:3]] == ["sum", "sum__2", "task_2"]
    assert {item.family for item in items} >= {"math", "string.sort", "regex.synthesis", "regex.mutation_effect"}
    for item in items:
        assert grade(item, gold(item)).correct, item
        assert not grade(item, "I do not know").correct
    answers = {
        "Divide": ("9 / 4 = 2.25", "2.5"),
        "Multiply": ("500,000", "500400"),
        "Put these letters": ("aacd", "daca"),
        "What comes after": ("135", "135.5"),
        "Old regex": ("7 and 412", "7, 70, 412"),
        "Make this": (r"[0-9]{2}", "(?:[0-9]{2})"),
    }
    for start, (right, wrong) in answers.items():
        item = next(item for item in items if item.prompt.startswith(start))
        assert grade(item, right).correct, (item, right)
        assert not grade(item, wrong).correct, (item, wrong)


@pytest.mark.parametrize(
    ("task_id", "right", "wrong"),
    [
        ("recog_hour", "No, there is no such hour.", "yes"),
        ("recog_ok", "Yes", "no"),
        ("synth_choice", "`gr[ae]y`", "gr.y"),
        ("debug_year", r"\d{4}", r"\d{3}"),
        ("refactor_class", r"\d\d", "[0-9][0-9]"),
        ("explain_hex", "One or more hex digits", "digits"),
        ("effect_range", "24, 25 and 26", "240, 25, 26"),
    ],
)
def test_regex_form(task_id: str, right: str, wrong: str) -> None:
    item = next(item for item in read_holdout(DATA / "holdout_regex.jsonl") if item.task_id == task_id)
    assert item.depth == "unspecified"
    assert grade(item, right).correct
    assert not grade(item, wrong).correct


SNIPPET = "def scale(xs, k):\n    if not xs:\n        return []\n\n    answer = [x * k for x in xs]\n    return answer"


@pytest.mark.parametrize(
    ("answer", "correct", "score"),
    [
        (SNIPPET, True, 1),
        (f"```python\n{SNIPPET}\n```", True, 1),
        (f"Here is the code:\n\n```\n\n{SNIPPET}\n\n```\nIt has four spaces per indent.", True, 1),
        (f"\n{SNIPPET}\n\n".replace("\n", " \r\n"), True, 1),  # blanks at ends of lines cannot be seen
        (f"```python\n{SNIPPET}", True, 1),  # cut off by the token cap, after the code
        (SNIPPET.replace("    ", "  "), False, 2 / 6),
        (SNIPPET.replace("\n\n", "\n"), False, 3 / 6),
        (f"```\n{SNIPPET}\n```\nor\n```\npass\n```", False, 0),  # the last block is the answer
        ("```\n\n```", False, 0),
        (" \n", False, 0),
    ],
)
def test_a_target_of_several_lines_is_graded_line_by_line(
    tmp_path: Path, answer: str, correct: bool, score: float
) -> None:
    file = tmp_path / "snippets.jsonl"
    prompt = "Format this function with four spaces per indent.\n```\ndef scale(xs,k):\n if not xs: …\n```\n"
    file.write_text(lines(GRID_ROW, GRID_ROW | {"prompt": prompt, "family": "code.format", "target": SNIPPET}))
    item = read_holdout(file)[1]
    assert grade(item, gold(item)).correct
    found = grade(item, answer)
    assert found.correct == correct and found.score == pytest.approx(score)


def test_a_target_of_one_line_with_blanks_is_code_too() -> None:
    item = Item("Normalise: `total=a+b`", "total = a + b", "code.format", "short", "")
    assert grade(item, "total = a + b").correct and grade(item, "`total = a + b`").correct
    assert not grade(item, "total=a+b").correct
    assert grade(Item("", " max_rank ", "code.format", "short", ""), "max_rank").correct


def test_the_own_label_wins(tmp_path: Path) -> None:
    file = tmp_path / "odd.jsonl"
    file.write_text(json.dumps(GRID_ROW | {"target": 4}) + "\n")
    assert grade(read_holdout(file)[0], "4").correct


def lines(*rows: Any) -> str:
    return "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)


def without(row: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != key}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{oops", "not valid JSON"),
        ('{"prompt": NaN}', "not valid JSON (NaN is no JSON number)"),
        ("[1]", "not a JSON object"),
        (without(GRID_ROW, "prompt"), "prompt: missing"),
        (GRID_ROW | {"prompt": 7}, "prompt: must be text, not 7"),
        (without(GRID_ROW, "target"), "target: missing"),
        (without(GRID_ROW, "family"), "family: missing"),
        (without(GRID_ROW, "depth"), "depth: missing"),
        (GRID_ROW | {"family": "mth"}, "family: unknown family 'mth': did you mean 'math'?"),
        (GRID_ROW | {"target": "many"}, "target: must be a number (family math)"),
        (GRID_ROW | {"target": True}, "target: must be a number"),
        (GRID_ROW | {"task_id": 3}, "task_id: must be text"),
        (GRID_ROW | {"family": "logic.bool"}, "target: must be true or false"),
        (GRID_ROW | {"family": "json_repair"}, "target: must be a list"),
        (GRID_ROW | {"family": "string.sort"}, "target: must be the letters"),
        (GRID_ROW | {"family": "code.format"}, "target: must be a name or code"),
        (GRID_ROW | {"family": "code.format", "target": " \n"}, "target: must be a name or code"),
        (GRID_ROW | {"family": "regex"}, "target: must be an object with pattern and test_strings"),
        (GRID_ROW | {"family": "regex", "target": {}}, "target: test_strings: must be a list"),
        (
            GRID_ROW | {"family": "regex.recognition", "target": {"expected": 3}},
            "target: expected: must be true or false",
        ),
        (REGEX_ROW | {"capability": "cooking"}, "capability: 'cooking' is none of recognition"),
        (REGEX_ROW | {"expected_answer": "perhaps"}, "expected_answer: must be true or false"),
        (REGEX_ROW | {"metadata": 3}, "metadata: must be an object"),
        (REGEX_ROW | {"capability": "synthesis"}, "test_cases: must be a list"),
        (REGEX_ROW | {"capability": "debugging", "test_cases": [{"string": "a"}]}, "test_cases[0]: must be an object"),
        (REGEX_ROW | {"capability": "explanation"}, "metadata.required_keywords: must be a list"),
        (
            REGEX_ROW
            | {"capability": "synthesis", "test_cases": [{"string": "a", "should_match": True}], "target_regex": 3},
            "target_regex: must be text",
        ),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, row: Any, message: str) -> None:
    file = tmp_path / "bad.jsonl"
    file.write_text(lines(GRID_ROW, "", row))
    with pytest.raises(DataError) as raised:
        read_holdout(file)
    assert str(raised.value).startswith(f"{file}:3: {message}")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("target", [1, "1", True])
def test_a_label_may_be_what_a_row_of_a_task_may_give(target: Any, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(lines({"prompt": "Which?", "answer": 1}, {"prompt": "And now?", "answer": 2}))
    verifier = {"kind": "choice", "options": ["1", "2", "true"]}
    enter_tasks([TaskConfig.model_validate({"name": "mine", "data": str(rows), "verifier": verifier})])
    file = tmp_path / "mine.jsonl"
    file.write_text(lines(GRID_ROW | {"family": "mine", "target": target}))
    (item,) = read_holdout(file)
    assert gold(item) == ("true" if target is True else "1")
    assert grade(item, gold(item)).correct and not grade(item, "2").correct


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_holdout(tmp_path / "absent.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(DataError, match="has no rows"):
        read_holdout(tmp_path / "empty.jsonl")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "\xe9"}\n')
    with pytest.raises(DataError, match=r"latin\.jsonl:1: not UTF-8"):
        read_holdout(tmp_path / "latin.jsonl")


def test_windows_line_ends_and_byte_order_marks(tmp_path: Path) -> None:
    file = tmp_path / "windows.jsonl"
    file.write_bytes(b"\xef\xbb\xbf" + json.dumps(GRID_ROW).encode() + b"\r\n")
    assert read_holdout(file)[0].target == 3


def test_every_row_has_an_id_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "repeated.jsonl"
    row = {"prompt": "1 + 1", "target": 2, "family": "math", "depth": "short"}
    rows = [row | {"task_id": name} for name in ("a", "a", "a__2", "a")] + [row]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert [item.task_id for item in read_holdout(path)] == ["a", "a__2", "a__2__2", "a__3", "task_4"]


def test_rows_are_chosen_by_their_keys_and_keep_their_ids() -> None:
    path = DATA / "holdout_regex.jsonl"
    everything = read_holdout(path)
    assert [item.task_id for item in read_holdout(path, {"holdout_type": "operator"})] == ["synth_choice"]
    plain = read_holdout(path, {"holdout_type": None, "mutation_type": None})
    assert [item for item in everything if item in plain] == plain and len(plain) == len(everything) - 3
    assert read_holdout(path, {"no_such_key": None}) == everything
    with pytest.raises(DataError) as raised:
        read_holdout(path, {"holdout_type": "opertor", "mutation_type": None})
    assert str(raised.value) == (
        f"{path}: has no row with holdout_type 'opertor' and mutation_type null; holdout_type has null, operator; "
        "mutation_type has count, null, widen_range"
    )


def test_a_row_is_checked_whether_it_is_chosen_or_not(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(lines(GRID_ROW | {"kind": 1}, GRID_ROW | {"kind": 2}, without(GRID_ROW, "target") | {"kind": 2}))
    with pytest.raises(DataError, match=r"mine.jsonl:3: target: missing"):
        read_holdout(file, {"kind": "1"})
