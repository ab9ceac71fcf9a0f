"""Rows of a user: read, checked, and cut into splits."""

import csv
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from evolora_core.errors import ConfigError, DataError
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical
from evolora_core.language.tasks.cutting import take
from evolora_core.language.tasks.pools import ALIKE, Pool, read_pool
from evolora_core.language.tasks.settings import TaskConfig

ROWS = [{"prompt": f"{n} plus one?", "answer": n + 1, "level": "hard" if n % 2 else "easy"} for n in range(30)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pd.DataFrame(rows).to_parquet(path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def task(data: Path | str, **changes: Any) -> TaskConfig:
    return TaskConfig.model_validate({"name": "plus", "data": str(data), "verifier": {"kind": "number"}} | changes)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_rows_of_every_form_are_the_same_items(suffix: str, tmp_path: Path) -> None:
    found = read_pool(task(write(tmp_path / f"rows.{suffix}", ROWS)))
    items = found.parts[""]
    assert [(item.prompt, item.target, item.depth) for item in items[:2]] == [
        ("0 plus one?", 1, ALIKE), ("1 plus one?", 2, ALIKE),
    ]  # fmt: skip
    assert len({item.task_id for item in items}) == len(ROWS) and found.depths == (ALIKE,)
    other = read_pool(task(write(tmp_path / "other.csv", ROWS)))
    assert other.digest == found.digest  # of what is in it, wherever it lies


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", ROWS)
    before = read_pool(task(path))
    write(path, [*ROWS, {"prompt": "100 plus one?", "answer": 101, "level": "easy"}])
    after = read_pool(task(path))
    assert len(after.parts[""]) == len(ROWS) + 1 and after.digest != before.digest


def test_columns_depths_and_templates(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", [{"a": n, "b": 2, "sum": n + 2, "level": n % 3} for n in range(9)])
    found = read_pool(task(path, prompt="{a} and {b}?", answer="sum", depth="level"))
    assert (
        found.depths == ("0", "1", "2") and found.parts[""][4].prompt == "4 and 2?" and found.parts[""][4].target == 6
    )


def test_braces_hold_names_of_columns_and_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{"a.b": "x", "a[0]": "{a.b}", "a": 1, "answer": 2}])
    found = read_pool(task(path, prompt="{{{a.b}}} {a[0]} {a}"))
    assert found.parts[""][0].prompt == "{x} {a.b} 1"
    for braces in ("{a:.2f}", "{a!r}", "{a!x}", "{a:{b}}", "{a:99}", '{a} as {"label": 1}', "{} {a}", "{a", "{a} }"):
        with pytest.raises(ValidationError, match=r"; write braces that are text twice: \{\{ \}\}"):
            task(path, prompt=f"So {braces}?")


def test_a_prompt_does_not_show_the_right_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", [{"Words?": "one, two", "answer": 2}])
    shown: dict[str, Any] = {"prompt": "Use {Words?}.", "answer": "Words?"}
    for kind in ("exact", "number"):
        with pytest.raises(ValidationError, match=r"plus: the prompt shows 'Words\?', the column of the right answer"):
            task(path, **shown, verifier={"kind": kind})
    (item,) = read_pool(task(path, **shown, verifier={"kind": "contains-all"})).parts[""]
    assert item.prompt == "Use one, two."


def test_a_column_tells_families_apart(tmp_path: Path) -> None:
    own = task(write(tmp_path / "rows.csv", ROWS), family="level")
    easy, hard = own.families({"plus.hard", "plus.easy", "other.easy", "plusher"})
    assert (easy.name, easy.where, hard.name) == ("plus.easy", {"level": "easy"}, "plus.hard")
    found = read_pool(hard).parts[""]
    assert [item.target for item in found] == [row["answer"] for row in ROWS if row["level"] == "hard"]
    assert {item.family for item in found} == {"plus.hard"} and {item.depth for item in found} == {ALIKE}
    assert easy.families({"plus.easy"}) == [easy] and own.families({"plus"}) == []


def test_given_splits_are_kept(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ROWS[:20])
    write(tmp_path / "test.jsonl", ROWS[20:])
    found = read_pool(task(tmp_path, splits={"train": "train", "holdout": "test"}))
    assert {part: len(items) for part, items in found.parts.items()} == {"train": 20, "holdout": 10}
    write(tmp_path / "test.jsonl", ROWS[19:])
    with pytest.raises(ConfigError, match=r"row 1 of test: has the prompt of row 20 of train, .*; keep one of them"):
        read_pool(task(tmp_path, splits={"train": "train", "holdout": "test"}))
    with pytest.raises(ConfigError, match=r"has no split 'dev' but train, test"):
        read_pool(task(tmp_path, splits={"train": "train", "holdout": "dev"}))


def test_one_split_for_two_parts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="splits: dev is named for two parts.*without `splits` rows are cut"):
        task(tmp_path, splits={"train": "train", "selection": "dev", "holdout": "dev"})


