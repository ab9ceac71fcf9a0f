"""`evolora attention`: what it prints and how it ends, with programs in the real sandbox."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli.test_light_check import imported
from confinement import confined
from kept_sandboxes import kept_sandboxes
from searches.attention.attention_attacks import BLOCKS_OF_64, HONEST, program

from evolora_core.searches.attention.commands.check import climb_ladder
from evolora_core.searches.attention.commands.programs import Named
from evolora_core.searches.attention.commands.reading import read_program
from evolora_core.searches.attention.programs.rejection import STAGES
from evolora_core.searches.attention.seeds import FRESH, fresh_seeds, selection_seeds
from evolora_core.searches.attention.tuning import _TUNING
from flows.cli import main


@pytest.fixture(scope="module", autouse=True)
def _started_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, kept_sandboxes(patch):
        yield


TINY = ["--steps", "2", "--train", "60", "--texts", "16", "--json"]


def ended(*arguments: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


@pytest.fixture(autouse=True)
def no_word_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine a command takes long enough to say how far it is."""
    monkeypatch.setattr("tasks._progress.LOG_SECONDS", 3600.0)


@pytest.fixture
def honest(tmp_path: Path) -> str:
    """Softmax attention in a file."""
    (tmp_path / "honest.py").write_text(HONEST)
    return str(tmp_path / "honest.py")


def read(capsys: pytest.CaptureFixture[str], said: str = "") -> list[dict[str, Any]]:
    """The rows that a command printed, and nothing beside them and what it `said` on the way."""
    printed = capsys.readouterr()
    assert printed.err == said
    rows: list[dict[str, Any]] = json.loads(printed.out)
    return rows


@confined
def test_the_template_of_a_framework_passes_every_stage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert ended("attention", "show", "matrix-mixer") == 0
    file = tmp_path / "mine.py"
    file.write_text(capsys.readouterr().out)
    assert ended("attention", "check", str(file), "--framework", "matrix-mixer", "--sizes", "xs", "--json") == 0
    rows = read(capsys)
    assert [row["stage"] for row in rows] == list(STAGES[: STAGES.index("smoke") + 1])
    assert {row["result"] for row in rows} == {"passed"} and all(row["seconds"] >= 0 for row in rows)


