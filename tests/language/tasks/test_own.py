"""Tasks of a user as families: Python files that are examined, definitions that are kept beside items."""

import os
import time
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.identity import code_as_it_is
from evolora_core.engine.rng import stream
from evolora_core.errors import ConfigError, DataError, StageError
from evolora_core.language.datasets import read_items, write_items
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import enter, get, gold, grade
from evolora_core.language.holdouts import read_holdout
from evolora_core.language.tasks import python_file
from evolora_core.language.tasks.own import (
    define,
    enter_tasks,
    family_of,
    pools_of,
    refuse_changed_tasks,
    write_definitions,
)
from evolora_core.language.tasks.python_file import load_family
from evolora_core.language.tasks.settings import TaskConfig

EXAMPLE = Path(__file__).parents[3] / "configs" / "tasks" / "rotate.py"
SOURCE = EXAMPLE.read_text()


def python(path: Path, source: str = SOURCE, name: str = "string.rotate") -> TaskConfig:
    path.write_text(source)
    return TaskConfig(name=name, file=str(path))


def rows(path: Path, count: int = 12) -> TaskConfig:
    path.write_text("prompt,answer\n" + "".join(f"{n} plus one?,{n + 1}\n" for n in range(count)))
    return TaskConfig.model_validate({"name": "plus", "data": str(path), "verifier": {"kind": "number"}})


def test_a_python_family_is_one_like_ours(tmp_path: Path) -> None:
    enter_tasks([python(tmp_path / "rotate.py")])
    item = Item("Move the first letter to the end: a b c d", "abcd", "string.rotate", "short", "1")
    assert gold(item) == "bcda" and grade(item, "b c d a").correct and not grade(item, "abcd").correct
    assert get("string.rotate").depths == ("short", "medium", "long")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("import re\n", "import re\nimport nothing_of_that_name\n", "fails to load (ModuleNotFoundError"),
        ("FAMILY = ", "OTHER = ", "has no FAMILY"),
        ('Family("string.rotate"', 'Family("string.other"', "its FAMILY is called 'string.other'"),
        ("return text[1:] + text[0]", "return text", "`solve` says"),
        ("if found else NO_ANSWER", "if not found else NO_ANSWER", "`verify` refuses the right answer"),
        (
            "    found = extract_letters(answer)",
            "    return Grade(1.0, True, '')\n    found = extract_letters(answer)",
            "answers to other items",
        ),
        ('rng.integers(26, size=LENGTHS[depth])', "rng.integers(1, size=LENGTHS[depth])", "hardly any different items"),
        ("    text = str(target)\n", "    text = str(target) + 1\n", "`solution` fails (TypeError"),
        ("    text = str(target)\n", "    while True: pass\n    text = ''\n", "`solution` fails (TimeoutError"),
        ("target.isalpha() else", "target.isdigit() else", "`complaint` refuses the target"),
        ("if found else NO_ANSWER", "if found and '!' not in answer else None", "`verify` returns NoneType; return a"),
        ("    found = extract_letters(answer)", "    return True", "`verify` returns bool; return a Grade for every"),
        ("    found = extract_letters(answer)", "    raise SystemExit(3)", "`verify` fails (SystemExit: 3)"),
        ("import re\n", "import re\nraise SystemExit(3)\n", "fails to load (SystemExit: 3)"),
        (', "".join(letters)', ", tuple(letters)", "`draw` gives the target ('"),
        (', "".join(letters)', ", {1: letters}", "`draw` gives the target {1: "),
        (', "".join(letters)', ", np.int64(12)", "which is another one when it is read back from JSON, to the prompt"),
        (', "".join(letters)', ", float('nan')", "which is another one when it is read back from JSON, to the prompt"),
        ("return text[1:] + text[0]", "return 7", "`solution` gives int; return the answer as text, such as str(…)"),
        ('return "".join([*letters[1:], letters[0]])', "return None", "`solve` gives NoneType; return the answer as"),
        ("DEPTHS, draw", "('short'), draw", "`depths` is a tuple of some of short, medium, long"),
        ("if found else NO_ANSWER", "if found and 0 else Grade(100.0, True, '')", "gives the score 100; scores are"),
        ("rng.integers(26,", "np.random.default_rng().integers(26,", "`draw` gives other items a second time"),
    ],
)  # fmt: skip
def test_a_faulty_python_family_is_refused_in_one_line(
    before: str, after: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert SOURCE.count(before) == 1
    monkeypatch.setattr(python_file, "LONGEST_CALL", 0.5)
    with pytest.raises(ConfigError) as error:
        enter_tasks([python(tmp_path / "rotate.py", SOURCE.replace(before, after))])
    assert words in str(error.value) and "\n" not in str(error.value)
    assert str(error.value).startswith("tasks.string.rotate.file")


def test_a_python_family_may_have_classes_of_its_own(tmp_path: Path) -> None:
    """Dataclasses look for their module by its name."""
    text = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    text += SOURCE.partition('"""\n')[2] + "\n\n@dataclass\nclass Extra:\n    number: int = 0\n"
    enter_tasks([python(tmp_path / "rotate.py", text)])
    assert get("string.rotate").solve("Move the first letter to the end: a b") == "ba"


def test_its_text_is_what_it_is(tmp_path: Path) -> None:
    one = define(python(tmp_path / "one.py"))
    two = define(python(tmp_path / "two.py"))
    other = define(python(tmp_path / "one.py", SOURCE.replace('"long": 9', '"long": 10')))
    assert one == two != other  # a place is no part of an identity, a text is


def test_what_it_reads_is_part_of_what_it_is(tmp_path: Path) -> None:
    reading = f"import re\nfrom pathlib import Path\n\nMANY = int(Path({str(tmp_path / 'many')!r}).read_text())\n"
    source = SOURCE.replace("import re\n", reading).replace("rng.integers(26,", "rng.integers(MANY,")
    found = []
    for many in ("26", "25", "26"):
        (tmp_path / "many").write_text(many)
        load_family.cache_clear()  # as in another process
        found.append(define(python(tmp_path / "one.py", source)))
    assert found[0] == found[2] != found[1]


def test_a_byte_order_mark_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "rotate.py").write_text(SOURCE, encoding="utf-8-sig")
    own = define(TaskConfig(name="string.rotate", file=str(tmp_path / "rotate.py")))
    assert own == define(python(tmp_path / "plain.py"))


