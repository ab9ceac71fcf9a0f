"""`evolora compare` on two finished suites: what it finds, and what it refuses."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from example_suite import settings, suite_id, write_suite

from evolora_core.engine.run_index import read_suite
from evolora_core.engine.run_index import write_suite as write_settings
from evolora_core.engine.strict import document_hash
from evolora_core.store import merge, rebuild, write_shard
from flows.cli import main

FIRST, SECOND = "example-0a1b2c3d", "another-4e5f6a7b"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two suites with seeds and items in common, and some with other ones."""
    home = tmp_path_factory.mktemp("compare")
    write_suite(home, FIRST, seeds=tuple(range(8)), items=60)
    write_suite(home, SECOND, seeds=tuple(range(1, 9)), items=60, budgets={"sft-double": 2.0}, luck=1)
    unsaid: dict[str, Any] = read_suite(home, suite_id(SECOND)) or {}
    del unsaid["search"]  # as in suites of long ago
    write_settings(home, suite_id(SECOND), unsaid)
    write_suite(home, "smaller-00000000", seeds=(0, 1), items=48)
    write_suite(home, "later-00000000", seeds=(20,), items=60)
    write_suite(home, "routed-00000000", seeds=(0,), items=60, luck=1)
    settings: dict[str, Any] = read_suite(home, suite_id("routed-00000000")) or {}
    settings["evaluation"]["routings"] = ["single", "family"]
    write_settings(home, suite_id("routed-00000000"), settings)
    return home


def run(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(home))
        main(["compare", *words])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_conditions_that_both_have_are_compared_item_by_item(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    code, out, err = run(capsys, home, "example", "another-4", "--json")
    rows = json.loads(out)
    assert code == 0, err
    assert [row["a"] for row in rows] == [f"{FIRST}.{own}" for own in ("single", "ecology", "sft")]
    assert [row["b"] for row in rows] == [f"{SECOND}.{own}" for own in ("single", "ecology", "sft")]
    for row in rows:  # seeds 1 to 7
        assert (row["seeds"], row["n"], row["split"]) == (7, 7 * 60, "holdout_id")
        assert row["lo"] < row["diff"] < row["hi"] and row["diff"] == pytest.approx(row["a_acc"] - row["b_acc"])
        assert row["verdict"] == "undecided" and "without seeds of one suite alone: 0, 8" in row["note"]


def test_an_older_suite_of_the_name_is_named_where_the_latest_was_not_evaluated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_suite(tmp_path, FIRST, seeds=(0,), items=48)
    write_suite(tmp_path, SECOND, seeds=(0,), items=48)
    write_settings(tmp_path, suite_id("example-99999999"), read_suite(tmp_path, suite_id(FIRST)) or {})
    code, _, err = run(capsys, tmp_path, "example", "another")
    assert code == 1 and "example-99999999: no condition of it was evaluated; " in err
    assert f"(an older suite of this name has it: {FIRST})" in err


def test_a_suite_that_came_in_shards_is_told_where_it_can_be_compared(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Making it anew, as `evolora retry` would, is no mend: its rows are there."""
    own = f"example-{document_hash(settings('example', (0,), 12))}"
    write_suite(tmp_path / "there", own, seeds=(0,), items=12)
    rebuild(tmp_path / "there")
    write_shard(tmp_path / "there", own, tmp_path / "shard")
    write_suite(tmp_path / "here", SECOND, seeds=(0,), items=12)
    merge(tmp_path / "here", [tmp_path / "shard"])
    code, _, err = run(capsys, tmp_path / "here", "example", "another")
    assert code == 1 and f"{own}: came in shards" in err and f"evolora pack {own}" in err and "retry" not in err


def test_what_is_right_and_wrong_on_the_same_items_costs_no_power(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As the bare host is, whose evaluations in two suites may be two: it can only tie, and Holm would count it."""
    for name, luck in ((FIRST, 0), (SECOND, 1), ("third-00000000", 0)):
        write_suite(tmp_path, name, seeds=(0, 1), items=12, luck=luck)
        for manifest in tmp_path.glob(f"runs/{name[:-9]}/frozen-*/evaluate/*/manifest.json"):
            manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"identity": 2 * name[-8:]}))
    code, out, err = run(capsys, tmp_path, FIRST, SECOND, "--json")
    assert code == 0, err
    assert [row["a"] for row in json.loads(out)] == [f"{FIRST}.{own}" for own in ("single", "ecology", "sft")]
    code, _, err = run(capsys, tmp_path, FIRST, "third")
    assert code == 1 and "every condition that both have (frozen, single, ecology, sft)" in err


