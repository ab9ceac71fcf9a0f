"""The console script itself: help, exit codes, and what it does not import."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from flows.cli import app, main

COMMANDS = [
    ["run"], ["serve"], ["status"], ["retry"], ["sql"], ["store", "rebuild"], ["pack"], ["pack", "verify"], ["map"],
    ["evaluate"], ["host", "list"], ["host", "show"], ["host", "fetch"], ["host", "pretrain"], ["export"], ["doctor"],
    ["bench", "orchestration"], ["bench", "faults"], ["bench", "engine"], ["bench", "ecology"], ["bench", "merge"],
    ["merge", "check"], ["merge", "make"], ["track"], ["attention", "check"], ["attention", "measure"],
    ["attention", "validate"], ["attention", "list"], ["attention", "show"], ["task", "check"],
    ["export-data"], ["ask"], ["chat"], ["serve-run"], ["compare"], ["scope"], ["calibrate"], ["settings"],
]  # fmt: skip
HEAVY = {"torch", "prefect", "transformers", "duckdb", "pandas", "matplotlib", "datasets", "scipy"}


def ended(*arguments: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return int(end.value.code or 0)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example(capsys: pytest.CaptureFixture[str], command: Any) -> None:
    assert ended(*command, "--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "Example: evolora " + " ".join(command) in printed


def test_the_root_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert ended("--help") == 0
    printed = capsys.readouterr().out
    assert all(command[0] in printed for command in COMMANDS)
    assert ended("--version") == 0


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nope"], "Unknown command"),
        (["run"], "requires an argument"),
        (["run", "suite.yaml", "--nope"], "Unknown option"),
        (["sql", "SELECT 1", "--format", "xml"], "xml"),
        (["evaluate"], "--holdout"),
        (["evaluate", "--holdout", "x", "--max-new-tokens", "0"], "Must be >= 1"),
        (["bench", "engine", "--population", "0"], "Must be >= 1"),
    ],
)
def test_a_command_asked_wrongly_says_so_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: Any, reason: str
) -> None:
    assert ended(*arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert reason in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


@pytest.mark.parametrize("words", [["--adapter", "a", "b"], ["--adapter", "a", "--adapter", "b"]], ids=" ".join)
def test_adapters_come_in_one_list_or_one_by_one(words: list[str]) -> None:
    _, bound, *_ = app.parse_args(["evaluate", "--host", "nano", "--holdout", "x.jsonl", *words, "--json"])
    assert bound.arguments["adapter"] == [Path("a"), Path("b")] and bound.arguments["json"]


def test_the_app_has_no_command_without_an_owner() -> None:
    assert {command[0] for command in COMMANDS} == {name for name in app if not name.startswith("-")}


def test_whoever_reads_may_go(tmp_path: Path) -> None:
    """As with `evolora host list | head -1`."""
    code = "from flows.cli import console; console()"
    environment = os.environ | {"EVOLORA_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", code, "host", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


def test_nobody_need_read_errors(tmp_path: Path) -> None:
    """As with `evolora nope 2>&1 | tee log`, where `tee` was killed: the exit code is the command's own."""
    code = "from flows.cli import console; console()"
    environment = os.environ | {"EVOLORA_HOME": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", code, "nope"], stderr=subprocess.PIPE, env=environment) as process:
        assert process.stderr is not None
        process.stderr.close()
        assert process.wait() == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ignored", "sent", "code", "word"),
    [
        (False, signal.SIGINT, 130, "interrupted"),  # by Ctrl-C, which a terminal sends to workers too
        (True, signal.SIGTERM, 143, "terminated"),  # as `evolora run … &` in a script, which passes over Ctrl-C
    ],
)
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, ignored: bool, sent: Any, code: int, word: str) -> None:
    command = ["run", "configs/suites/tiny.yaml", "--set", "processes=2", "--packs", str(tmp_path / "packs")]
    begin = f"import signal; signal.signal(signal.SIGINT, signal.{'SIG_IGN' if ignored else 'default_int_handler'})"
    with subprocess.Popen(
        [sys.executable, "-c", f"{begin}; from flows.cli import console; console()", *command],
        stderr=subprocess.PIPE, text=True, env=os.environ | {"EVOLORA_HOME": str(tmp_path)}, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        said = next(line for line in process.stderr if "started" in line)
        if ignored:
            process.send_signal(signal.SIGINT)
        for _ in range(3):  # a worker between two stages said the most about Ctrl-C
            said += next(line for line in process.stderr if "done in" in line)
        os.killpg(process.pid, sent)
        said += process.stderr.read()
        assert process.wait() == code
    assert f"{word}; the same command goes on from what is kept\n" in said and "Traceback" not in said


def test_a_full_disk_is_told_in_one_line(tmp_path: Path) -> None:
    code = "from flows.cli import console; console()"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code, "host", "list"], stdout=full, stderr=subprocess.PIPE, text=True,
            env=os.environ | {"EVOLORA_HOME": str(tmp_path)},
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


def test_bash_completes_commands_once_it_is_installed(tmp_path: Path) -> None:
    environment = os.environ | {"HOME": str(tmp_path), "SHELL": "/bin/bash"}
    evolora = [sys.executable, "-m", "flows.cli"]
    subprocess.run([*evolora, "--install-completion"], env=environment, check=True, capture_output=True)
    asked = (
        "source ~/.bashrc; COMP_WORDS=(evolora st); COMP_CWORD=1; COMP_LINE='evolora st'; COMP_POINT=10; _evolora; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", asked], env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["status", "store"]


def test_a_home_of_nobody_is_told_in_one_line_also_where_stdout_is_closed() -> None:
    code = "import os; os.close(1); from flows.cli import console; console()"
    home = {"EVOLORA_HOME": "~nobody-of-that-name/x"}
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=os.environ | home)
    assert done.returncode == 1 and done.stderr.startswith("error: EVOLORA_HOME: ") and done.stderr.count("\n") == 1
    code = "import sys; sys.stdout = None; from flows.cli import console; console()"  # as Python has it with `>&-`
    done = subprocess.run([sys.executable, "-c", code, "host", "list"], stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (0, "")