def test_definitions_travel_with_the_items(tmp_path: Path) -> None:
    tasks = [rows(tmp_path / "rows.csv"), python(tmp_path / "rotate.py")]
    definitions = [define(task) for task in tasks]
    folder = tmp_path / "datasets"
    folder.mkdir()
    write_definitions(folder, definitions)
    write_items(folder / "train.jsonl", [Item("3 plus one?", 4, "plus", "all", "1")])
    enter([])  # what another suite of this process calls `plus` is replaced
    (item,) = read_items(folder / "train.jsonl")
    assert grade(item, "It is 4.").correct and not grade(item, "5").correct and gold(item) == "4"
    assert get("string.rotate").solve("Move the first letter to the end: a b") == "ba"


def test_rows_that_changed_meanwhile_are_not_taken(tmp_path: Path) -> None:
    task = rows(tmp_path / "rows.csv")
    definition = define(task)
    assert [*pools_of([task], [definition])] == ["plus"]
    rows(tmp_path / "rows.csv", 13)
    with pytest.raises(DataError, match="its rows have changed since the suite was started"):
        pools_of([task], [definition])


def test_files_that_are_written_while_a_suite_runs_are_refused(tmp_path: Path) -> None:
    """Seeds that were drawn before have the old rows."""
    tasks = [rows(tmp_path / "rows.csv"), python(tmp_path / "rotate.py")]
    for file in ("rows.csv", "rotate.py"):
        os.utime(tmp_path / file, (0, 0))
    with code_as_it_is():
        refuse_changed_tasks(tasks)
        for file in ("rows.csv", "rotate.py"):
            os.utime(tmp_path / file, (time.time(), time.time()))  # the kernel's own clock is coarser
            with pytest.raises(StageError, match=rf"{file}: was changed while the suite runs; run it again, with the"):
                refuse_changed_tasks(tasks)
            os.utime(tmp_path / file, (0, 0))
    os.utime(tmp_path / "rows.csv")
    refuse_changed_tasks(tasks)  # no suite runs