def test_seeds_that_were_not_run_are_told_from_those_of_one_suite(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    write_suite(tmp_path, FIRST, seeds=(0, 1, 2), items=12)
    write_suite(tmp_path, SECOND, seeds=(1, 2, 3), items=12, luck=1)
    (manifest,) = tmp_path.glob("runs/another/single-s2/evaluate/*/manifest.json")
    document = json.loads(manifest.read_text())
    document["summary"]["not_run"] = "the budget pays for no step"
    manifest.write_text(json.dumps(document))
    code, out, err = run(capsys, tmp_path, FIRST, SECOND, "--json")
    notes = {row["a"].split(".")[1]: row["note"] for row in json.loads(out)}
    assert code == 0, err
    assert notes["single"].endswith("without seeds of one suite alone: 0, 3; without seeds where one was not run: 2")
    assert notes["sft"].endswith("without seeds of one suite alone: 0, 3")


def test_two_conditions_get_the_verdict_of_a_pack(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    code, out, err = run(capsys, home, "--a", "another:sft-double", "--b", "example:ecology", "--json")
    (row,) = json.loads(out)
    assert code == 0, err
    assert row["verdict"] == f"{SECOND}.sft-double" and row["lo"] > 0 and row["p_holm"] == row["p"] < 0.05
    assert row["diff"] == pytest.approx(row["a_acc"] - row["b_acc"])
    words = ("--a", "another:sft-double", "--b", "example:ecology", "--split", "retention")
    code, out, _ = run(capsys, home, *words)
    assert code == 0 and "differ in" in out and "arms.sft-double.budget" in out
    sides, table, *_ = out.split("\n\n")
    assert sides == f"a: {SECOND}.sft-double\nb: {FIRST}.ecology\nsplit: retention, router: headline"
    assert max(map(len, table.splitlines())) <= 80 and table.split()[-1] in ("a", "b", "undecided")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["example"], "name two suites"),
        (["example", "nope"], "nope: no such suite"),
        (["example", "example"], "named twice"),
        (["--a", "example:sft"], "by --a and --b"),
        (["--a", "example", "--b", "another:sft"], "names no condition"),
        (["--a", "example:es", "--b", "another:sft"], "not among its evaluated conditions: ecology, frozen"),
        (["example", "another", "--split", "moon"], "choose from holdout_id, holdout_ood, retention"),
        (["example", "another", "--routing", "cell"], "--routing cell"),
        (["example", "smaller"], "different items of holdout_id: 96 are in both, 24 in one alone"),
        (["example", "later"], "they share no seed"),
        (["example", "routed"], "their headlines are the routers family and single"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], home: Path, words: list[str], reason: str
) -> None:
    code, out, err = run(capsys, home, *words)
    assert (code, out) == (1, "") and err.startswith("error: ") and err.count("\n") == 1
    assert reason in err


@pytest.mark.parametrize("changed", ["host", "decoding", "code"])
def test_the_difference_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path, changed: str) -> None:
    write_suite(tmp_path, FIRST, seeds=(0,), items=12)
    write_suite(tmp_path, SECOND, seeds=(0,), items=12, luck=1)
    for manifest in tmp_path.glob("runs/another/*/evaluate/*/manifest.json"):
        document = json.loads(manifest.read_text())
        place = document["identity_document"] if changed == "code" else document["summary"]["comparable"]
        place[changed] = "other"
        manifest.write_text(json.dumps(document))
    code, _, err = run(capsys, tmp_path, FIRST, SECOND)
    assert code == 1 and f"seed 0 differs in {changed} (" in err and err.count("\n") == 1


def judged_on(home: Path, name: str, right: str, program: str = "") -> None:
    """Let the evaluations of a suite be of items with such right answers, and of a task with such a program."""
    made = home / "runs" / name / "shared-s0" / "datasets" / (right + program)
    made.mkdir(parents=True)
    cells = [{"split": "holdout_id", "family": "math", "depth": "short", "n": 12, "sha256": right}]
    pq.write_table(pa.Table.from_pylist(cells), made / "splits.parquet")
    if program:
        (made / "tasks.json").write_text(json.dumps([{"name": "math", "source": program}]))
    for manifest in home.glob(f"runs/{name}/*/evaluate/*/manifest.json"):
        document = json.loads(manifest.read_text())
        document["identity_document"]["inputs"] = {"datasets": made.name, "trained": "0"}
        manifest.write_text(json.dumps(document))


def test_right_answers_that_were_corrected_are_another_test(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The prompts are the same, and what is right is not."""
    write_suite(tmp_path, FIRST, seeds=(0,), items=12)
    write_suite(tmp_path, SECOND, seeds=(0,), items=12, luck=1)
    judged_on(tmp_path, "example", "a")
    for right in ("a", "b"):
        judged_on(tmp_path, "another", right)
        code, _, err = run(capsys, tmp_path, FIRST, SECOND)
        assert (code, "as where they were corrected" in err) == ((0, False), (1, True))[right == "b"], err


def test_where_a_task_lies_decides_nothing_and_its_program_does(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, place, luck in ((FIRST, "tasks/mine.py", 0), (SECOND, "old/mine.py", 1)):
        write_suite(tmp_path, name, seeds=(0,), items=12, luck=luck)
        known: dict[str, Any] = read_suite(tmp_path, suite_id(name)) or {}
        write_settings(tmp_path, suite_id(name), known | {"tasks": [{"name": "mine", "file": place}]})
    judged_on(tmp_path, "example", "a", "verify = strict")
    for program in ("verify = strict", "verify = lenient"):
        judged_on(tmp_path, "another", "a", program)
        code, _, err = run(capsys, tmp_path, FIRST, SECOND)
        assert (code, "the programs that grade" in err) == ((0, False), (1, True))["lenient" in program], err
    other = read_suite(tmp_path, suite_id(SECOND)) or {}
    write_settings(tmp_path, suite_id(SECOND), other | {"tasks": [{"name": "other", "file": "old/mine.py"}]})
    code, _, err = run(capsys, tmp_path, FIRST, SECOND)
    assert code == 1 and "they differ in `tasks`" in err
