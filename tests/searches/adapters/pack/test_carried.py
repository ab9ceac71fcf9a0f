"""Packs that carry their rows: they verify where no store is, what is edited or damaged is named, they stay small."""

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from big_suite import write_big_store
from example_suite import suite_id
from unplotted import TABLES_ALONE

from evolora_core.errors import PackError, StoreError
from evolora_core.report import build, export, renamed, verify
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.store import carry, query, read, rebuild, store_path, unpacked
from evolora_core.store.connection import opened

SUITE = "example-0a1b2c3d"


@pytest.fixture(scope="module")
def home(packed: Path) -> Path:
    """Read here, never changed."""
    return packed


@pytest.fixture
def nowhere(tmp_path: Path) -> Path:
    """A home without a store."""
    (tmp_path / "empty").mkdir()
    return tmp_path / "empty"


def _edit(file: Path, column: str, row: int, value: object) -> None:
    table = pq.read_table(file)
    cells = table[column].to_pylist()
    cells[row] = value
    place = table.schema.get_field_index(column)
    pq.write_table(table.set_column(place, column, pa.array(cells, table.schema.field(column).type)), file)


def test_a_pack_verifies_where_no_store_is(pack: Path, nowhere: Path) -> None:
    assert verify(nowhere, pack, SECTIONS) == []
    assert list(nowhere.iterdir()) == []


def test_a_suite_that_has_only_begun_here_says_nothing_of_its_pack(pack: Path, home: Path, tmp_path: Path) -> None:
    begun, late = tmp_path / "begun", tmp_path / "late"
    shutil.copytree(home / "runs", begun / "runs")
    index = suite_id(SUITE).index(begun)
    late.mkdir()
    for entry in index.glob("*.evaluate.json"):
        shutil.move(entry, late)
    rebuild(begun)
    assert verify(begun, pack, SECTIONS) == []
    for entry in late.glob("*-s0.evaluate.json"):  # one seed of three is whole
        shutil.move(entry, index)
    rebuild(begun)
    assert query(begun, "SELECT seed FROM complete_seeds").rows == [(0,)]
    assert verify(begun, pack, SECTIONS) == []


def test_the_rows_of_a_pack_give_what_the_views_give(home: Path, pack: Path) -> None:
    with unpacked(read(pack / "data")) as rows:
        for view in ("paper_table", "comparison", "discovery", "gain_by_origin", "ledger_balance", "holdout_accuracy"):
            sql = f"FROM {view} WHERE suite = '{SUITE}' ORDER BY ALL"
            given, kept = query(home, sql), query(rows, sql)
            assert given.columns == kept.columns
            assert [pytest.approx(row, nan_ok=True) for row in given.records()] == kept.records(), view


def test_an_edited_answer_is_found_without_a_store(pack: Path, nowhere: Path) -> None:
    answers = pq.read_table(pack / "data" / "answers.parquet")
    row = next(i for i, arm in enumerate(answers["arm"].to_pylist()) if arm == "sft")
    _edit(pack / "data" / "answers.parquet", "correct", row, not answers["correct"][row].as_py())
    found = verify(nowhere, pack, SECTIONS)
    assert any(line.startswith("accuracies sft holdout_id *: acc is") for line in found)
    assert any(line.startswith("paper_table.csv: line 5 has") and "its data gives" in line for line in found)
    assert any(line.startswith("provenance.json: data.answers.parquet is") for line in found)


def test_an_edited_number_is_found_without_a_store(pack: Path, nowhere: Path) -> None:
    file = pack / "compute.csv"
    file.write_text(file.read_text().replace("ecology,update,3,3", "ecology,update,3,4"))
    assert [line.split(" has")[0] for line in verify(nowhere, pack, SECTIONS)] == ["compute.csv: line 6"]
    _edit(pack / "data" / "ledger.parquet", "amount", 0, 17)
    assert any(
        line.startswith("summary.json: checks.largest_ledger_imbalance") for line in verify(nowhere, pack, SECTIONS)
    )


def test_a_row_beside_the_honest_one_is_found_without_a_store(pack: Path, nowhere: Path) -> None:
    file = pack / "data" / "accuracies.parquet"
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows.slice(0, 1), rows]), file)
    assert "accuracies: 1 rows of its data stand twice" in verify(nowhere, pack, SECTIONS)


def test_settings_other_than_those_of_the_suites_id_are_found(pack: Path) -> None:
    (line,) = renamed(pack)  # the id of the example is not made of its settings
    file = pack / "provenance.json"
    file.write_text(file.read_text().replace(SUITE, f"example-{line.split()[-1]}"))
    assert renamed(pack) == []
    stamp = json.loads(file.read_text())
    del stamp["config"]["evaluation"]["comparisons"][0]
    file.write_text(json.dumps(stamp))
    assert len(renamed(pack)) == 1


def test_settings_keep_all_their_digits(home: Path, tmp_path: Path) -> None:
    """Others would give another hash than the suite's id has."""
    own = Path(shutil.copytree(home, tmp_path / "own"))
    with opened(store_path(own)) as connection:
        connection.execute(
            """UPDATE data.suites SET config = json_merge_patch(config, '{"note": 0.0006666666666666666}')"""
        )
    stamp = json.loads((build(own, SUITE, tmp_path / "pack", TABLES_ALONE) / "provenance.json").read_text())
    assert stamp["config"]["note"] == 0.0006666666666666666


