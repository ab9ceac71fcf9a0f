"""A law's suite from its file to its fit: bases of two widths are trained, and every subset is merged."""

import json
from pathlib import Path

import pytest

from evolora_core.store import query
from flows.cli import main

pytestmark = pytest.mark.slow

SUITE = """
search: merging
name: law
host: nano-merge
pretrain: true
pretrain_steps: 3
seeds: [0]
processes: 1
conditions: [base, uniform]
domains: {code: {families: [code.format]}, math: {families: [math]}, words: {families: [number.words]}}
data: {train: 32, search: 6, selection: 2, test: 4}
specialists: {steps: 2, rows: 8}
law: {widths: [16, 32], methods: [linear, task_arithmetic, ties], fitted: 2, first_predicted: 3, bootstrap: 10}
evaluation: {comparisons: [{a: uniform, b: base}], bootstrap: 100}
"""


@pytest.fixture(scope="module")
def home(prefect_server: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of the suite that was run."""
    from flows.merge_evolution import merge_evolution

    folder = tmp_path_factory.mktemp("law")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(folder / "home"))
        patch.chdir(folder)
        (folder / "home").mkdir()
        (folder / "law.yaml").write_text(SUITE)
        merge_evolution("law.yaml")
    return folder / "home"


def test_every_subset_is_merged_by_every_method_at_every_width(home: Path) -> None:
    counts = query(home, "SELECT parameters, method, count(*), count(DISTINCT subset) FROM merge_law GROUP BY ALL").rows
    assert sorted((method, merges, subsets) for _, method, merges, subsets in counts) == [
        ("linear", 7, 7), ("linear", 7, 7), ("task_arithmetic", 7, 7), ("task_arithmetic", 7, 7), ("ties", 7, 7),
        ("ties", 7, 7),
    ]  # fmt: skip
    assert len({parameters for parameters, *_ in counts}) == 2  # a wider base has more


def test_one_model_merged_alone_is_that_model(home: Path) -> None:
    """`linear` of one specialist is the specialist; a third of its task vector is nearer to the base."""
    sql = "SELECT method, loss FROM merge_law WHERE subset = 'math' ORDER BY parameters, method"
    losses = query(home, sql).rows
    assert losses[0][1] == pytest.approx(losses[2][1], abs=0.5) and losses[0][1] != losses[1][1]
    assert all(loss > 0 for _, loss in losses)


def test_the_law_is_judged_on_what_it_was_not_fitted_on(home: Path) -> None:
    points = query(home, "SELECT merged, fitted, loss, same_as_before FROM law_point WHERE method = 'ties'").records()
    assert {(row["merged"], row["fitted"]) for row in points} == {(1, True), (2, True), (3, False)}
    fits = query(home, "SELECT method, points, law_error, same_error FROM law_fit ORDER BY method").records()
    assert [(row["method"], row["points"]) for row in fits] == [("linear", 2), ("task_arithmetic", 2), ("ties", 2)]
    assert all(row["law_error"] >= 0 and row["same_error"] >= 0 for row in fits)


def test_the_seed_of_a_suite_trains_a_base_of_its_own(home: Path) -> None:
    spent = query(home, "SELECT count(*) FROM data.compute WHERE stage = 'base' AND purpose = 'update'").rows
    assert spent == [(1,)]


def test_an_estimate_counts_bases_parents_and_merges(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(home))
        main(["run", str(home.parent / "law.yaml"), "--set", "seeds=[1]", "--estimate", "--json"])
    assert end.value.code == 0
    found = {row["stage"]: row for row in json.loads(capsys.readouterr().out) if row["condition"] == "shared"}
    sql = "SELECT regexp_replace(stage, '-.*', ''), sum(flops) FROM compute WHERE condition = 'shared' GROUP BY ALL"
    made = dict(query(home, sql).rows)
    assert [found[stage]["stages"] for stage in ("base", "parent", "law")] == [3, 9, 2]
    for stage in ("base", "parent", "law"):
        assert found[stage]["flops"] == pytest.approx(made[stage], rel=0.2)  # of another seed, and few rows
