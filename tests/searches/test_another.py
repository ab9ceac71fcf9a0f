"""A search from outside: the house finds, records, packs, verifies, exports, compares and shards it, and no file of the
house knows it.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from example_suite import part, suite_id, write_stage
from example_suite import write_suite as write_adapter_suite
from number_search.pack import SECTIONS

from evolora_core.engine.plugins import search_modules
from evolora_core.engine.rng import stream
from evolora_core.engine.run_index import write_suite
from evolora_core.engine.strict import document_hash
from evolora_core.errors import StoreError
from evolora_core.report import build, export, verify
from evolora_core.searches.adapters.pack.sections import SECTIONS as ADAPTERS
from evolora_core.statistics.comparisons import write_comparisons
from evolora_core.store import Slice, fingerprints, merge, query, read, rebuild, record, store_path, write_shard

CONDITIONS = ("evolved", "guessed")
SEEDS = tuple(range(6))
COMPARISONS = [{"a": "evolved", "b": "guessed", "split": "test"}]
CONFIG = {
    "name": "number", "search": "number", "seeds": list(SEEDS), "conditions": list(CONDITIONS),
    "evaluation": {"comparisons": COMPARISONS, "bootstrap": 1000}, "steps": 5,
}  # fmt: skip
SUITE = f"number-{document_hash(CONFIG)}"


def write(home: Path, seeds: Sequence[int] = SEEDS, *, seconds: float = 0.5, off: float = 0.0) -> list[Slice]:
    """Every stage of a suite that looks for the number 7: right is who is near enough to each of 64 tolerances."""
    made = []
    for seed in seeds:
        for condition in CONDITIONS:
            rng = stream(seed, 0, 0, "number", condition)
            errors = [9.0 * rng.uniform(0.7, 0.9) ** (3 * step if condition == "evolved" else 0) for step in range(5)]
            steps = [
                {"step": i, "number": 7 + e + off * (i == 1), "error": e, "note": ""} for i, e in enumerate(errors)
            ]
            steps[0] |= {"note": f"{seed} seconds on this machine", "error": errors[0] + seconds}
            tries = [{"step": i, "place": 0, "number": 7 + e} for i, e in enumerate(errors)]
            spent = [{"purpose": "search", "flops": 100 + seed, "executed_flops": 100, "tokens": 0, "seconds": seconds}]
            tables: dict[str, list[dict[Any, Any]]] = {"number_steps": steps, "number_tries": tries, "compute": spent}
            made.append(write_stage(home, part(SUITE, condition, seed, "search"), tables))
            answers = [
                {"split": "test", "task_id": f"within-{i}", "arm": condition, "correct": errors[-1] < i / 8}
                | {"answered_with": 7 + errors[-1]}
                for i in range(64)
            ]
            facts: dict[str, Any] = {"summary": {"comparable": {"target": 7}}, "identity_document": {"code": "c" * 16}}
            made.append(write_stage(home, part(SUITE, condition, seed, "evaluate"), {"evaluations": answers}, **facts))
    write_suite(home, suite_id(SUITE), CONFIG)
    return made


def compare(home: Path, out: Path) -> Slice:
    """The stage that compares."""
    runs = [(condition, seed) for condition in CONDITIONS for seed in SEEDS]
    folders = {run: home / part(SUITE, *run, "evaluate").folder for run in runs}
    out.mkdir()
    tables: Any = write_comparisons(folders, COMPARISONS, out, resamples=1000)
    return write_stage(home, part(SUITE, "suite", 0, "compare"), tables)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("number")
    write(home)
    compare(home, tmp_path_factory.mktemp("tables") / "out")
    rebuild(home)
    return home


@pytest.fixture(scope="module")
def pack(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "number", SECTIONS)


def test_it_is_found_where_it_is_installed(home: Path) -> None:
    assert search_modules()["number"] == "number_search"
    assert {"core", "adapters", "number"} <= {name for (name,) in query(home, "SELECT owner FROM schema_version").rows}
    assert query(home, "SELECT host FROM suites").rows == [(None,)]
    assert query(home, "SELECT condition, seeds FROM number_table ORDER BY ALL").rows == [
        ("evolved", 6),
        ("guessed", 6),
    ]
    assert query(home, "FROM paper_table").rows == []


def test_its_pack_has_what_it_says_and_verifies_where_no_store_is(home: Path, pack: Path, tmp_path: Path) -> None:
    names = {path.relative_to(pack).as_posix() for path in pack.rglob("*") if path.is_file()}
    expected = {f"{table}.csv" for table in SECTIONS.tables} | {"README.md", "summary.json", "provenance.json"}
    expected |= {f"plots/{plot}.{form}" for plot in SECTIONS.plots for form in ("png", "csv")}
    rows = ("suite", "stages", "items", "answers", "charges", "accuracies", "comparisons", "compute", "number_steps")
    assert names == expected | {f"data/{name}.parquet" for name in rows}
    answers = pq.read_schema(pack / "data" / "answers.parquet").names
    assert "answered_with" in answers and "organelle" not in answers
    assert verify(tmp_path, pack, SECTIONS) == verify(home, pack, SECTIONS) == []
    text = (pack / "README.md").read_text()
    assert "| evolved   | " in text and "plots/errors.png" in text and "negative errors" in text
    assert "**evolved answers more than guessed on test.**" in text
    provenance = json.loads((pack / "provenance.json").read_text())
    assert provenance["measured_with"][0] == {"condition": "evolved", "seed": 0, "target": 7, "code": "c" * 16}


def test_one_changed_number_is_found(pack: Path, tmp_path: Path) -> None:
    text = (pack / "number_table.csv").read_text()
    (pack / "number_table.csv").write_text(text.replace("guessed,6,9", "guessed,6,8"))
    assert verify(tmp_path, pack, SECTIONS) == ["number_table.csv: line 3 has `8`, its data gives `9`"]
    (pack / "number_table.csv").write_text(text)


def test_it_is_exported_from_its_csv_alone(home: Path, pack: Path, tmp_path: Path) -> None:
    files = {path.relative_to(tmp_path).as_posix() for path in export(pack, ("latex", "md", "svg"), tmp_path, SECTIONS)}
    assert files == SECTIONS.exported
    readme = (pack / "README.md").read_text()
    for table in SECTIONS.tables:
        assert (tmp_path / f"{table}.md").read_text().split("\n\n")[1].strip() in readme


def test_shards_of_two_homes_are_its_whole(home: Path, pack: Path, tmp_path: Path) -> None:
    for name, seeds in (("first", SEEDS[:2]), ("second", SEEDS[2:])):
        write(tmp_path / name, seeds)
        rebuild(tmp_path / name)
        assert len(write_shard(tmp_path / name, SUITE, tmp_path / f"shard-{name}")) == 2 * len(seeds)
    joined = tmp_path / "joined"
    joined.mkdir()
    assert merge(joined, [tmp_path / "shard-first", tmp_path / "shard-second"]).stages == 24
    stages = query(joined, "SELECT seed FROM complete_seeds ORDER BY ALL").rows
    assert [seed for (seed,) in stages] == list(SEEDS)
    record(joined, write_stage(joined, part(SUITE, "suite", 0, "compare"), _tables(home)))
    again = build(joined, SUITE, tmp_path / "pack", SECTIONS)
    for file in (*pack.glob("*.csv"), pack / "README.md", pack / "summary.json", *pack.glob("plots/*")):
        assert file.read_bytes() == (again / file.relative_to(pack)).read_bytes(), file.name
    third = tmp_path / "third"
    third.mkdir()
    other = read(tmp_path / "shard-first")["stages"].to_pylist()[0]
    assert json.loads(other["manifest"])["summary"]["comparable"] == {"target": 7}
    with pytest.raises(StoreError, match="differs in the target of evaluations: 8 here, 7 in evaluate of"):
        merge(third, [tmp_path / "shard-first", _aiming_at_eight(tmp_path)])


def _tables(home: Path) -> dict[str, Any]:
    columns = {"comparisons": "* EXCLUDE (suite, run_id, condition, seed, stage)"}
    columns["accuracies"] = columns["comparisons"]
    return {name: query(home, f"SELECT {shown} FROM data.{name}").records() for name, shown in columns.items()}


def _aiming_at_eight(folder: Path) -> Path:
    """The second shard, with another target in its manifests."""
    table = pq.read_table(folder / "shard-second" / "stages.parquet").to_pylist()
    for row in table:
        row["manifest"] = row["manifest"].replace('"target": 7', '"target": 8')
    pq.write_table(pq.read_table(folder / "shard-second" / "stages.parquet").from_pylist(table), folder / "changed")
    (folder / "changed").replace(folder / "shard-second" / "stages.parquet")
    return folder / "shard-second"


def test_its_fingerprints_leave_out_the_machine_and_survive_a_rebuild(home: Path, tmp_path: Path) -> None:
    found = fingerprints(home, SUITE)
    assert {"number_steps", "number_tries", "evaluations"} <= found.keys()
    stages = write(tmp_path, seconds=7.25)
    for stage in stages:
        record(tmp_path, stage)
    write(tmp_path / "off", off=0.25)
    rebuild(tmp_path / "off")
    other = fingerprints(tmp_path / "off", SUITE)
    assert other["number_steps"] != found["number_steps"] and other["number_tries"] == found["number_tries"]
    same = {table for table, value in fingerprints(tmp_path, SUITE).items() if value == found[table]}
    assert {"number_steps", "number_tries", "evaluations", "compute"} <= same
    with pytest.raises(StoreError):
        query(tmp_path, "SELECT * FROM data.number_steps; SELECT 1")
    store_path(tmp_path).unlink()
    assert rebuild(tmp_path).left_out == []
    assert {t for t, value in fingerprints(tmp_path, SUITE).items() if value == found[t]} == same


def test_two_searches_share_a_store(tmp_path: Path) -> None:
    write(tmp_path)
    compare(tmp_path, tmp_path / "tables")
    write_adapter_suite(tmp_path, seeds=(0,), items=24)
    rebuild(tmp_path)
    ours, adapters = (replace(sections, plots={}) for sections in (SECTIONS, ADAPTERS))  # plots take most of the time
    one = build(tmp_path, SUITE, tmp_path / "one", ours)
    two = build(tmp_path, "example-0a1b2c3d", tmp_path / "two", adapters)
    assert verify(tmp_path, one, ours) == verify(tmp_path, two, adapters) == []
    assert "answered_with" not in pq.read_schema(two / "data" / "answers.parquet").names
    assert {suite for (suite,) in query(tmp_path, "SELECT suite FROM paper_table").rows} == {"example-0a1b2c3d"}
