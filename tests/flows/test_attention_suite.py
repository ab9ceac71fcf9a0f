"""An attention suite from its file to its pack, with models of a few steps: a stage that fails and is tried again, the
views that users query, seeds that are kept apart.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import foretold
from confinement import confined
from kept_sandboxes import kept_sandboxes

from evolora_core.engine.run_index import entries, find_suite, read_packs, suites
from evolora_core.engine.stage import Work
from evolora_core.errors import ConfigError, StageError
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.mechanism import Mechanism, make
from evolora_core.store import query
from flows.cli import main

pytestmark = confined

SUITE = """
search: attention
name: attention-test
seeds: [0]
processes: 1
conditions: [mha, mine, evolution]
programs: {mine: mine.py}
corpus: {train: 256, held_out: 64, context: 32}
sizes: {measured: [xs, s, m], predicted: [l]}
training: {steps: 6, batch: 4, warmup: 1, rates: [0.004, 0.008]}
budget: {programs: 8, together: 2, parallel: 2, finalists: 3, finalist_seeds: 1}
ablation: {sizes: [xs], seeds: 1}
ensemble: {models: 2, sizes: [xs]}
evaluation: {seeds: 1, contrasts: [{a: evolution, b: mha}]}
"""


@pytest.fixture(scope="module")
def finished(prefect_server: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The suite, run by the flow of its name; its search fails at first, and is finished by `evolora retry`."""
    from flows.attention_search import attention_search

    folder = tmp_path_factory.mktemp("attention")
    home = folder / "home"
    with pytest.MonkeyPatch.context() as patch, kept_sandboxes(patch):
        patch.setenv("EVOLORA_HOME", str(home))
        patch.chdir(folder)
        (folder / "mine.py").write_text(KNOWN["rope"].source)
        (folder / "suite.yaml").write_text(SUITE)
        obstacle = home / "runs" / "attention-test" / "evolution-s0"
        obstacle.parent.mkdir(parents=True)
        obstacle.write_text("a file where a folder must be")
        with pytest.raises(StageError, match=r"evolution.s0.search: .*evolution-s0"):
            attention_search("suite.yaml")
        obstacle.unlink()
        patch.setenv("PREFECT_API_URL", prefect_server)
        before = {entry.file_name: (entry.state, entry.finished) for entry in entries(home, suites(home)[-1])}
        with pytest.raises(SystemExit) as end:
            main(["retry"])
        assert end.value.code == 0
        suite = suites(home)[-1]
        pack = folder / (read_packs(home, suite) or "") / "attention-test"
        yield SimpleNamespace(folder=folder, home=home, before=before, suite=str(suite), pack=pack)


def rows(finished: SimpleNamespace, sql: str) -> list[Any]:
    """What a user's query finds."""
    return query(finished.home, sql).rows


def test_a_retry_runs_what_failed_and_nothing_else(finished: SimpleNamespace) -> None:
    after = {own.file_name: own for own in entries(finished.home, find_suite(finished.home, finished.suite))}
    again = [name for name in after if name.startswith("evolution")]
    assert {after[name].stage for name in again} == {"search", "ablate", "ensemble", "evaluate"}
    assert all(after[name].state == "done" for name in again)
    assert not [name for name in again if name in finished.before and finished.before[name][0] == "done"]
    kept = [name for name in finished.before if name.startswith(("mha", "mine", "shared"))]
    assert {after[name].stage for name in kept} == {"corpus", "rates", "measure", "law", "evaluate"}
    assert all((after[name].state, after[name].finished) == ("cached", finished.before[name][1]) for name in kept)


def test_every_condition_is_in_the_table(finished: SimpleNamespace) -> None:
    found = query(finished.home, "FROM attention_table ORDER BY arm").records()
    assert [(row["arm"], row["framework"], row["seeds"], row["size"]) for row in found] == [
        ("evolution", "coefficient-dynamics", 1, "l"), ("mha", "", 1, "l"), ("mine", "", 1, "l"),
    ]  # fmt: skip
    evolution, mha, mine = found
    assert mha["score"] == mha["measured"] == mha["predicted"] == 0 and mha["step_time"] == mha["flops"] == 1
    assert evolution["programs"] > 1 and mha["programs"] == mine["programs"] == 0
    assert all(row["score"] is not None and row["predicted"] is not None and row["parameters"] > 1e5 for row in found)
    assert mine["measured"] != 0


