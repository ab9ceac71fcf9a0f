"""Packs: what they hold, that they verify, and that one changed number anywhere is found."""

import json
import re
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from example_suite import CONDITIONS, part, write_comparison, write_stage, write_suite
from unplotted import TABLES_ALONE

from evolora_core.errors import PackError, StoreError
from evolora_core.report import StoredSuite, build, build_anew, verify
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.store import record

SUITE = "example-0a1b2c3d"


@pytest.fixture(scope="module")
def home(packed: Path) -> Path:
    """Read here, never changed."""
    return packed


def test_a_pack_has_everything_and_verifies(home: Path, built: Path) -> None:
    names = {str(path.relative_to(built)) for path in built.rglob("*") if path.is_file()}
    tables: tuple[str, ...] = ("paper_table", "comparisons", "by_family", "by_routing", "transfer", "compute")
    tables += ("prices", "origins", "found")
    plots = (
        "accuracy_by_family",
        "gain_and_retention",
        "comparisons",
        "frontier",
        "net_and_roi",
        "energy_and_population",
        "lineage",
    )
    expected = {f"{table}.csv" for table in tables}
    expected |= {f"plots/{plot}.{form}" for plot in plots for form in ("png", "csv")}
    rows = ["suite", "items", "stages", "answers", "charges", "practice", "ledger", "compute", "splits", "leaks"]
    rows += ["calibration", "generations", "organelles", "lineage", "assimilations", "frontier"]
    expected |= {f"data/{name}.parquet" for name in (*rows, "accuracies", "comparisons")}
    assert names == expected | {"README.md", "summary.json", "provenance.json"} and names <= SECTIONS.files
    assert {"data/tuning.parquet", "tuning.csv", "plots/curve.png"} <= SECTIONS.files  # of a pack that has them
    assert "data/episodes.parquet" not in SECTIONS.files
    assert all((built / name).stat().st_size > 100 for name in names)
    assert verify(home, built, SECTIONS) == []
    assert not list(built.parent.glob(".*"))  # nothing half-made stays behind


def test_what_is_missing_is_said_in_few_words(tmp_path: Path) -> None:
    for condition, seed in (("a", 0), ("b", 0), ("b", 2)):
        record(tmp_path, write_stage(tmp_path, part(SUITE, condition, seed, "evaluate"), {}))
    suite = StoredSuite(tmp_path, SUITE)
    object.__setattr__(suite, "config", {"conditions": ["a", "b"], "seeds": [0, 1, 2, 3]})
    assert suite.missing_in_words == "seeds 1, 3, a s2"


def test_a_pack_is_built_anew_from_what_it_carries(home: Path, built: Path, tmp_path: Path) -> None:
    own = shutil.copytree(built, tmp_path / "own")
    (own / "NOTES.md").write_text("mine")
    (own / "README.md").write_text("the words of an older version")
    assert build_anew(own, own, SECTIONS) == own
    assert {path.name: path.read_bytes() for path in own.glob("*.*")} == {
        path.name: path.read_bytes() for path in built.glob("*.*")
    } | {"NOTES.md": b"mine"}
    shutil.rmtree(own / "data")
    with pytest.raises(StoreError, match="holds no rows of a suite"):
        build_anew(own, own, SECTIONS)
    assert (own / "README.md").is_file()


def test_the_readme_says_no_more_than_the_verdicts(built: Path) -> None:
    text = (built / "README.md").read_text()
    summary = json.loads((built / "summary.json").read_text())
    for row, sentence in zip(summary["comparisons"], summary["takeaways"], strict=True):
        assert sentence in text
        assert ("undecided" in sentence) == (row["verdict"] == "undecided")
        assert ("In these runs only" in sentence) == (row["verdict"] != "undecided")
    assert "Nothing about further seeds: there are 3" in text
    assert not re.search(r"\{\{|\{%|\b(None|nan|inf)\b", text)
    assert [row["condition"] for row in summary["paper_table"]] == list(CONDITIONS)
    assert summary["checks"]["largest_ledger_imbalance"] == 0
    merged = [summary["checks"][key] for key in ("merged_children_that_outlived_their_birth", "sums_of_learners")]
    assert merged[0] > 0 and merged[1] == 0


def test_provenance_names_what_the_numbers_were_made_with(built: Path) -> None:
    provenance = json.loads((built / "provenance.json").read_text())
    assert {"host", "tokenizer", "template", "dataset", "code"} <= provenance["measured_with"][0].keys()
    assert len(provenance["measured_with"]) == len(CONDITIONS) * 3
    assert provenance["libraries"] == {"torch": "2.13.0"} and provenance["host"]["threads"] == 1
    assert provenance["config"]["name"] == "example"
    assert {row["key"] for row in provenance["prices"]} == {"rho", "flops_per_unit"}
    assert str(built.parent) not in (built / "provenance.json").read_text()


