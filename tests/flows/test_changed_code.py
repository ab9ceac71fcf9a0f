"""A suite that other code goes on with, and that ends early: nothing stands beside what it was not made of."""

from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine import identity
from evolora_core.engine.run_index import entries, suites
from evolora_core.errors import StageError
from evolora_core.store import connection, query, store_path

SUITE = "search: number\nname: numbers\nseeds: [0, 1]\nprocesses: 1\n"


@pytest.mark.usefixtures("prefect_server")
def test_what_was_made_of_a_stage_goes_when_the_stage_is_made_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows.paper_suite import paper_suite

    Path("numbers.yaml").write_text(SUITE)
    paper_suite("numbers.yaml")
    assert query(home, "SELECT seeds FROM comparison").rows == [(2,)]
    before = {own.file_name for own in entries(home, suites(home)[-1])}

    versions = identity.library_versions
    monkeypatch.setattr(identity, "library_versions", lambda modules: versions(modules) | {"changed": "1"})
    paper_suite("numbers.yaml", only=["evolved.s1.evolve"])  # as Ctrl-C after that stage leaves it
    gone = {"evolved-s1.evaluate.json", "guessed-s1.guess.json", "guessed-s1.evaluate.json"}
    gone |= {"suite-s0.compare.json", "suite-s0.pack.json"}
    assert before - {own.file_name for own in entries(home, suites(home)[-1])} == gone
    assert query(home, "SELECT DISTINCT condition, seed FROM evaluations ORDER BY ALL").rows == [
        ("evolved", 0),
        ("guessed", 0),
    ]
    assert query(home, "SELECT count(*) FROM comparison").rows == [(0,)]

    paper_suite("numbers.yaml")
    assert query(home, "SELECT seeds FROM comparison").rows == [(2,)]
    assert before == {own.file_name for own in entries(home, suites(home)[-1])}


@pytest.mark.usefixtures("prefect_server")
def test_no_pack_is_made_of_what_another_process_recorded_of_other_code(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import _suite
    from flows.paper_suite import paper_suite

    complete = _suite.complete_seeds

    def meanwhile(*given: Any) -> list[int]:
        with connection.opened(store_path(home)) as store:
            changed = 'json_merge_patch(manifest, \'{"identity": "other"}\')'
            store.execute(f"UPDATE data.stages SET manifest = {changed} WHERE stage = 'evolve' AND seed = 1")
        return complete(*given)

    Path("numbers.yaml").write_text(SUITE)
    with monkeypatch.context() as patched, pytest.raises(StageError, match="s1.evolve: another process recorded it"):
        patched.setattr(_suite, "complete_seeds", meanwhile)
        paper_suite("numbers.yaml")
    assert query(home, "SELECT count(*) FROM comparison").rows == [(0,)]
    paper_suite("numbers.yaml")
    assert query(home, "SELECT seeds FROM comparison").rows == [(2,)]
