"""Bad input is answered with one clear line before compute is spent, and nothing is half written."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from cli.test_light_check import imported

from evolora_core.errors import ConfigError
from evolora_core.searches.registry import load_experiment
from flows._preflight import asked_suite, check_machine, check_suite
from flows.cli import doctor, main
from flows.cli.run import expand_seeds

ROOT = Path(__file__).resolve().parents[2]
GOOD: dict[str, Any] = {
    "name": "bad",
    "data": {"train_families": ["math"], "ood_families": ["word.count"], "retention_families": ["code.format"]},
    "evaluation": {"comparisons": []},
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An empty place to work in; its EVOLORA_HOME does not exist yet."""
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which a command ends."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    printed = capsys.readouterr()
    assert end.value.code == 1, printed.err
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1, printed.err
    return printed.err.removeprefix("error: ").strip()


def suite(changes: dict[str, Any]) -> str:
    """A suite file with some keys changed."""
    Path("suite.yaml").write_text(yaml.safe_dump(GOOD | changes, sort_keys=False))
    return "suite.yaml"


def holdout(*lines: str) -> str:
    """A holdout file."""
    Path("mine.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return "mine.jsonl"


def row(**changes: Any) -> str:
    """A good row of a holdout file, with some keys changed."""
    return json.dumps({"prompt": "1 + 1", "target": 2, "family": "math", "depth": "short"} | changes)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"sedes": [0]}, ["suite.yaml:", "unknown key 'sedes'", "did you mean 'seeds'?"]),
        ({"ecology": {"populaton": 4}}, ["suite.yaml:", "ecology.populaton", "did you mean 'population'?"]),
        ({"processes": "many"}, ["suite.yaml:", "key 'processes'", "integer", "'many'"]),
        ({"data": GOOD["data"] | {"train_families": ["maths"]}}, ["data.train_families", "maths", "math"]),
        ({"data": GOOD["data"] | {"ood_families": ["math"]}}, ["data.ood_families", "'math' is trained on too"]),
        ({"data": {}}, ["suite.yaml:", "train_families", "missing"]),
    ],
)
def test_a_wrong_suite(capsys: pytest.CaptureFixture[str], home: Path, changes: Any, wanted: Any) -> None:
    line = refusal(capsys, "run", suite(changes))
    assert all(word in line for word in wanted), line
    assert not home.exists()


def test_a_device_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "key 'device': is unknown; use cpu" in refusal(capsys, "run", suite({"device": "cuda:77x"}))
    assert "key 'device': is unknown; use cpu" in refusal(capsys, "run", suite({"device": "meta"}))
    elsewhere = asked_suite(suite({"device": "cuda:77", "workers": "dask"}))
    check_machine(elsewhere)  # the cluster's machines may have it
    check_suite(elsewhere, Path("packs/bad"))


def test_a_pack_that_nobody_could_write(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    Path("notes").write_text("a file where a folder must be")
    line = refusal(capsys, "run", suite({}), "--packs", "notes")
    assert "notes/bad: no pack can be put there" in line
    assert not any((home / "runs").iterdir())


def test_a_wrong_setting_and_a_missing_file(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    Path("weights.yaml").write_bytes(bytes(range(128, 256)))
    assert "weights.yaml: is no text in UTF-8" in refusal(capsys, "run", "weights.yaml")
    assert "--set ecology.nope" in refusal(capsys, "run", suite({}), "--set", "ecology.nope=1")
    assert "expected KEY=VALUE" in refusal(capsys, "run", suite({}), "--set", "seeds")
    assert "absent.yaml: cannot be read" in refusal(capsys, "run", "absent.yaml")
    assert "File name too long" in refusal(capsys, "run", 300 * "a" + ".yaml")
    name = suite({})
    assert f"suit: there is no such file; did you mean {name}?" in refusal(capsys, "run", "suit")
    assert not home.exists()


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        ([row(), "{not json"], ["mine.jsonl:2"]),
        ([row(family="maths")], ["mine.jsonl:1", "maths", "math"]),
        ([json.dumps({"prompt": "1 + 1", "family": "math", "depth": "short"})], ["mine.jsonl:1", "target"]),
    ],
)
def test_a_wrong_holdout_file(capsys: pytest.CaptureFixture[str], home: Path, lines: Any, wanted: Any) -> None:
    line = refusal(capsys, "evaluate", "--holdout", holdout(*lines))
    assert all(word in line for word in wanted), line
    assert not home.exists()


