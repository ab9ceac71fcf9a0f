"""A merge suite from its file to its pack, on a base of two layers: every kind of condition, a stage that fails and is
tried again, a small landscape, export.
"""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import foretold
from random_host import random_host
from tiny_merges import family_folders

from evolora_core.engine.run_index import entries, find_suite, read_packs, suites
from evolora_core.errors import ConfigError, HostError, StageError
from evolora_core.store import frame, query
from evolora_core.tracking.runs import tracked_runs
from flows.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "merging.md"
SUITE = """
search: merging
name: merges
host: {host}
seeds: [0]
processes: 1
conditions: [base, parent-code, best-parent, uniform, greedy-soup, lambda-grid, model-stock, ensemble, adam,
  fine-tuned-mean, multitask, random, evomerge-as-published, evomerge, cma, cycleqd, niches, evomerge-routes]
arms: {{evomerge-routes: {{like: evomerge, space: routes}}}}
domains: {{code: {{families: [code.format]}}, math: {{families: [math]}}}}
data: {{train: 64, search: 8, selection: 8, test: 12}}
specialists: {{steps: 3, rows: 16}}
budget: {{evaluations: 60, finalists: 2}}
groups: 1
adam: {{learning_rates: [0.1], checkpoints: 2}}
fine_tuned_mean: {{learning_rates: [0.0001], checkpoints: 2}}
landscape: {{runs: 4, evaluations: 20, read_at: 10, shards: 2, strategies: [random, evomerge]}}
evaluation: {{comparisons: [{{a: evomerge, b: random}}], bootstrap: 100}}
"""


