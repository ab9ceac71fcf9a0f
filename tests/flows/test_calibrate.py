"""`evolora calibrate`: what comes before the arms, with what it found; a run then makes nothing of it again."""

import json
from pathlib import Path

import pytest
from commands import command

from evolora_core.engine.run_index import entries, suites
from evolora_core.engine.stage import Suite
from evolora_core.searches.registry import get_search, load_experiment, suite_id
from evolora_core.store import query
from flows.cli.calibrate import calibration_steps, tell

SUITES = Path(__file__).resolve().parents[2] / "configs" / "suites"
TINY = str(SUITES / "tiny.yaml")
SMALL = [
    "processes=1", "seeds=[0]", "conditions=[frozen, ecology]", "evaluation.comparisons=[]", "sft.trials=[]",
    "ecology.generations=2", "tuning.fraction=0.5",
]  # fmt: skip
CHANGES = [word for change in SMALL for word in ("--set", change)]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_run_goes_on_from_what_was_calibrated(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(capsys, "calibrate", TINY, *CHANGES, "--json")
    assert code == 0, err
    rows = json.loads(out)
    found = {(row["condition"], row["stage"], row["what"]): row for row in rows}
    (suite,) = suites(home)
    made = {entry.file_name: entry for entry in entries(home, suite)}
    assert {entry.stage for entry in made.values()} == {
        "datasets", "price", "try-ecology-0", "try-ecology-1", "choose", "calibrate",
    }  # fmt: skip

    # What is shown is what the stages left: of the suite's seed, where the tuning seed has the same thing.
    (unit,) = query(home, "SELECT value FROM calibration WHERE seed = 0 AND key = 'unit_flops'").rows
    assert found["shared", "price", "unit flops"]["value"] == unit[0] and query(
        home, "SELECT count(*) FROM calibration WHERE key = 'unit_flops'"
    ).rows == [(2,)]
    assert found["shared", "datasets", "items: holdout_id"]["value"] == 32
    assert found["ecology", "calibrate", "peak memory, MB"]["value"] > 100
    assert 0 < found["ecology", "calibrate", "practised"]["value"] <= 1
    trials = [found["ecology", "tune", f"accuracy of trial {trial}"] for trial in (0, 1)]
    assert sum(row["note"].startswith("chosen: ") for row in trials) == 1
    assert all("learning_rate" in row["note"] for row in trials)
    to_go = {row["stage"]: row["value"] for row in rows if row["what"] == "hours to go"}
    assert to_go.keys() == {"evolve", "evaluate", "total"} and min(to_go.values()) > 0

    code, _, err = command(capsys, "run", TINY, *CHANGES, "--packs", "papers")
    assert code == 0, err
    after = {entry.file_name: entry for entry in entries(home, suite)}
    assert {"ecology-s0.evolve.json", "ecology-s0.evaluate.json", "frozen-s0.evaluate.json"} <= after.keys() - made
    for name, entry in made.items():
        assert (after[name].state, after[name].finished, after[name].identity) == (
            "cached", entry.finished, entry.identity,
        )  # fmt: skip
    assert suites(home) == [suite] and Path("papers/tiny/README.md").exists()


@pytest.mark.parametrize(
    ("file", "before", "first"),
    [
        ("quickstart", {"datasets", "price", "calibrate"}, {"evolve", "sft", "evaluate"}),
        ("merge-quickstart", {"datasets", "base", "parent"}, {"search", "control", "evaluate"}),
        ("attention-quickstart", {"corpus", "rates"}, {"measure", "search", "evaluate"}),
    ],
)
def test_each_search_says_what_comes_before(file: str, before: set[str], first: set[str]) -> None:
    """Its stages need nothing but each other, and its view is there."""
    config = load_experiment(SUITES / f"{file}.yaml")
    search = get_search(config.search)
    steps = {step.name: step for step in search.plan(Suite(config, suite_id(config)))}
    chosen = [steps[name] for name in calibration_steps(config)]
    assert {step.stage.name for step in chosen} == before
    assert first <= {step.stage.name for step in steps.values()} - before
    assert {need.name for step in chosen for need in step.needed} <= {step.name for step in chosen}


def test_each_search_shows_what_it_found(tmp_path: Path) -> None:
    from evolora_core.store.connection import opened, store_path

    with opened(store_path(tmp_path)):
        pass  # makes an empty store
    for name in ("adapters", "merging", "attention"):
        shown = query(tmp_path, f"FROM {get_search(name).calibrated}")
        assert list(shown.columns) == ["suite", "condition", "seed", "stage", "what", "value", "note"]


def test_what_was_found_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    note = "first generations of the run, from which it was resumed, each with a note of so many words"
    numbers = {"value": 4.491e7, "lowest": 4.484e7, "highest": 4.499e7, "seeds": 12, "note": note}
    seen = [
        {"condition": own, "stage": "calibrate", "what": what, **numbers}
        for own in ("ecology-quarter", "single")
        for what in ("generation flops", "peak memory, MB")
    ]
    tell(seen, [row | {"stage": "total"} for row in seen[:1]])
    *tables, left = capsys.readouterr().out.split("\n\n")
    assert [table.partition(", calibrate:\n")[0] for table in tables] == ["ecology-quarter", "single"]
    assert max(len(line) for table in (*tables, left) for line in table.splitlines()) <= 80
    for table in (*tables, left):
        assert {*note.split()[1:-1]} <= {*table.split()} and "4.491e+07" in table


def test_a_search_without_calibration_says_so(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite = tmp_path / "numbers.yaml"
    suite.write_text("search: number\nname: numbers\nseeds: [0]\nprocesses: 1\n")
    code, out, err = command(capsys, "calibrate", str(suite))
    assert (code, out) == (1, "")
    assert err == f"error: {suite}: the search number has nothing to calibrate; use `evolora run`\n"
    assert not list(home.iterdir())
