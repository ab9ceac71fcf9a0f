"""A seed that fails: the others go on, the pack is made of them, the flow fails and says so; `evolora retry` finishes
it.
"""

import json
from pathlib import Path

import pytest

from evolora_core.errors import PackError, StageError
from evolora_core.run_index import entries, suites
from flows.cli import main

ROOT = Path(__file__).resolve().parents[2]
SMALL = [
    "processes=1",
    "conditions=[frozen, ecology]",
    "ecology.generations=1",
    "ecology.trials=[]",
    "sft.trials=[]",
    "evaluation.comparisons=[{a: ecology, b: frozen, split: holdout_id}]",
]


def run(packs: str) -> dict[str, str]:
    """The smallest suite of two seeds."""
    from flows.paper_suite import paper_suite

    return paper_suite(str(ROOT / "configs" / "suites" / "tiny.yaml"), SMALL, packs=packs)


@pytest.mark.usefixtures("prefect_server")
def test_the_pack_has_the_complete_seeds_and_a_retry_the_rest(home, tmp_path, monkeypatch):
    obstacle = home / "runs" / "tiny" / "ecology-s1"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("a file where a folder must be")
    with pytest.raises(StageError, match=r"ecology.s1.evolve: .*the pack is without seed 1"):
        run("papers")
    pack = Path("papers/tiny/summary.json").absolute()
    summary = json.loads(pack.read_text())
    assert summary["seeds"] == [0]
    assert summary["missing_runs"] == ["ecology s1"]
    obstacle.unlink()
    first = {entry.file_name: entry.finished for entry in entries(home, suites(home)[-1])}
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(SystemExit) as end:
        main(["retry"])
    assert end.value.code == 0
    assert json.loads(pack.read_text())["seeds"] == [0, 1]
    after = {entry.file_name: (entry.state, entry.finished) for entry in entries(home, suites(home)[-1])}
    assert after["ecology-s1.evolve.json"][0] == "done"
    assert after["ecology-s0.evolve.json"] == ("cached", first["ecology-s0.evolve.json"])


@pytest.mark.usefixtures("prefect_server")
def test_a_folder_that_is_no_pack_stops_the_suite_before_it_starts(home):
    Path("packs/tiny").mkdir(parents=True)
    Path("packs/tiny/thesis.tex").write_text("years of work")
    with pytest.raises(PackError, match="packs/tiny: holds something that is not a pack"):
        run("packs")
    assert not (home / "runs").exists()