def test_a_family_that_is_trained_on_needs_every_part(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", ROWS[:20])
    write(tmp_path / "test.jsonl", ROWS[20:])
    found = read_pool(task(tmp_path, splits={"train": "train", "holdout": "test"}))
    take(found, "train", "plus", ALIKE, 4, 0, set(), 8, 8, "data.train_items")
    with pytest.raises(DataError, match=r"tasks.plus.splits: names nothing for `selection`, of which search is made"):
        take(found, "search", "plus", ALIKE, 4, 0, set(), 8, 8, "data.selection_items")


def test_numbers_of_few_bits_are_what_was_meant(tmp_path: Path) -> None:
    rows = pd.DataFrame({"prompt": ["a tenth?", "a third?"], "answer": np.array([0.1, 1 / 3], dtype=np.float32)})
    rows.to_parquet(tmp_path / "rows.parquet")
    assert [item.target for item in read_pool(task(tmp_path / "rows.parquet")).parts[""]] == [0.1, 0.33333334]


@pytest.mark.parametrize(
    ("rows", "changes", "words"),
    [
        (ROWS, {"prompt": "question"}, "prompt: .* has no column 'question'; name one of prompt, answer, level"),
        (ROWS, {"prompt": "{title}?"}, "prompt: .* has no column 'title'; name one of"),
        (ROWS, {"where": {"kind": "a"}}, "where: .* has no column 'kind' .*; name one of"),
        (ROWS, {"where": {"level": "odd"}}, "has no row with level 'odd'; level is easy, hard"),
        (ROWS, {"answer": "label"}, "answer: .* has no column 'label'; name one of"),
        ([], {"prompt": "question"}, "rows.jsonl has no rows; add some"),
        ([{"prompt": " ", "answer": 1}], {}, "rows.jsonl:1: the prompt is empty"),
        ([ROWS[0] | {"level": ""}], {"depth": "level"}, "rows.jsonl:1: column 'level' is empty; fill it in"),
        (
            [*ROWS, ROWS[3] | {"prompt": "3  PLUS one?"}],
            {},
            "rows.jsonl:31: has the prompt of line 4, as case and white space do not count; keep one of them$",
        ),
        (
            [*ROWS, ROWS[3] | {"answer": 5}],
            {},
            "rows.jsonl:31: has the prompt of line 4, .*; its answer is '5', and there '4': keep the right one$",
        ),
        ([ROWS[0] | {"answer": "many"}], {}, "rows.jsonl:1: the answer 'many' must be a number; [^()]*$"),
        ([ROWS[0], ROWS[1] | {"answer": None}], {}, "rows.jsonl:2: has no answer, and the verifier number needs one"),
        (
            [*ROWS[:2], ROWS[2] | {"answer": None}, ROWS[3] | {"answer": None}],
            {},
            r"rows.jsonl:3: has no answer.* \(and 1 more: line 4\)$",
        ),
        (
            [row | {"answer": None} for row in ROWS],
            {},
            r"rows.jsonl:1: has no answer.* \(and 29 more: lines 2, 3, 4, 5, 6, …\)$",
        ),
        (
            [{"prompt": f"{n}", "answer": 1, "level": f"{n}"} for n in range(30)],
            {"depth": "level"},
            "depth: column 'level' has more than 20 values",
        ),
    ],
)
def test_what_is_wrong_with_rows_is_one_line(
    rows: list[dict[str, Any]], changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises((ConfigError, DataError), match=words) as error:
        read_pool(task(write(tmp_path / "rows.jsonl", rows), **changes))
    assert "\n" not in str(error.value) and str(error.value).startswith("tasks.plus")


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a"\nno json')
    (tmp_path / "array.json").write_text("[{")
    (tmp_path / "rows.txt").write_text("a")
    (tmp_path / "ragged.csv").write_text("prompt,answer\na,1\nb,2,3\n")
    (tmp_path / "twice.csv").write_text("a,a\n1,2\n")
    (tmp_path / "latin.csv").write_bytes("prompt,answer\na\xe9,1\n".encode("latin1"))
    (tmp_path / "rows.parquet").write_text("no table")
    (tmp_path / "semicolons.csv").write_text("prompt;answer\na;1\n")
    (tmp_path / "tabs.csv").write_text("prompt\tanswer\na\t1\n")
    (tmp_path / "open.csv").write_text('prompt,answer\n"a\nb",1\n"c,2\nd,3\n"e",4\n')
    (tmp_path / "last.csv").write_text('prompt,answer\na,1\n"b,2')
    (tmp_path / "inner.csv").write_text('prompt,answer\n"a "b" c",1\n')
    for data, words in (
        (tmp_path / "rows.jsonl", "rows.jsonl:1: is no JSON; write one object a line"),
        (tmp_path / "array.json", r"array.json:1: is no JSON \(.*\); mend the line"),
        (tmp_path / "ragged.csv", "ragged.csv:3: has 3 cells, and the head 2; put cells with commas in quotes"),
        (tmp_path / "semicolons.csv", "semicolons.csv:1: has semicolons and no comma; save the file with commas"),
        (tmp_path / "tabs.csv", "tabs.csv:1: has tabs and no comma"),
        (tmp_path / "open.csv", r"open.csv:4: a quote opened in this row is not closed \(line 6: .*\); close it"),
        (tmp_path / "last.csv", r"last.csv:3: a quote opened in this row is not closed \(line 3: "),
        (tmp_path / "inner.csv", r"inner.csv:2: .*; mend the line \(within quotes a quote stands twice\)"),
        (tmp_path / "twice.csv", "twice.csv: column 'a' stands twice; give one another name"),
        (tmp_path / "latin.csv", "latin.csv: byte 15 is no UTF-8; save the file as UTF-8"),
        (tmp_path / "rows.parquet", r"rows.parquet: cannot be read \(.*\); check the name"),
        (tmp_path / "rows.txt", "rows.txt is none of .jsonl"),
        ("/nowhere/rows.csv", "no such file"),
        ("rows.csv", "no such file"),
    ):
        with pytest.raises(ConfigError, match=words) as error:
            read_pool(task(data))
        assert "\n" not in str(error.value)


def test_a_cell_may_be_longer_than_python_reads_unasked(tmp_path: Path) -> None:
    row = {"prompt": "How long?", "text": "a" * 200_000, "answer": 200_000}
    (item,) = read_pool(task(write(tmp_path / "rows.csv", [row]))).parts[""]
    assert item.target == 200_000


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_one_file_has_no_subset(suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"rows.{suffix}", ROWS)
    with pytest.raises(ConfigError, match=r"^tasks.plus.subset: .* is one file, which has no configurations; take it"):
        read_pool(task(path, subset="easy"))


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(
    "answer", ["2024-05-03", "2024-05-03T10:00:00", "12345678901234567890123", "007", "None", "NA", "True", "1.50"]
)
def test_an_answer_is_kept_as_it_was_written(answer: str, suffix: str, tmp_path: Path) -> None:
    path = write(tmp_path / f"rows.{suffix}", [{"prompt": "one?", "answer": answer}, {"prompt": "two?", "answer": "b"}])
    items = read_pool(task(path, verifier={"kind": "exact"})).parts[""]
    assert [item.target for item in items] == [answer, "b"]


@pytest.mark.parametrize(
    ("answers", "verifier", "targets"),
    [
        ([1, 0], {"kind": "choice", "options": ["0", "1"]}, ["1", "0"]),
        ([True, False], {"kind": "choice", "options": ["True", "False"]}, ["true", "false"]),
        ([7, 2.5], {"kind": "exact"}, ["7", "2.5"]),
        ([12345678901234567890123, 9007199254740993], {"kind": "number"}, [12345678901234567890123, 9007199254740993]),
        ([{"name": "x", "age": 3}, {"name": "y"}], {"kind": "json"}, [{"name": "x", "age": 3}, {"name": "y"}]),
    ],
)
def test_values_of_json_stay_what_they_are(
    answers: list[Any], verifier: dict[str, Any], targets: list[Any], tmp_path: Path
) -> None:
    path = write(tmp_path / "rows.jsonl", [{"prompt": f"{n}?", "answer": own} for n, own in enumerate(answers)])
    items = read_pool(task(path, verifier=verifier)).parts[""]
    assert [item.target for item in items] == targets


def test_gaps_of_columns_that_a_prompt_needs_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('a,b,answer\n"5\n",3,2\n\n7,,7\n9,4,5\n')  # a row of two lines, and a blank line
    with pytest.raises(ConfigError, match=r"rows.csv:5: column 'b' is empty; fill it in, or take the row out"):
        read_pool(task(tmp_path / "rows.csv", prompt="Compute {a} - {b}."))
    pd.DataFrame({"a": [5, 7, 9], "b": [3.0, None, 4.0], "answer": [2, 7, 5]}).to_parquet(tmp_path / "rows.parquet")
    found = read_pool(task(tmp_path / "rows.parquet", prompt="Compute {a} - {b}.", where={"a": "9"}))
    assert [item.prompt for item in found.parts[""]] == ["Compute 9 - 4."]


def test_dates_of_a_typed_table_and_prompts_that_are_no_text_are_refused(tmp_path: Path) -> None:
    dates = pd.DataFrame({"prompt": ["When?"], "answer": [pd.Timestamp("2024-05-03")]})
    dates.to_parquet(tmp_path / "dates.parquet")
    with pytest.raises(ConfigError, match=r"row 1: column 'answer' holds dates by its type, .*; make it text"):
        read_pool(task(tmp_path / "dates.parquet", verifier={"kind": "exact"}))
    inside = pd.DataFrame({"prompt": ["When?"], "answer": [{"d": [datetime.date(2024, 5, 3)]}]})
    inside.to_parquet(tmp_path / "inside.parquet")
    with pytest.raises(ConfigError, match=r"row 1: column 'answer' holds dates by its type"):
        read_pool(task(tmp_path / "inside.parquet", verifier={"kind": "json"}))
    path = write(tmp_path / "rows.jsonl", [{"prompt": [{"role": "user", "content": "hi"}], "answer": 1}])
    with pytest.raises(
        ConfigError, match=r"rows.jsonl:1: column 'prompt' is a list or an object; a prompt is made of text"
    ):
        read_pool(task(path))


def test_text_that_a_table_holds_as_bytes_is_text(tmp_path: Path) -> None:
    """As older tools write Parquet."""
    for name, answer in (("text", "fünf".encode()), ("image", b"\xff\xd8")):
        pd.DataFrame({"prompt": [b"2 + 3?"], "answer": [answer]}).to_parquet(tmp_path / f"{name}.parquet")
    (item,) = read_pool(task(tmp_path / "text.parquet", verifier={"kind": "exact"})).parts[""]
    assert (item.prompt, item.target) == ("2 + 3?", "fünf")
    with pytest.raises(ConfigError, match="row 1: column 'answer' holds bytes that are no text in UTF-8"):
        read_pool(task(tmp_path / "image.parquet", verifier={"kind": "exact"}))


def test_numbers_of_a_typed_table_are_held_against_a_pattern(tmp_path: Path) -> None:
    pd.DataFrame({"prompt": ["When?"], "answer": [2021]}).to_parquet(tmp_path / "rows.parquet")
    (item,) = read_pool(task(tmp_path / "rows.parquet", verifier={"kind": "regex", "pattern": r"\d{4}"})).parts[""]
    assert item.target == "2021"


def test_the_labels_of_a_set_have_their_names(tmp_path: Path) -> None:
    import datasets

    kind = datasets.ClassLabel(names=["no", "yes"])
    rows = {"prompt": ["a?", "b?"], "answer": [1, 0]}
    features = datasets.Features({"prompt": datasets.Value("string"), "answer": kind})
    (tmp_path / "set").mkdir()
    datasets.Dataset.from_dict(rows, features=features).to_parquet(tmp_path / "set" / "train[1].parquet")
    verifier = {"kind": "choice", "options": ["yes", "no"]}
    for data in (tmp_path / "set", tmp_path / "set" / "train[1].parquet"):
        found = read_pool(task(data, verifier=verifier)).parts[""]
        assert [item.target for item in found] == ["yes", "no"]


def pool(count: int) -> Pool:
    items = tuple(Item(f"prompt {n}", n, "own", ALIKE, f"own:{n}") for n in range(count))
    return Pool({"": items}, "0")


@settings(max_examples=40)
@given(
    st.integers(20, 200), st.integers(1, 60), st.integers(1, 30), st.lists(st.integers(0, 9), min_size=2, max_size=3)
)
def test_no_seed_trains_on_what_another_holds_out(count: int, train: int, held: int, seeds: list[int]) -> None:
    own = pool(count)
    trained: set[str] = set()
    asked: set[str] = set()
    for seed in seeds:
        seen: set[str] = set()
        try:
            for split, wanted in (("train", train), ("selection", held), ("holdout_id", held)):
                found = take(own, split, "own", ALIKE, wanted, seed, seen, train, 2 * held, "data.own")
                assert len({item.prompt for item in found}) == wanted
                (trained if split == "train" else asked).update(canonical(item.prompt) for item in found)
        except DataError as error:
            assert count < 2 * (train + 2 * held) and "missing" in str(error)
            return
        assert len(seen) == train + 2 * held  # no prompt in two splits
    assert not trained & asked


@settings(max_examples=40)
@given(st.integers(20, 200), st.integers(1, 60), st.integers(1, 30), st.integers(0, 9), st.integers(0, 9))
def test_settings_are_tuned_on_no_row_of_a_reported_holdout(
    count: int, train: int, held: int, seed: int, tuned: int
) -> None:
    assume(2 * -(-count * held // (train + held)) <= count and train + held <= count)
    own = pool(count)

    def holdout(of: int, tuning: bool) -> set[str]:
        seen: set[str] = set()
        take(own, "train", "own", ALIKE, train, of, seen, train, held, "data.own", tuning=tuning)
        found = take(own, "holdout_id", "own", ALIKE, held, of, seen, train, held, "data.own", tuning=tuning)
        return {item.prompt for item in found}

    assert not holdout(seed, False) & holdout(tuned, True)


def test_all_rows_can_be_used_and_one_more_is_missed() -> None:
    seen: set[str] = set()
    for split, wanted in (("train", 60), ("selection", 20), ("holdout_id", 20)):
        assert len(take(pool(100), split, "own", ALIKE, wanted, 3, seen, 60, 40, "data.own")) == wanted
    with pytest.raises(
        DataError, match=r"selection: task own has 40 of 44 items; 4 are missing: bring more rows, or lower"
    ):
        take(pool(100), "selection", "own", ALIKE, 44, 3, set(), 60, 40, "data.own")
    with pytest.raises(DataError, match=r"train: task own has 60 of 61 items; 1 is missing: .* data.own"):
        take(pool(100), "train", "own", ALIKE, 61, 3, set(), 60, 40, "data.own")