def test_seconds_that_are_no_number_are_refused_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "soon")
    line = refusal(capsys, "run", str(ROOT / "configs/suites/tiny.yaml"))
    assert "EVOLORA_COMMIT_SECONDS: 'soon' is not a number of seconds" in line
    assert not [*(home / "runs").iterdir()]


def test_digits_that_are_no_seed() -> None:
    config = load_experiment(ROOT / "configs/suites/tiny.yaml")
    assert expand_seeds(config, ["s²", "s٠"]) == ["s²", "s٠"]  # names of runs, which are then found to be none
    assert expand_seeds(config, ["s0"])[0] == f"{config.conditions[0]}.s0"
    with pytest.raises(ConfigError, match="9: tiny has no such seed"):
        expand_seeds(config, ["s" + "9" * 5000])  # more than Python makes a number of


def test_a_host_is_not_trained_into_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("taken").touch()
    assert refusal(capsys, "host", "pretrain", "nano", "--out", "taken") == "--out taken: is no folder; name a new one"


def test_a_missing_holdout_file(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert "absent.jsonl" in refusal(capsys, "evaluate", "--holdout", "absent.jsonl")
    assert not home.exists()


def test_a_host_folder_without_weights(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    Path("host").mkdir()
    Path("host/config.json").write_text("{}")
    for command in (["run", suite({"host": "./host"})], ["evaluate", "--holdout", holdout(row()), "--host", "./host"]):
        assert "host: no weights" in refusal(capsys, *command)
    assert "no such name" in refusal(capsys, "evaluate", "--holdout", holdout(row()), "--host", "nanoo")
    assert not (home / "runs").exists() or not any((home / "runs").iterdir())


def test_an_adapter_of_another_shape(capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.numpy import load_file, save_file

    from evolora_core.engine.rng import stream
    from evolora_core.language.hosts.host import load_host
    from evolora_core.lora.population.peft_io import export_peft
    from evolora_core.lora.population.stack import Population

    host = load_host("nano")
    population = Population.empty(host, 1, 2)
    population.init_slot(0, 2, stream(0, 0, 0, "test"))
    export_peft(population.get(0), host, Path("adapter"))
    weights = load_file("adapter/adapter_model.safetensors")
    name = next(key for key in sorted(weights) if key.endswith("lora_A.weight"))
    save_file(weights | {name: weights[name][:, :-1].copy()}, "adapter/adapter_model.safetensors")
    line = refusal(capsys, "evaluate", "--holdout", holdout(row()), "--adapter", "adapter")
    assert name.removeprefix("base_model.model.").removesuffix(".lora_A.weight") in line


def test_a_folder_without_an_adapter_is_told_before_the_host_is_loaded(
    capsys: pytest.CaptureFixture[str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evolora_core.language.hosts.host.load_host", lambda *_: pytest.fail("the host is loaded"))
    asked = ["evaluate", "--holdout", holdout(row()), "--adapter"]
    told = "nofolder/adapter_config.json: missing; name a folder that PEFT's save_pretrained wrote"
    assert refusal(capsys, *asked, "nofolder") == told
    assert imported(*asked, "nofolder") == (1, [])
    assert not home.exists()
    Path("empty").mkdir()
    Path("empty/adapter_config.json").write_text("{")
    assert "empty/adapter_config.json: not readable as JSON" in refusal(capsys, *asked, "empty")


def test_an_organelle_and_a_router_are_one_too_many(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    asked = ["--organelle", "1", "--routing", "single"]
    line = refusal(capsys, "evaluate", "--holdout", holdout(row()), "--run", "a.b.s0", *asked)
    assert line == "--organelle: answers everything, so that --routing decides nothing; take one of them"
    assert "no router decides; take one of them" in refusal(capsys, "chat", "a.b.s0", "--prompt", "x", *asked)


def test_seeds_may_be_as_large_as_those_of_suites(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    for command in (["export-data", "nosuch", "--out", "data"], ["scope", "nosuch"]):
        assert "nosuch: no such suite" in refusal(capsys, *command, "--seed", str(2**62))


def test_a_store_of_a_newer_schema(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    import duckdb

    home.mkdir()
    with duckdb.connect(str(home / "evolora.duckdb")) as connection:
        connection.execute("CREATE TABLE schema_version (owner VARCHAR, version BIGINT, views VARCHAR)")
        connection.execute("INSERT INTO schema_version VALUES ('core', 999, '')")
    for command in (["sql", "SELECT 1"], ["run", suite({})]):
        line = refusal(capsys, *command)
        assert "999 is newer" in line
    assert not any((home / "runs").iterdir())


def test_a_home_that_cannot_be_written(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    home.write_text("a file")
    for command in (["run", suite({})], ["evaluate", "--holdout", holdout(row())], ["store", "rebuild"]):
        assert "EVOLORA_HOME is not writable" in refusal(capsys, *command)


def test_questions_about_nothing(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    for command in ("status", "retry"):
        line = refusal(capsys, command)
        assert "no suite has been run yet" in line and "is known once its flow starts" in line
    assert "no such suite" in refusal(capsys, "status", "quickstart")
    assert "was never run in" in refusal(capsys, "status", suite({}))
    assert "no store yet" in refusal(capsys, "sql", "SELECT 1")
    assert "--routing" in refusal(capsys, "evaluate", "--holdout", holdout(row()), "--routing", "single")
    assert "--dtype" in refusal(
        capsys, "evaluate", "--holdout", holdout(row()), "--run", "a.b.s0", "--dtype", "float16"
    )
    assert "device 'mps'" in refusal(capsys, "evaluate", "--holdout", holdout(row()), "--device", "mps")
    assert "is not a pack" in refusal(capsys, "pack", "verify", ".")
    assert "is not a pack" in refusal(capsys, "map", "packs/absent", "--out", "x")
    assert "not a run" in refusal(capsys, "export", "quickstart", "--out", "x")
    assert "absent: there is no such folder" in refusal(capsys, "store", "merge", "absent")


def test_the_doctor_says_whether_programs_can_be_confined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    from evolora_core.sandbox import landlock
    from evolora_core.sandbox.run import refusal

    def found() -> dict[str, str]:
        with pytest.raises(SystemExit):
            main(["doctor", "--json"])
        (row,) = (row for row in json.loads(capsys.readouterr().out) if row["what"] == "sandbox")
        return dict(row)

    assert found()["state"] == ("optional" if refusal() else "ok")
    monkeypatch.setattr(landlock, "abi", lambda: 0)  # as on an old kernel
    assert found()["state"] == "optional" and "Landlock" in found()["detail"]


def test_an_extra_outside_its_bounds_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["numpy>=99", 'pytest>=99; extra == "dev"', 'absent>=1; extra == "x"']
    monkeypatch.setattr("importlib.metadata.requires", lambda name: wanted)
    states = {row["what"]: row["state"] for row in doctor.installed()}
    assert states == {"python": "ok", "numpy": "broken", "pytest": "optional", "absent": "optional"}


def test_the_doctor_mends_a_broken_host_by_its_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evolora_core.language.hosts.catalog.is_complete", lambda folder: False)
    mends = {row["what"]: row["mend"] for row in doctor.hosts()}
    assert re.fullmatch(r"git checkout -- \S*evolora_core/language/hosts/nano", mends["host nano"])  # not fetched
    assert mends["host smollm2-135m-q4"] == "evolora host fetch smollm2-135m-q4"


def test_the_doctor_finds_a_home_that_cannot_be_written(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    home.write_text("a file")
    with pytest.raises(SystemExit) as end:
        main(["doctor", "--json"])
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert end.value.code == 1
    assert rows["EVOLORA_HOME"]["state"] == "broken"
    assert rows["EVOLORA_HOME"]["mend"]
    assert {rows[name]["state"] for name in ("python", "torch", "prefect", "host nano", "device cpu")} == {"ok"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", ""], "argument 2 (behind 'run') is empty"),
        (["run", "suite.yaml", "--only", " "], "argument 4 (behind '--only') is empty"),
        (["run", "suite.yaml", "--packs="], "argument 3 is empty"),
        (["status", ""], "argument 2 (behind 'status') is empty"),
    ],
)
def test_an_empty_word_is_no_name(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert capsys.readouterr().err == f"error: {said}; give it a value, or leave it out\n"


def test_what_is_asked_for_is_looked_at_before_anything_starts(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = suite({"conditions": ["frozen"], "seeds": [0]})
    assert "suite.yaml: key search: 'nosuch' is none" in refusal(capsys, "run", path, "--set", "search=nosuch")
    said = refusal(capsys, "run", path, "--only", "s9.evaluate", "--set", "host=smollm2-135m")  # which is not here
    assert re.fullmatch(r"s9.evaluate: bad-[0-9a-f]+ has no such run or stage; its runs are .*frozen.s0", said)
    assert "workers: nosuch: unknown; use processes" in refusal(capsys, "run", path, "--set", "workers=nosuch")
    assert not list(home.glob("runs/*"))  # no suite was begun
