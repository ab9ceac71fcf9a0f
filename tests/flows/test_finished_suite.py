"""The smoke suite end to end on the shipped host, real Prefect, TRL and DuckDB; and everything that one does with it
then.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evolora_core.engine import identity
from evolora_core.engine.artifacts import read_manifest
from evolora_core.engine.run_index import entries
from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.arms.registry import TRAINED
from evolora_core.searches.registry import find_suite
from evolora_core.store import kept_open, query, store_path
from flows.cli import main
from tasks.stage import SCRATCH

ROOT = Path(__file__).resolve().parents[2]
TINY = str(ROOT / "configs" / "suites" / "tiny.yaml")


@pytest.fixture(scope="module")
def finished(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """The suite, run once."""
    from flows.paper_suite import paper_suite

    place = tmp_path_factory.mktemp("suite")
    before = os.getcwd(), os.environ["EVOLORA_HOME"]
    os.chdir(place)
    os.environ["EVOLORA_HOME"] = str(place / "home")
    made = paper_suite(TINY, ["processes=1"])
    home = place / "home"
    facts = {"begun": list(entries(home, find_suite(home, made["suite"]))), "left": [*place.iterdir()]}
    yield SimpleNamespace(home=home, place=place, suite=made["suite"], pack=place / made["pack"], **facts)
    os.chdir(before[0])
    os.environ["EVOLORA_HOME"] = before[1]


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command prints; it must succeed."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(arguments)
    printed = capsys.readouterr()
    assert end.value.code == 0, printed.err
    return printed.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which a command refuses."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(arguments)
    printed = capsys.readouterr()
    assert end.value.code == 1
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    return printed.err


def every_row(home: Path) -> dict[str, list[Any]]:
    """The whole store."""
    with kept_open(home):
        tables = query(home, "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'data'").rows
        return {name: query(home, f"SELECT * FROM data.{name} ORDER BY ALL").rows for (name,) in sorted(tables)}


def test_every_stage_is_done_and_in_the_store(finished: SimpleNamespace) -> None:
    found = finished.begun
    assert {entry.state for entry in found} == {"done"}
    recorded = set(query(finished.home, "SELECT run_id, stage FROM stages").rows)
    assert recorded == {(entry.run_id, entry.stage) for entry in found}
    assert {(e.condition, e.seed, e.stage) for e in found} >= {
        ("shared", 0, "datasets"), ("shared", 1, "price"), ("ecology", 1, "calibrate"), ("ecology", 1, "evolve"),
        ("single", 0, "evolve"),
        ("sft", 1, "sft"), ("frozen", 0, "evaluate"), ("tuning", 1000, "choose"), ("suite", 0, "compare"),
    }  # fmt: skip


def test_the_paper_table_has_every_condition_with_both_seeds(finished: SimpleNamespace) -> None:
    rows = query(finished.home, "SELECT condition, seeds, holdout_id_acc, train_flops FROM paper_table").records()
    assert [row["condition"] for row in rows] == ["frozen", "single", "ecology", "sft"]
    assert {row["seeds"] for row in rows} == {2}
    assert [row["train_flops"] is None for row in rows] == [True, False, False, False]


def test_an_estimate_counts_what_one_more_seed_would_take(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.stat().st_mtime_ns for path in finished.home.rglob("*")}
    again = json.loads(command(capsys, "run", TINY, "--set", "processes=1", "--estimate", "--json"))
    assert again[-1]["done"] == again[-1]["stages"] and again[-1]["seconds"] == again[-1]["elapsed"] == 0
    changes = ["--set", "processes=1", "--set", "seeds=[0,1,2]"]
    rows = json.loads(command(capsys, "run", TINY, *changes, "--estimate", "--json"))
    assert {path: path.stat().st_mtime_ns for path in finished.home.rglob("*")} == before
    left = {(row["condition"], row["stage"]): row for row in rows if row["done"] < row["stages"]}
    assert {row["stages"] - row["done"] for key, row in left.items() if key[1] != "total"} == {1}
    assert ("tuning", "tune") not in left and rows[-1]["elapsed"] == pytest.approx(rows[-1]["seconds"])

    sql = "SELECT condition, stage, flops FROM stages WHERE seed = 0"
    made = {(condition, stage): flops for condition, stage, flops in query(finished.home, sql).rows}
    for key in (("shared", "price"), ("sft", "sft"), ("frozen", "evaluate")):
        assert left[key]["flops"] == pytest.approx(made[key], rel=0.2)
    evolved = left["ecology", "calibrate"]["flops"] + left["ecology", "evolve"]["flops"]
    assert evolved == pytest.approx(made["ecology", "evolve"] - made["shared", "price"], rel=0.5)  # two generations


def test_rivals_stay_within_the_budget_of_the_ecology(finished: SimpleNamespace) -> None:
    sql = "SELECT seed, condition, sum(flops) FROM compute WHERE stage IN ('evolve', 'sft') GROUP BY ALL"
    spent = {(seed, condition): flops for seed, condition, flops in query(finished.home, sql).rows}
    for seed in (0, 1):
        for rival in ("single", "sft"):
            assert 0.7 * spent[seed, "ecology"] < spent[seed, rival] <= spent[seed, "ecology"]


def test_every_arm_was_tuned_by_as_many_trials(finished: SimpleNamespace) -> None:
    rows = query(finished.home, "SELECT arm, count(*), min(flops) > 0 FROM tuning GROUP BY ALL ORDER BY arm").rows
    assert rows == [("ecology", 2, True), ("sft", 2, True), ("single", 2, True)]
    assert query(finished.home, "SELECT DISTINCT purpose FROM compute WHERE stage LIKE 'try-%'").rows == [("tuning",)]


def test_books_balance_and_nothing_leaks(finished: SimpleNamespace) -> None:
    assert query(finished.home, "SELECT max(abs(balance)) FROM ledger_balance").rows == [(0.0,)]
    assert query(finished.home, "SELECT sum(shared)::BIGINT FROM leaks").rows == [(0,)]


def test_task_runs_say_condition_and_seed_and_the_table_is_an_artifact(finished: SimpleNamespace) -> None:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        names = {run.name for run in client.read_task_runs(limit=200)}
        flows = {run.name for run in client.read_flow_runs(limit=200)}
        own = {run.id for run in client.read_flow_runs(limit=200) if run.name == finished.suite}
        made = [artifact for artifact in client.read_artifacts() if artifact.flow_run_id in own]
        artifacts: dict[str | None, Any] = {artifact.key: artifact for artifact in made}
    assert {"evolve ecology s1", "sft s0", "evaluate frozen s1", "datasets s0", "record compare"} <= names
    assert finished.suite in flows
    shown = json.loads(artifacts["paper-table"].data)
    assert list(shown[0])[:3] == ["condition", "seeds", "in distribution %"]
    assert [row["condition"] for row in shown] == ["frozen", "single", "ecology", "sft"]
    assert f"({(finished.pack / 'README.md').as_uri()})" in artifacts["paper-table"].description
    assert (finished.pack / "README.md").as_uri() in artifacts["paper-pack"].data
    if find_spec("altair") and find_spec("vl_convert"):  # the extra `scope`
        page = finished.home / "scope" / f"{finished.suite}.html"
        assert page.as_uri() in artifacts["scope"].data and page.stat().st_size > 900_000


def test_the_run_graph_is_the_chain(finished: SimpleNamespace) -> None:
    """Prefect's graph, as its page draws it: an edge for every need, down to the pack."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterName

    with get_client(sync_client=True) as client:
        named = FlowRunFilter(name=FlowRunFilterName(any_=[finished.suite]))
        runs: list[Any] = client.read_flow_runs(flow_run_filter=named)
        first = min(runs, key=lambda run: run.created)
        nodes: list[Any] = []
        while not any(node["label"] == "record pack" for _, node in nodes):  # the server hears of task runs by events
            time.sleep(0.1)
            nodes = client.request("GET", "/flow_runs/{id}/graph-v2", path_params={"id": first.id}).json()["nodes"]
    label = {key: node["label"] for key, node in nodes}
    edges = {(label[parent["id"]], node["label"]) for _, node in nodes for parent in node["parents"]}
    trial = "try-ecology-0 tuning s1000"
    chain = ["datasets s0", "price s0", "calibrate ecology s0", "evolve ecology s0", "sft s0", "evaluate sft s0"]
    chain += ["compare", "record compare", "pack"]
    assert set(zip(chain, chain[1:], strict=False)) <= edges
    assert {
        ("evolve ecology s1", "evolve single s1"),
        ("datasets s1000", trial),
        (trial, "choose tuning s1000"),
    } <= edges
    assert ("choose tuning s1000", "evolve ecology s0") in edges
    assert {child for parent, child in edges if parent == "sft s0"} == {"evaluate sft s0", "record sft s0"}
    lonely = {name for name in label.values() if not any(name == child for _, child in edges)}
    assert lonely == {"datasets s0", "datasets s1", "datasets s1000"}