@confined
def test_a_leak_is_named_with_its_place(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "leak.py"
    file.write_text(program(before=BLOCKS_OF_64))
    assert ended("attention", "check", str(file), "--sizes", "xs") == 1
    printed = capsys.readouterr()
    assert len(printed.err.splitlines()) == 1 and "position 0 depends on position 1" in printed.err
    assert printed.err.startswith(f"error: {file}: refused at stage causality: ")
    results = {line.split()[0]: line.split()[1] for line in printed.out.splitlines()[1:]}
    assert (results["shapes"], results["causality"], results["gradients"]) == ("passed", "failed", "not")
    assert ended("attention", "measure", str(file), "--sizes", "xs", *TINY) == 1
    printed = capsys.readouterr()
    assert f"\nerror: {file}: refused at stage causality: " in printed.err and not printed.out


BY_TEXT = {  # what is refused without being run: its text, and the framework that it has to belong to
    "syntax": ("def f(:\n", None),
    "import": (f"import os\n{HONEST}", None),
    "long": (f"import {'o' * 2000}\n{HONEST}", None),
    "markers": (HONEST, "matrix-mixer"),
    "signature": ("class Other:\n    pass\n", None),
}


@confined
@pytest.mark.parametrize("what", BY_TEXT)
def test_what_falls_by_its_text_is_refused_as_in_the_sandbox(what: str) -> None:
    source, framework = BY_TEXT[what]
    program, untimed = Named("own.py", source, False), {"seconds": None}
    read, ran = read_program(program, framework), climb_ladder(program, framework, ["xs"])
    assert read.refused == ran.refused != "" and [row | untimed for row in read.rows] == [
        row | untimed for row in ran.rows
    ]


@confined
def test_what_falls_by_its_text_is_refused_at_once(tmp_path: Path) -> None:
    for what, (source, framework) in BY_TEXT.items():
        file = tmp_path / f"{what}.py"
        file.write_text(source)
        asked = ["--framework", framework] if framework else []
        assert imported("attention", "check", str(file), *asked) == (1, [])


@confined
def test_a_program_is_measured_beside_the_baseline(capsys: pytest.CaptureFixture[str], honest: str) -> None:
    assert ended("attention", "measure", honest, "--beside", "window-1", "--rates", "0.01", *TINY) == 0
    rows = read(capsys, "9 trainings at 3 sizes; --sizes xs s is a quick look\n")
    assert [(row["program"], row["size"]) for row in rows] == [
        (name, size) for name in ("mha", "window-1", honest) for size in ("xs", "s", "m", "3 N, predicted")
    ]
    same = [row for row in rows if row["program"] == honest]
    assert [row["gain"] for row in same] == [0, 0, 0, 0]  # the same attention, seeds and batches
    assert {row["rate"] for row in rows if row["size"] in ("xs", "s", "m")} == {0.01}
    assert [row["FLOPs"] for row in same[:3]] == [1, 1, 1] and all(row["seconds"] > 0 for row in same[:3])
    other = [row for row in rows if row["program"] == "window-1"]
    assert other[0]["gain"] == pytest.approx(rows[0]["loss"] - other[0]["loss"], abs=1e-6) and other[0]["gain"] != 0
    assert other[3]["lo"] < other[3]["gain"] < other[3]["hi"] and other[3]["parameters"] == 3 * rows[2]["parameters"]


@confined
def test_a_program_is_validated(capsys: pytest.CaptureFixture[str], honest: str) -> None:
    rates = ["--rates", "0.001", "0.01"]
    assert ended("attention", "validate", honest, "--seeds", "2", "--sizes", "xs", *rates, *TINY) == 0
    (row,) = read(capsys, "8 trainings at 1 size\n")  # of each side two to choose a rate, and one with each seed
    assert row["size"] == "xs" and row["rate"] == row["rate against"] and row["rate"] in (0.001, 0.01)
    assert (row["gain"], row["p"], row["verdict"]) == (0, 1, "undecided")
    assert row["note"].startswith("these runs only; widen --rates: ")  # of two rates each is an end


DIVERGES = program(after="y = y * math.inf if b == 16 else y")  # as many examples as a training step has


@confined
def test_a_training_that_diverges_is_named_and_the_others_are_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(DIVERGES)
    name = str(tmp_path / "bad.py")
    long_enough = ["--steps", "12", *TINY[2:]]  # for the baseline to be ahead of a model that knows nothing
    given = [name, "--seeds", "2", "--sizes", "xs", "--rates", "0.01", *long_enough]
    assert ended("attention", "validate", *given) == 0
    (row,) = read(capsys, "4 trainings at 1 size\n")
    for seed in (9_000_500, 9_000_501):
        assert f"{name}, seed {seed}: train: the loss is not finite step 0; counts as a model" in row["note"]
    assert row["seeds"] == 2 and row["gain"] < 0 and row["FLOPs"] == 1
    assert ended("attention", "measure", *given) == 0
    plain, bad = read(capsys, "4 trainings at 1 size\n")
    assert bad["loss"] == pytest.approx(4.852, abs=1e-3) and plain["loss"] != bad["loss"]  # ln 128
    assert not plain["note"] and f"{name}, seed 0: train: the loss is not finite" in bad["note"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["measure", "rope"], "18 trainings at 3 sizes; --sizes xs s --steps 60 is a quick look"),
        (["validate", "rope"], "90 trainings at 3 sizes; --sizes xs s --steps 60 is a quick look"),
        (["measure", "rope", "--sizes", "xs", "--rates", "0.01"], "2 trainings at 1 size; --steps 60 is a quick look"),
        (["measure", "mha", "--sizes", "s", "--rates", "0.01", "--steps", "9"], "1 training at 1 size"),
    ],
)
def test_how_much_there_is_to_train_is_said_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    for command in ("measure.measure_programs", "validate.validate_program"):
        monkeypatch.setattr(f"evolora_core.searches.attention.commands.{command}", lambda *_: [])
    assert ended("attention", *arguments, "--json") == 0
    assert read(capsys, f"{said}\n") == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["check", "no-such-file.py"], "no-such-file.py: there is no such file"),
        (["check", "."], ".: this is no file"),
        (["check", "ropes"], "mechanism 'ropes' is unknown; did you mean 'rope'?"),
        (["check", "rope", "--framework", "matrix-mixr"], "did you mean 'matrix-mixer'?"),
        (["check", "rope", "--sizes", "xy"], "--sizes xy: there are xs, s"),
        (["check", "{binary}"], "cannot be read as text"),
        (["measure"], "name a program file"),
        (["measure", "rope", "--beside", "nothing.py"], "nothing.py: there is no such file"),
        (["measure", "rope", "--rates"], "--rates: name 1 to 20 learning rates above zero"),
        (["validate", "rope", "--rates", *map(str, range(1, 22))], "--rates: name 1 to 20 learning rates above zero"),
        (["validate", "rope", "--against", "rope"], "that is the program itself"),
        (["show", "matrix"], "'matrix' is no mechanism and no framework; did you mean 'matrix-mixer'?"),
    ],
)
def test_faults_are_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], reason: str
) -> None:
    (tmp_path / "binary.py").write_bytes(b"\xff\xfe\x00")
    words = [word.replace("{binary}", str(tmp_path / "binary.py")) for word in arguments]
    assert ended("attention", *words) == 1
    printed = capsys.readouterr()
    assert reason in printed.err and len(printed.err.splitlines()) == 1 and not printed.out


def test_training_seeds_end_before_those_with_which_rates_are_tuned(capsys: pytest.CaptureFixture[str]) -> None:
    assert max(fresh_seeds(0, 400)) < _TUNING <= max(fresh_seeds(0, 401)) and max(selection_seeds(0, 400)) < FRESH
    for command in ("measure", "validate"):
        assert ended("attention", command, "rope", "--seeds", "401") == 2
        assert "Must be <= 400" in capsys.readouterr().err


def test_foreign_programs_are_not_run_where_they_cannot_be_confined(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, honest: str
) -> None:
    monkeypatch.setattr("evolora_core.sandbox.landlock.abi", lambda: 0)
    for command in ("check", "measure", "validate"):
        assert ended("attention", command, honest) == 1
        printed = capsys.readouterr().err
        assert printed.startswith(f"error: {honest}: not run here: ") and len(printed.splitlines()) == 1


def test_the_list_has_mechanisms_and_frameworks(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("attention", "list", "--json") == 0
    kinds = {row["name"]: row["kind"] for row in read(capsys)}
    assert kinds["mha"] == "mechanism" and kinds["test-time-regression"] == "framework"


def test_what_computes_nothing_is_light() -> None:
    assert imported("attention", "list") == imported("attention", "check", "--help") == (0, [])
    assert imported("attention", "measure", "no-such-file.py") == (1, [])
