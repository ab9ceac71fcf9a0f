"""Suites that are asked for by id, and several at once by `evolora retry`."""

from pathlib import Path

import pytest
from commands import command

from evolora_core.engine.run_index import entries, find_suite, write_suite
from evolora_core.engine.strict import stated
from evolora_core.searches.registry import load_experiment, suite_id
from evolora_core.store import query
from flows._preflight import asked_suite
from flows.cli import main

SUITE = "search: number\nname: {name}\nseeds: [0]\nprocesses: 1\n"


def test_an_id_is_a_suite_whatever_is_called_so(home: Path) -> None:
    Path("numbers.yaml").write_text(SUITE.format(name="numbers"))
    config = load_experiment("numbers.yaml")
    own = suite_id(config)
    write_suite(home, own, stated(config))
    Path(str(own)).mkdir()  # a pack, say
    assert suite_id(asked_suite(str(own))) == own
    assert suite_id(asked_suite("numbers.yaml")) == own


def test_after_a_part_the_user_is_told_what_makes_the_rest(
    prefect_server: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("part.yaml").write_text(SUITE.format(name="part"))
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    with pytest.raises(SystemExit):
        main(["run", "part.yaml", "--only", "evolved.s0"])
    own = find_suite(home, "part")
    assert f"`evolora retry {own}` makes all that is missing, then the pack" in capsys.readouterr().out


def test_seeds_that_came_in_shards_are_not_made_again(
    prefect_server: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("joined.yaml").write_text("search: number\nname: joined\nseeds: [0, 1]\nprocesses: 1\n")
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)

    def done(*words: str) -> str:
        code, out, err = command(capsys, *words)
        assert code == 0, err
        return out

    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("EVOLORA_HOME", str(home.parent / "elsewhere"))
        done("run", "joined.yaml", "--only", "s0")
        done("store", "shard", "joined", "--out", "shard")
    assert "complete seeds: 0;" in done("store", "merge", "shard")
    own = find_suite(home, "joined")
    for words in (["run", "joined.yaml", "--only", "evolved.s1"], ["retry"]):
        assert f"no pack was built; `evolora pack {own}` packs" in done(*words)
    made = {entry.name for entry in entries(home, own) if entry.condition != "suite"}
    assert {"evolved.s1.evaluate", "guessed.s1.evaluate"} < made and not any(".s0." in name for name in made)
    done("pack", "joined")
    assert query(home, "SELECT seeds FROM comparison").rows == [(2,)]
    code, _, err = command(capsys, "retry", "joined")
    assert code == 1 and f"{own}: nothing of it is missing; `evolora pack {own}`" in err


def test_a_suite_that_fails_again_does_not_stop_the_others(
    prefect_server: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    obstacle = home / "runs" / "first" / "evolved-s0"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("a file where a folder must be")
    for name in ("first", "second"):  # known, as if they had been stopped when they began
        Path(f"{name}.yaml").write_text(SUITE.format(name=name))
        config = load_experiment(f"{name}.yaml")
        write_suite(home, suite_id(config), stated(config))
    monkeypatch.setenv("PREFECT_API_URL", prefect_server)
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        main(["retry", "first", "second"])
    said = capsys.readouterr()
    assert end.value.code == 1 and said.err.count("error: evolved.s0.evolve: ") >= 1
    assert find_suite(home, "second").name == "second" and Path("packs/second/README.md").is_file()