def test_an_evolution_goes_on_from_its_calibration(finished: SimpleNamespace) -> None:
    (evolved,) = finished.home.glob("runs/tiny/ecology-s0/evolve/*/manifest.json")
    (calibrated,) = finished.home.glob("runs/tiny/ecology-s0/calibrate/*/manifest.json")
    first = json.loads(calibrated.read_text())["summary"]["generations"]
    log = (finished.home / "runs/tiny/ecology-s0/log.jsonl").read_text()
    assert f"resumed at generation {first}" in log
    assert f"checkpoints/g{first:06d}/state.json" in json.loads(evolved.read_text())["files"]
    facts = "SELECT key, value FROM calibration WHERE condition = 'ecology' AND seed = 0"
    found = dict(query(finished.home, facts).rows)
    assert found["generation_seconds"] > 0 and found["peak_bytes"] > 2**20 and 0 < found["rewarded"] < 1


def test_a_second_run_computes_nothing_and_changes_no_row(finished: SimpleNamespace) -> None:
    from flows.paper_suite import paper_suite

    rows = every_row(finished.home)
    pack = {path: path.stat().st_mtime_ns for path in finished.pack.rglob("*")}
    manifests = {path: path.stat().st_mtime_ns for path in finished.home.glob("runs/**/manifest.json")}
    store = store_path(finished.home).stat().st_mtime_ns
    assert paper_suite(TINY, ["processes=1"]) == {"suite": finished.suite, "pack": "packs/tiny"}
    assert store_path(finished.home).stat().st_mtime_ns == store
    assert every_row(finished.home) == rows
    assert {path: path.stat().st_mtime_ns for path in finished.pack.rglob("*")} == pack
    assert {path: path.stat().st_mtime_ns for path in finished.home.glob("runs/**/manifest.json")} == manifests
    assert {entry.state for entry in entries(finished.home, find_suite(finished.home, "tiny"))} == {"cached"}