def test_rows_that_are_not_the_stores_are_named(home: Path, pack: Path) -> None:
    _edit(pack / "data" / "compute.parquet", "seconds", 0, 1e6)  # of a time only the pack's own tables speak
    found = verify(home, pack, SECTIONS)
    assert found and all("the store" not in line for line in found)
    _edit(pack / "data" / "frontier.parquet", "correct", 0, 1)
    (line,) = (line for line in verify(home, pack, SECTIONS) if "the store" in line)  # not every number made of it
    assert line.startswith(
        "data/frontier.parquet: row 1 (ecology 0 evaluate holdout_id) has correct 1, the store gives"
    )


def test_what_a_stage_found_is_held_against_the_stores(home: Path, pack: Path) -> None:
    """A pack's notes on items left out, on settings chosen and on what was not run come from there."""
    file = pack / "data" / "stages.parquet"
    rows = pq.read_table(file)
    row = rows["stage"].to_pylist().index("evaluate")
    manifest = json.loads(rows["manifest"][row].as_py())
    same = {"started": "earlier", "seconds": 9.0, "summary": manifest["summary"] | {"absent": None}}
    _edit(file, "manifest", row, json.dumps(manifest | same))
    _edit(file, "identity", row, "0" * 16)  # of other code, which found the same
    assert not any("the store" in line for line in verify(home, pack, SECTIONS))
    summary = {"comparable": manifest["summary"]["comparable"] | {"host": "forged"}}
    _edit(file, "manifest", row, json.dumps(manifest | {"summary": summary}))
    (line,) = (line for line in verify(home, pack, SECTIONS) if line.startswith("data/stages.parquet"))
    assert 'summary.comparable.host is "forged", the store gives' in line


def test_damaged_missing_and_strange_rows_are_named_in_a_line(home: Path, pack: Path, nowhere: Path) -> None:
    file = pack / "data" / "answers.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:400] + bytes([whole[400] ^ 255]) + whole[401:])
    (found,) = verify(nowhere, pack, SECTIONS)
    assert found.startswith("data/answers.parquet: damaged (") and "\n" not in found
    assert verify(home, pack, SECTIONS)[0] == found  # and what the store says, too
    file.write_bytes(whole)
    (pack / "data" / "stages.parquet").unlink()
    assert verify(nowhere, pack, SECTIONS) == ["data: has no stages.parquet, so it holds no rows of a suite"]
    (pack / "data" / "mine.parquet").write_bytes(whole)
    (found,) = verify(nowhere, pack, SECTIONS)
    assert found.startswith("data/mine.parquet: no file of a pack or shard")


def test_a_pack_without_its_rows_is_refused(home: Path, pack: Path) -> None:
    shutil.rmtree(pack / "data")
    with pytest.raises(PackError, match="has no folder data/ .* copy the whole pack"):
        verify(home, pack, SECTIONS)


def test_a_damaged_plot_is_named(pack: Path) -> None:
    file = pack / "plots" / "gain_and_retention.csv"
    file.write_text(file.read_text().replace("gain", "pain", 1))
    with pytest.raises(PackError, match=r"gain_and_retention\.csv: does not have the rows of such a plot"):
        export(pack, ("svg",), pack, SECTIONS)


def test_other_forms_are_made_of_the_pack_alone(home: Path, pack: Path, nowhere: Path) -> None:
    files = {path.relative_to(pack).as_posix() for path in export(pack, ("latex", "md", "svg"), pack, SECTIONS)}
    assert {"paper_table.tex", "found.md", "plots/lineage.svg"} <= files and len(files) == 9 * 2 + 7
    readme = (pack / "README.md").read_text()
    for table in pack.glob("*.md"):
        if table.name != "README.md":
            for shown in table.read_text().split("\n\n")[1::2]:
                assert shown.strip() in readme, table.name
    assert verify(nowhere, pack, SECTIONS) == []
    text = (pack / "comparisons.tex").read_text()
    (pack / "comparisons.tex").write_text(re.sub(r"\d+\.\d", "99.9", text, count=1))
    assert [line.split(":")[0] for line in verify(nowhere, pack, SECTIONS)] == ["comparisons.tex"]
    build(home, SUITE, pack, TABLES_ALONE)
    assert not (pack / "comparisons.tex").exists()  # of the pack before


def test_the_rows_of_eight_seeds_are_small_and_are_themselves_once_more(tmp_path: Path) -> None:
    suite = write_big_store(tmp_path)
    carry(tmp_path, suite, tmp_path / "data")
    assert sum(file.stat().st_size for file in (tmp_path / "data").iterdir()) < 400_000
    rows = read(tmp_path / "data")
    with unpacked(rows) as again:
        carry(again, suite, tmp_path / "again")
    assert read(tmp_path / "again") == rows
    with pytest.raises(StoreError, match="the store has no such suite"):
        carry(tmp_path, "other-00000000", tmp_path / "other")