@pytest.fixture(scope="module")
def finished(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The suite, run by the flow of its name."""
    from flows.merge_evolution import merge_evolution

    folder = tmp_path_factory.mktemp("merges")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_HOME", str(folder / "home"))
        patch.chdir(folder)
        (folder / "home").mkdir()
        random_host(folder / "host")
        (folder / "merges.yaml").write_text(SUITE.format(host=folder / "host"))
        obstacle = folder / "home" / "runs" / "merges" / "niches-s0"
        obstacle.parent.mkdir(parents=True)
        obstacle.write_text("a file where a folder must be")
        with pytest.raises(StageError, match=r"niches.s0.search: .*niches-s0"):
            merge_evolution("merges.yaml")
        obstacle.unlink()
        patch.setenv("PREFECT_API_URL", prefect_server)
        before = {entry.file_name: entry.finished for entry in entries(folder / "home", suites(folder / "home")[-1])}
        with pytest.raises(SystemExit) as end:
            main(["retry"])
        assert end.value.code == 0
        suite = suites(folder / "home")[-1]
        yield SimpleNamespace(
            folder=folder,
            home=folder / "home",
            before=before,
            suite=str(suite),
            pack=(read_packs(folder / "home", suite) or folder) / "merges",
        )


def test_a_retry_runs_what_failed_and_nothing_else(finished: SimpleNamespace) -> None:
    after = {own.file_name: own for own in entries(finished.home, find_suite(finished.home, finished.suite))}
    assert after["niches-s0.search.json"].state == after["niches-s0.evaluate.json"].state == "done"
    untouched = [name for name in finished.before if not name.startswith("niches")]
    assert len(untouched) > 40
    assert all((after[name].state, after[name].finished) == ("cached", finished.before[name]) for name in untouched)


def test_every_arm_is_in_the_table_and_was_tested_alike(finished: SimpleNamespace) -> None:
    rows = query(finished.home, "FROM merge_table").records()
    assert len(rows) == 18 and all(0 <= row["test_lo"] <= row["test_score"] <= row["test_hi"] <= 1 for row in rows)
    assert all(row["search_score"] <= 0 for row in rows)
    domains = query(finished.home, "SELECT arm, count(*), sum(n) FROM merge_domains GROUP BY arm").rows
    assert len(domains) == 18 and {(count, items) for _, count, items in domains} == {(2, 24)}


def test_nobody_spends_more_than_the_budget(finished: SimpleNamespace) -> None:
    spent = dict(query(finished.home, "SELECT arm, flops FROM merge_table").rows)
    sql = "SELECT flops FROM compute WHERE condition = 'base' AND purpose = 'rollout'"
    ((plain,),) = query(finished.home, sql).rows
    free = {"multitask"}  # it spends what the specialists spent
    assert all(flops <= 60 * plain * 1.02 for arm, flops in spent.items() if arm not in free)
    assert spent["adam"] > 30 * plain and spent["fine-tuned-mean"] > 30 * plain


def test_views_say_who_came_of_whom(finished: SimpleNamespace) -> None:
    sql = """SELECT count(*) FROM candidate_lineage AS l
        JOIN candidate AS c ON c.run_id = l.run_id AND c.candidate = l.child"""
    assert query(finished.home, sql).rows[0][0] > 0
    early = "SELECT count(*) FROM candidate WHERE status = 'failed' AND score IS NOT NULL"
    assert query(finished.home, early).rows == [(0,)]
    falling = """SELECT count(*) FROM (SELECT best - lag(best) OVER (PARTITION BY run_id ORDER BY generation) AS step
        FROM merge_generation) WHERE step < 0"""
    assert query(finished.home, falling).rows == [(0,)]
    shared = query(finished.home, "SELECT max(shared) FROM leaks").rows
    assert shared == [(0,)]


def test_the_landscape_knows_every_model_and_its_optimum(finished: SimpleNamespace) -> None:
    assert query(finished.home, "SELECT count(*), count(DISTINCT genome_id) FROM landscape").rows == [(24, 24)]
    best = query(finished.home, "SELECT max(search_score) FROM landscape").rows
    marked = query(finished.home, "SELECT search_score FROM landscape_mark WHERE what = 'optimum of search'").rows
    assert marked == best
    found = query(finished.home, "SELECT max(score) FROM candidate WHERE condition = 'evomerge-routes'").rows
    assert found[0][0] <= best[0][0] + 1e-6  # what evolution found is a model of the landscape
    regrets = query(finished.home, "SELECT strategy, count(*), min(regret) FROM regret GROUP BY strategy").rows
    assert {(name, count) for name, count, _ in regrets} == {("random", 20), ("evomerge", 20)}
    assert all(least >= 0 for *_, least in regrets)


def test_the_pack_verifies(finished: SimpleNamespace) -> None:
    from evolora_core.report import verify
    from evolora_core.searches.merging.pack.sections import SECTIONS

    assert verify(finished.home, finished.folder / finished.pack, SECTIONS) == []


@pytest.mark.parametrize(("run", "candidate"), [("cma", None), ("evomerge-routes", 3), ("multitask", None)])
def test_what_was_found_is_exported_as_a_model_folder(
    finished: SimpleNamespace, run: str, candidate: int | None, tmp_path: Path
) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from flows.cli.export import export

    export(f"merges.{run}.s0", out=tmp_path / "model", candidate=candidate)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert bool(torch.isfinite(model(**tokenizer("Compute 1 + 1.", return_tensors="pt")).logits).all())


def test_a_merge_of_a_base_that_has_changed_is_not_exported(finished: SimpleNamespace, tmp_path: Path) -> None:
    from flows.cli.export import export

    file = finished.folder / "host" / "generation_config.json"
    before = file.read_text()
    try:
        file.write_text(before + "\n")
        with pytest.raises(HostError, match="its files are others than when the run began; put those back"):
            export("merges.cma.s0", out=tmp_path / "model")
    finally:
        file.write_text(before)


def test_the_example_in_python_of_the_page_runs(
    finished: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.chdir(tmp_path)
    for name, folder in family_folders(tmp_path / "family").items():
        Path(folder).rename(tmp_path / {"base": "my-base", "a": "my-code", "b": "my-math", "c": "my-other"}[name])
    (block,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    left: dict[str, Any] = {}
    exec(compile(block.replace("merge-quickstart", "merges"), PAGE.name, "exec"), left)
    assert left["report"].mergeable and (tmp_path / "my-model" / "model.safetensors").is_file()
    logits = left["model"](**left["tokenizer"]("Compute 1 + 1.", return_tensors="pt")).logits
    assert bool(torch.isfinite(logits).all())
    frames = left["tables"]("merges")
    assert frames["merge_table"].equals(frame(finished.home, "FROM merge_table ORDER BY arm"))
    instruments = {"landscape", "landscape_mark", "regret", "law_fit", "law_point", "merge_law"}  # if any
    assert {name for name, rows in frames.items() if rows.empty} <= instruments < frames.keys()
    chosen, other = (left["load"]("merges.evomerge-routes.s0", candidate)[0] for candidate in (None, 3))
    assert chosen.config.num_hidden_layers >= 1 and other.config.num_hidden_layers >= 1


def test_what_is_tracked_is_what_the_store_has(finished: SimpleNamespace) -> None:
    runs = {run.settings["condition"]: run for run in tracked_runs(finished.home, finished.suite, "merge_generation")}
    assert len(runs) == 18 and not runs["uniform"].generations
    told = [numbers["best"] for _, numbers in runs["evomerge"].generations]
    sql = "SELECT best FROM merge_generation WHERE condition = 'evomerge' ORDER BY generation"
    assert told == [best for (best,) in query(finished.home, sql).rows] and len(told) > 1
    sql = "SELECT arm, test_score, flops FROM merge_table"
    for arm, score, flops in query(finished.home, sql).rows:  # of one seed
        assert runs[arm].scores["test/accuracy"] == score and runs[arm].scores.get("cost/flops", 0) == flops


def test_what_cannot_be_exported_is_refused_in_one_line(finished: SimpleNamespace, tmp_path: Path) -> None:
    from flows.cli.export import export

    with pytest.raises(ConfigError, match="there is no one model to write"):
        export("merges.ensemble.s0", out=tmp_path / "model")
    with pytest.raises(ConfigError, match="has the candidates 0 to"):
        export("merges.cma.s0", out=tmp_path / "model", candidate=10_000)
    with pytest.raises(ConfigError, match="say --candidate"):
        export("merges.cma.s0", out=tmp_path / "model", organelle=1)


def test_an_estimate_counts_what_stages_are_charged(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    found = foretold(finished.home, finished.folder, "merges.yaml", capsys)
    sql = """SELECT condition, regexp_replace(stage, '-.*', ''), sum(flops) FROM compute WHERE seed = 0 GROUP BY ALL"""
    made = {(condition, stage): flops for condition, stage, flops in query(finished.home, sql).rows}
    plain = ["base", "parent-code", "best-parent", "uniform", "greedy-soup", "lambda-grid", "model-stock", "ensemble"]
    assert {own: found[own, "control"]["flops"] for own in plain} == {own: made[own, "control"] for own in plain}
    for key in (("shared", "parent"), ("multitask", "control"), ("adam", "control"), ("fine-tuned-mean", "control")):
        assert found[key]["flops"] == pytest.approx(made[key], rel=0.15)
    for own in ("random", "evomerge", "cma", "cycleqd", "niches"):
        assert 0.9 * found[own, "search"]["flops"] < made[own, "search"] <= found[own, "search"]["flops"] * 1.02
    assert found["shared", "landscape"]["flops"] == pytest.approx(made["shared", "landscape"], rel=0.2)
    assert found["shared", "regret"]["seconds"] > 0 and found["multitask", "control"]["megabytes"] > 0