def test_a_named_stage_is_made_again_from_the_suite_s_id_alone(finished: SimpleNamespace) -> None:
    from flows.paper_suite import paper_suite

    rows = every_row(finished.home)
    shutil.rmtree(next(finished.home.glob("runs/tiny/sft-s1/evaluate/*/manifest.json")).parent)
    assert paper_suite(finished.suite, only=[f"{finished.suite}.sft.s1.evaluate"]) == {
        "suite": finished.suite,
        "pack": "",
    }
    states = {
        f"{e.condition}.s{e.seed}.{e.stage}": e.state for e in entries(finished.home, find_suite(finished.home, "tiny"))
    }
    assert [name for name, state in states.items() if state != "cached"] == ["sft.s1.evaluate"]
    again, kept = every_row(finished.home), ("evaluations", "accuracies", "comparisons")
    assert {table: again[table] for table in kept} == {table: rows[table] for table in kept}
    pack = {path: path.stat().st_mtime_ns for path in finished.pack.rglob("*")}
    seed = [f"{condition}.s1" for condition in ("frozen", "single", "ecology", "sft")]
    assert paper_suite(finished.suite, only=seed)["pack"] == ""  # one seed's pack would take the place of both's
    assert query(finished.home, "SELECT * FROM data.comparisons ORDER BY ALL").rows == rows["comparisons"]
    assert {path: path.stat().st_mtime_ns for path in finished.pack.rglob("*")} == pack
    assert paper_suite(finished.suite, only=["suite.s0.pack"])["pack"] == "packs/tiny"
    with pytest.raises(ConfigError, match="sft.s7: tiny-.* has no such run or stage"):
        paper_suite(finished.suite, only=["sft.s7"])