def test_what_is_in_the_table_is_what_was_measured(finished: SimpleNamespace) -> None:
    """The gain and the fits, counted again from the losses."""
    sql = """SELECT own.program, avg(mha.loss - own.loss) FROM attention_losses AS own JOIN attention_losses AS mha
        USING (size, seed, split)
        WHERE own.size = 'l' AND mha.program = 'mha' AND own.stage = 'evaluate' GROUP BY ALL"""
    assert dict(rows(finished, sql)) == pytest.approx(dict(rows(finished, "SELECT arm, measured FROM attention_table")))
    sql = """SELECT own.program, mean(own.loss - mha.loss) FROM attention_losses AS own JOIN attention_losses AS mha
        USING (size, seed, split)
        WHERE own.size = 'm' AND mha.program = 'mha' AND own.stage = 'evaluate' GROUP BY ALL"""
    assert dict(rows(finished, sql)) == pytest.approx(dict(rows(finished, "SELECT arm, largest FROM scaling_fit")))
    assert len(rows(finished, "SELECT 1 FROM scaling_fit WHERE gain IS NOT NULL AND slope < 0")) == 3
    sql = """SELECT c.gain + f.largest FROM attention_curve AS c JOIN scaling_fit AS f USING (arm, seed)
        WHERE size = 'm' AND arm <> 'mha'"""
    assert [gap for (gap,) in rows(finished, sql)] == pytest.approx([0, 0], abs=1e-9)
    ((gain,),) = rows(
        finished, "SELECT gain FROM attention_contrast WHERE a = 'evolution' AND b = 'mha' AND size = 'l'"
    )
    assert gain == pytest.approx(rows(finished, "SELECT measured FROM attention_table WHERE arm = 'evolution'")[0][0])


def test_no_seed_and_no_text_of_the_selection_judges(finished: SimpleNamespace) -> None:
    uses = rows(
        finished, "SELECT split, list(DISTINCT seed ORDER BY seed), max(texts) FROM attention_losses GROUP BY ALL"
    )
    assert sorted(uses) == [("selection", [0, 1], 32), ("test", [500], 32)]
    stages = rows(finished, "SELECT DISTINCT stage, split FROM attention_losses")
    assert sorted(stages) == [
        ("ablate", "test"), ("evaluate", "test"), ("measure", "selection"), ("search", "selection"),
    ]  # fmt: skip
    sizes = "SELECT string_agg(DISTINCT size, ' ' ORDER BY size) FROM attention_losses WHERE split = 'selection'"
    assert rows(finished, sizes) == [("m s xs",)]  # and never the size that is predicted


def test_a_program_that_does_not_work_at_a_predicted_size_is_refused_before_it_is_trained(
    finished: SimpleNamespace, tmp_path: Path
) -> None:
    """The evaluation would take it there for a model that knows nothing."""
    folders = {
        own.stage: finished.home / own.folder
        for own in entries(finished.home, find_suite(finished.home, finished.suite))
    }
    source = KNOWN["rope"].source.replace("self.heads = heads", "self.heads = {16: 2, 32: 4}[dim]")
    own = Mechanism(
        condition="odd", source=source, trusted=False, sizes=["xs", "s"], predicted=["l"], seeds=[0],
        training=Training(steps=6, batch=4, warmup=1), bounds=Bounds(),
    )  # fmt: skip
    inputs = {name: folders[name] for name in ("corpus", "rates")}
    with pytest.raises(ConfigError, match="odd: the program is refused at stage build: KeyError: 64"):
        make(Work(config=own, seed=0, folder=tmp_path, inputs=inputs))


def test_candidates_and_where_they_come_from(finished: SimpleNamespace) -> None:
    found = rows(
        finished, "SELECT candidate, generation, status, score, operator, fresh FROM candidate ORDER BY candidate"
    )
    assert [row[0] for row in found] == [*range(len(found))] and {row[1] for row in found} > {0}
    assert all((score is not None) == (status == "ok") for _, _, status, score, _, _ in found)
    assert all((operator == "draw") == (generation == 0) for _, generation, _, _, operator, _ in found)
    assert {row[2] for row in found} >= {"ok"}
    lineage = rows(finished, "SELECT child, parent, role FROM candidate_lineage")
    assert lineage and all(0 <= parent < child and role in ("parent", "mate") for child, parent, role in lineage)
    orphans = """SELECT count(*) FROM candidate_lineage AS l
        ANTI JOIN candidate AS c ON c.run_id = l.run_id AND c.candidate = l.child"""
    assert rows(finished, orphans) == [(0,)]
    programs = rows(finished, "SELECT arm, count(*), count(candidate) FROM attention_program GROUP BY ALL ORDER BY arm")
    assert programs == [("evolution", len(found), len(found)), ("mha", 1, 0), ("mine", 1, 0)]