PLACES = {
    "paper_table.csv": r"0\.\d{4}",
    "comparisons.csv": r"0\.\d{4}",
    "by_family.csv": r"0\.\d{4}",
    "plots/net_and_roi.csv": r"\d\.\d{4}",
    "summary.json": r"0\.\d{4}",
    "provenance.json": r"33\.3",
    "README.md": r"\d\d\.\d \[",
}


def test_one_changed_number_in_any_file_is_found(home: Path, pack: Path) -> None:
    for name, pattern in PLACES.items():
        text = (pack / name).read_text()
        found = re.search(pattern, text)
        assert found is not None
        at = found.start()
        (pack / name).write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
    assert sorted(line.split(": ")[0] for line in verify(home, pack, SECTIONS)) == sorted(PLACES)


def test_missing_and_foreign_files_are_told(home: Path, pack: Path, tmp_path: Path) -> None:
    (pack / "plots" / "lineage.png").unlink()
    (pack / "by_family.csv").unlink()
    (pack / "curve.csv").write_text("condition,acc\necology,1.0\n")
    (pack / "NOTES.md").write_text("mine")
    assert verify(home, pack, SECTIONS) == [
        "by_family.csv: is missing",
        "plots/lineage.png: is missing",
        "curve.csv: does not follow from its data",
    ]
    with pytest.raises(PackError, match="is not a pack"):
        verify(home, tmp_path, SECTIONS)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("mine")
    with pytest.raises(PackError, match="holds something that is not a pack"):
        build(home, SUITE, tmp_path / "other", SECTIONS)
    with pytest.raises(PackError, match="no such suite; it has example-0a1b2c3d"):
        build(home, "other-00000000", tmp_path / "new", SECTIONS)


def test_items_that_change_under_the_comparisons_are_found(home: Path, built: Path, tmp_path: Path) -> None:
    other = tmp_path / "home"
    shutil.copytree(home, other)
    stage = part(SUITE, "sft", 1, "evaluate")
    manifest = json.loads((other / stage.folder / "manifest.json").read_text())
    tables = {
        name: pq.read_table(other / stage.folder / f"{name}.parquet").to_pylist() for name in ("evaluations", "compute")
    }
    wrong = next(row for row in tables["evaluations"] if row["arm"] == "sft" and not row["correct"])
    wrong["correct"] = True
    facts = {key: manifest[key] for key in ("summary", "identity_document")}
    record(other, write_stage(other, stage, tables, **facts))
    with pytest.raises(
        PackError, match=r"comparisons holdout_id ecology sft headline: diff is .* in the store and .* from its items"
    ):
        build(other, SUITE, tmp_path / "pack", TABLES_ALONE)
    assert not (tmp_path / "pack").exists()
    found = verify(other, built, SECTIONS)
    assert any(line.startswith("accuracies sft holdout_id *: acc is") for line in found)


def test_unlike_evaluations_make_no_pack(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "home"
    shutil.copytree(home, other)
    stage = part(SUITE, "sft", 1, "evaluate")
    manifest = json.loads((other / stage.folder / "manifest.json").read_text())
    rows = pq.read_table(other / stage.folder / "evaluations.parquet").to_pylist()
    manifest["summary"]["comparable"]["tokenizer"] = "another"
    facts = {key: manifest[key] for key in ("summary", "identity_document")}
    record(other, write_stage(other, stage, {"evaluations": rows}, **facts))
    with pytest.raises(PackError, match="ecology and sft cannot be compared: seed 1 differs in tokenizer"):
        build(other, SUITE, tmp_path / "pack", TABLES_ALONE)


def test_missing_runs_are_named_and_a_pack_ages(tmp_path: Path) -> None:
    home, out = tmp_path / "home", tmp_path / "pack"
    evaluations = [stage for stage in write_suite(home, SUITE, items=24) if stage.stage == "evaluate"]
    late = [stage for stage in evaluations if stage.seed == 2 and stage.condition in ("sft", "frozen")]
    for stage in evaluations:
        if stage not in late:
            record(home, stage)
    with pytest.raises(PackError, match="run the suite again"):
        build(home, SUITE, out, SECTIONS)  # nothing was compared yet
    record(home, write_comparison(home, SUITE, (0, 1)))
    build(home, SUITE, out, SECTIONS)
    assert "Not evaluated: frozen s2, sft s2" in (out / "README.md").read_text()
    assert json.loads((out / "summary.json").read_text())["seeds"] == [0, 1]
    assert {path.stem for path in (out / "plots").iterdir()} == {
        "accuracy_by_family",
        "gain_and_retention",
        "comparisons",
        "frontier",
    }
    assert verify(home, out, SECTIONS) == []
    for stage in late:
        record(home, stage)
    record(home, write_comparison(home, SUITE, (0, 1, 2)))
    assert len(verify(home, out, SECTIONS)) > 10