def test_items_without_an_answer_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "a code"}\n{"prompt": "another"}\n')
    settings = {"name": "codes", "data": str(tmp_path / "rows.jsonl"), "answer": None}
    task = TaskConfig.model_validate(settings | {"verifier": {"kind": "regex", "pattern": "[A-Z]{3}"}})
    assert enter_tasks([task]) == {"codes"}
    family = family_of(define(task))
    assert family.grade(Item("a code", None, "codes", "all", "1"), "ABC").correct


def test_a_verifier_that_fails_or_hangs_refuses_the_answer_and_the_run_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SOURCE.replace(
        "    found = extract_letters(answer)",
        "    if answer == 'hang':\n        while True: pass\n    if answer == 'raise':\n        raise OSError('full')\n"
        "    found = extract_letters(answer)",
    )
    enter_tasks([python(tmp_path / "rotate.py", source)])
    item = Item("Move the first letter to the end: a b", "ab", "string.rotate", "short", "1")
    monkeypatch.setattr(python_file, "LONGEST_CALL", 0.3)
    assert [grade(item, "hang").reason for _ in range(2)] == ["timeout"] * 2
    assert grade(item, "raise").reason == "verifier failed: OSError: full"
    assert grade(item, "ba").correct
    assert caplog.text.count("`verify` fails (TimeoutError: took longer than 0.3 s); such answers count as wrong") == 1


def test_what_a_file_returns_may_be_numpy_s_and_lists(tmp_path: Path) -> None:
    source = SOURCE.replace("DEPTHS, draw", "['short'], draw").replace(
        "    found = extract_letters(answer)",
        "    if answer == 'numpy':\n        return Grade(np.float32(1), np.bool_(True), 'right')\n"
        "    found = extract_letters(answer)",
    )
    family = load_family("string.rotate", source)
    enter_tasks([python(tmp_path / "rotate.py", source)])
    given = grade(Item("Move the first letter to the end: a b", "ab", "string.rotate", "short", "1"), "numpy")
    assert (type(given.score), type(given.correct)) == (float, bool) and family.depths == ("short",)


def test_a_draw_that_hangs_later_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE.replace("import re\n", "import re\nLATER = []\n").replace(
        "    letters = ", "    while LATER: pass\n    letters = "
    )
    family: Any = load_family("string.rotate", source)
    family.draw.args[2].__globals__["LATER"].append(1)
    monkeypatch.setattr(python_file, "LONGEST_CALL", 0.2)
    with pytest.raises(ConfigError, match=r"^tasks.string.rotate.file: `draw` fails \(TimeoutError"):
        family.make(stream(0, 0, 0, "test"), "short")


def test_what_fails_on_a_target_that_no_audit_saw_is_named(tmp_path: Path) -> None:
    """As one that a holdout file gives."""
    source = SOURCE.replace("    return None if ", "    return None if target.isalpha() and ")
    assert source != SOURCE
    enter_tasks([python(tmp_path / "rotate.py", source)])
    holdout = tmp_path / "mine.jsonl"
    holdout.write_text('{"prompt": "a b", "target": 12, "family": "string.rotate", "depth": "short"}\n')
    with pytest.raises(DataError, match=r"mine.jsonl:1: target: .*`complaint` fails \(AttributeError"):
        read_holdout(holdout)
    item = Item("Move the first letter to the end: a b", "", "string.rotate", "short", "1")
    with pytest.raises(ConfigError, match=r"^tasks.string.rotate.file: .*`solution` fails \(IndexError"):
        gold(item)


def test_a_verifier_that_waits_for_a_processor_is_not_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCE.replace(
        "    found = extract_letters(answer)",
        "    import time\n    time.sleep(0.5 if answer == 'b  a' else 0)\n    found = extract_letters(answer)",
    )
    enter_tasks([python(tmp_path / "rotate.py", source)])
    monkeypatch.setattr(python_file, "LONGEST_CALL", 0.3)
    assert grade(Item("Move the first letter to the end: a b", "ab", "string.rotate", "short", "1"), "b  a").correct