@pytest.mark.slow
def test_a_plot_s_code_changes_the_pack_alone(finished: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.paper_suite import paper_suite

    hashed = identity._code_hash
    monkeypatch.setattr(identity, "_code_hash", lambda name: hashed(name) + "x" * (name == "evolora_core.report.plots"))
    paper_suite(TINY, ["processes=1"])
    states = {entry.stage: entry.state for entry in entries(finished.home, find_suite(finished.home, "tiny"))}
    assert {stage for stage, state in states.items() if state != "cached"} == {"pack"}


def test_a_verifier_s_code_counts_wherever_answers_are_made(finished: SimpleNamespace) -> None:
    made = {entry.stage: entry.folder for entry in entries(finished.home, find_suite(finished.home, finished.suite))}
    counted = {stage: _identity_document(finished.home / folder)["also"] for stage, folder in made.items()}
    trained = {f"evolora_core.language.families.{name}" for name in ("math", "string_sort")}
    every = trained | {f"evolora_core.language.families.{name}" for name in ("code_format", "word_count")}
    families = {stage: {name for name in modules if ".families." in name} for stage, modules in counted.items()}
    assert {stage for stage, own in families.items() if not own} == {"choose", "compare", "pack"}
    assert families["datasets"] == families["evaluate"] == every
    assert families["price"] == families["evolve"] == families["sft"] == families["try-sft-0"] == trained


def _identity_document(folder: Path) -> dict[str, Any]:
    manifest = read_manifest(folder)
    assert manifest
    document: dict[str, Any] = manifest["identity_document"]
    return document


@pytest.mark.parametrize("arm", TRAINED)
def test_whatever_chooses_routes_is_part_of_every_training_stage(arm: str) -> None:
    decides = {
        "evolora_core.searches.adapters.routing.candidates",
        "evolora_core.searches.adapters.routing.routes",
        "evolora_core.lora.answering.pricing",
    }
    assert decides <= identity.import_closure(TRAINED[arm].module)


def test_an_artefact_has_nothing_that_only_a_killed_stage_needs(finished: SimpleNamespace) -> None:
    assert (finished.home / "runs").exists()
    assert not [path for path in (finished.home / "runs").rglob("*") if path.name in SCRATCH]


def test_rebuilding_the_store_gives_the_same_rows(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = every_row(finished.home)
    (finished.home / "evolora.duckdb").unlink()
    assert "recorded" in command(capsys, "store", "rebuild")
    assert every_row(finished.home) == rows


def test_the_pack_verifies_and_a_changed_number_is_found(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "every number" in command(capsys, "pack", "verify", str(finished.pack))
    copy = finished.place / "copy"
    assert str(copy) in command(capsys, "pack", "tiny", "--out", str(copy))
    table = copy / "paper_table.csv"
    table.write_text(table.read_text().replace(",2,", ",3,", 1))
    with pytest.raises(SystemExit) as end:
        main(["pack", "verify", str(copy)])
    assert end.value.code == 1
    assert "paper_table.csv" in capsys.readouterr().out


def test_status_lists_every_stage(finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    rows = json.loads(command(capsys, "status", "tiny", "--json"))
    assert {"run", "stage", "state", "seconds", "flops", "reason"} <= set(rows[0])
    assert f"{finished.suite}.sft.s1" in {row["run"] for row in rows}
    assert "evaluate" in command(capsys, "status")


def test_a_stage_whose_folder_is_gone_is_missing(finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    known = next(
        entry for entry in entries(finished.home, find_suite(finished.home, "tiny")) if entry.stage == "evaluate"
    )
    manifest = finished.home / known.folder / "manifest.json"
    manifest.rename(manifest.with_suffix(".away"))
    try:
        rows = json.loads(command(capsys, "status", "tiny", "--json"))
    finally:
        manifest.with_suffix(".away").rename(manifest)
    assert [(row["run"], row["stage"]) for row in rows if row["state"] == "missing"] == [(known.run_id, "evaluate")]


@pytest.mark.parametrize(("form", "mark"), [("table", "condition"), ("csv", "\n"), ("md", "| "), ("latex", "toprule")])
def test_sql_prints_every_form(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str], form: str, mark: str
) -> None:
    text = command(capsys, "sql", "SELECT condition, holdout_id_acc FROM paper_table", "--format", form)
    assert mark in text
    assert "ecology" in text


def test_sql_prints_json_and_only_reads(finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    exotic = "SELECT 0.5 AS half, 'nan'::DOUBLE AS nan, DATE '2024-02-29' AS day"
    assert json.loads(command(capsys, "sql", exotic, "--format", "csv", "--json")) == [
        {"half": 0.5, "nan": None, "day": "2024-02-29"}
    ]
    assert command(capsys, "sql", "SELECT 1 AS a", "--format", "md") == "|  a |\n| -: |\n|  1 |\n"
    assert "error: SQL: no statement" in refused(capsys, "sql", "/* nothing */")
    (row,) = json.loads(command(capsys, "sql", "SELECT 1 AS one, NULL AS none", "--json"))
    assert row == {"one": 1, "none": None}
    assert "error: SQL: " in refused(capsys, "sql", "SELECT nope FROM paper_table")
    assert "read" in refused(capsys, "sql", "DELETE FROM data.episodes")


def test_an_exported_organelle_is_graded_like_any_adapter(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    holdout = tmp_path / "mine.jsonl"
    datasets = next(finished.home.glob("runs/tiny/shared-s0/datasets/[!.]*"))
    new, seen = ((datasets / f"{name}.jsonl").read_text().splitlines(True) for name in ("holdout_id", "train"))
    holdout.write_text("".join([*seen[:2], *new[:8]]))  # what the run has seen is left out
    printed = command(capsys, "export", "tiny.ecology.s0", "--out", str(tmp_path / "adapter"))
    assert "organelle" in printed
    assert {"adapter_config.json", "adapter_model.safetensors"} <= {p.name for p in (tmp_path / "adapter").iterdir()}
    rows = json.loads(
        command(
            capsys, "evaluate", "--host", "nano", "--holdout", str(holdout), "--adapter", str(tmp_path / "adapter"),
            "--run", "tiny.ecology.s0", "--json",
        )
    )  # fmt: skip
    assert [row["arm"] for row in rows] == ["base", "adapter", f"{finished.suite}.ecology.s0 (family)"]
    assert all(set(row) == {"arm", "n", "correct", "acc", "lo", "hi"} and row["n"] == 8 for row in rows)
    rows = json.loads(
        command(capsys, "evaluate", "--holdout", str(holdout), "--run", "tiny.sft.s1", "--routing", "single", "--json")
    )
    assert len(rows) == 2


def test_what_cannot_be_evaluated_or_exported_is_refused(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    holdout = tmp_path / "mine.jsonl"
    holdout.write_text('{"prompt": "1+1", "target": 2, "family": "math", "depth": "short"}\n')
    known = ["evaluate", "--holdout", str(holdout), "--run"]
    assert "no such run" in refused(capsys, *known, "tiny.ecology.s9")
    assert "not a run" in refused(capsys, *known, "tiny")
    assert "nothing is trained for 'frozen'" in refused(capsys, *known, "tiny.frozen.s0")
    assert "not alive" in refused(capsys, *known, "tiny.ecology.s0", "--organelle", "9999")
    assert "not alive" in refused(
        capsys, "export", "tiny.ecology.s0", "--organelle", "9999", "--out", str(tmp_path / "x")
    )
    assert "empty folder" in refused(capsys, "export", "tiny.ecology.s0", "--out", str(finished.home))
    assert not (tmp_path / "x").exists()


def test_an_evaluation_says_all_that_two_conditions_must_share(finished: SimpleNamespace) -> None:
    found: dict[int, list[dict[str, Any]]] = {}
    for file in finished.home.glob("runs/tiny/*/evaluate/*/manifest.json"):
        manifest = json.loads(file.read_text())
        found.setdefault(manifest["seed"], []).append(manifest["summary"]["comparable"])
    keys = {"host", "tokenizer", "template", "dtype", "decoding", "dataset"}
    assert found and all(said.keys() == keys and said == own[0] for own in found.values() for said in own)
    assert len({own[0]["dataset"] for own in found.values()}) == len(found)


def test_nothing_is_written_beside_the_home_and_the_packs(finished: SimpleNamespace) -> None:
    assert {path.name for path in finished.left} == {"home", "packs"}