def test_every_candidate_keeps_its_losses_and_one_is_chosen(finished: SimpleNamespace) -> None:
    sql = """SELECT p.candidate, count(DISTINCT size), count(*) FROM attention_program AS p
        JOIN candidate AS c USING (run_id, candidate)
        JOIN attention_losses AS l ON l.run_id = p.run_id AND l.program = p.program_id
        WHERE c.fresh AND c.status = 'ok' GROUP BY ALL ORDER BY ALL"""
    found = rows(finished, sql)
    alive = rows(finished, "SELECT candidate FROM candidate WHERE fresh AND status = 'ok' ORDER BY ALL")
    assert [row[0] for row in found] == [row[0] for row in alive]
    ((chosen,),) = rows(finished, "SELECT candidate FROM attention_program WHERE chosen")
    cells = {row[0]: row[1:] for row in found}
    assert cells.pop(chosen) == (3, 6)  # with two seeds at each of three sizes
    assert (1, 2) in cells.values() and set(cells.values()) <= {(1, 1), (1, 2)}  # other finalists have a further seed


def test_models_together_are_no_worse_than_alone(finished: SimpleNamespace) -> None:
    found = rows(finished, "SELECT members, models, size, loss, alone FROM attention_ensemble ORDER BY members")
    assert [row[:3] for row in found] == [("programs", 2, "xs"), ("seeds", 2, "xs")]
    assert all(loss <= alone for _, _, _, loss, alone in found)  # Jensen


def test_the_budget_is_charged_and_kept(finished: SimpleNamespace) -> None:
    ((spent,),) = rows(
        finished, "SELECT sum(flops) FROM compute WHERE condition = 'evolution' AND purpose = 'selection'"
    )
    ((tried, dearest),) = rows(finished, "SELECT sum(flops), max(flops) FROM candidate WHERE condition = 'evolution'")
    # What the baseline takes at the largest size: 6 steps of 4 rows, and a third as much a row for each of 32 texts.
    ((step,),) = rows(finished, "SELECT DISTINCT flops FROM attention_losses WHERE program = 'mha' AND size = 'm'")
    plain = step * 6 + step * 32 // (3 * 4)
    assert (8 - 3) * plain <= tried < (8 - 3) * plain + dearest
    assert tried < spent < 8 * plain + 3 * plain  # the last finalist costs three times as much at most


def test_the_best_program_works_and_was_taken_apart(finished: SimpleNamespace) -> None:
    import torch

    (file,) = finished.pack.rglob("best_program.py")
    names: dict[str, Any] = {"__name__": "best_program"}
    exec(compile(file.read_text(), file.name, "exec"), names)
    assert names["Attention"](32, 4)(torch.zeros(2, 9, 32)).shape == (2, 9, 32)
    ablated = rows(finished, "SELECT gene, choice, size, loss FROM attention_ablation")
    assert ablated and {size for _, _, size, _ in ablated} == {"xs"}


def test_the_pack_verifies(finished: SimpleNamespace) -> None:
    from evolora_core.report import verify
    from evolora_core.searches.attention.pack.sections import SECTIONS

    assert verify(finished.home, finished.pack, SECTIONS) == []
    assert "evolution" in Path(finished.pack / "README.md").read_text()


def test_a_shard_of_it_is_closed_as_the_suite_was(
    finished: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fits and contrasts follow from the rows of a shard, which has no files of the stages."""
    from evolora_core.store import merge, write_shard
    from flows._shards import compare_merged

    write_shard(finished.home, finished.suite, tmp_path / "shard")
    home = tmp_path / "home"
    home.mkdir()
    merge(home, [tmp_path / "shard"])
    monkeypatch.setenv("EVOLORA_HOME", str(home))
    assert compare_merged(home, finished.suite) == [0]
    for table in ("attention_fits", "attention_contrasts"):
        sql = f"SELECT * EXCLUDE (run_id) FROM data.{table} ORDER BY ALL"
        assert query(home, sql).rows == query(finished.home, sql).rows != []


@pytest.mark.slow
def test_an_estimate_counts_what_stages_are_charged(
    finished: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of programs that are known beforehand exactly; of a search up to the program that exceeds its budget."""
    found = foretold(finished.home, finished.folder, "suite.yaml", capsys)
    sql = "SELECT condition, stage, sum(flops) FROM compute WHERE seed = 0 GROUP BY ALL"
    made = {(condition, stage): flops for condition, stage, flops in rows(finished, sql)}
    exact = [("shared", "rates"), ("mha", "measure"), ("mine", "measure"), ("mha", "evaluate"), ("mine", "evaluate")]
    assert {key: found[key]["flops"] for key in exact} == {key: made[key] for key in exact}
    assert found["evolution", "search"]["flops"] == pytest.approx(made["evolution", "search"], rel=0.4)
    assert found["evolution", "evaluate"]["flops"] > found["mha", "evaluate"]["flops"] / 2
    assert all(row["seconds"] > 0 for key, row in found.items() if key[1] != "law")
