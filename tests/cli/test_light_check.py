"""`evolora merge check` imports none of the libraries that take seconds to import."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from example_suite import write_suite
from tiny_merges import family_folders

from evolora_core.store import rebuild

HEAVY = (
    "torch",
    "transformers",
    "prefect",
    "pandas",
    "matplotlib",
    "duckdb",
    "datasets",
    "peft",
    "sqlalchemy",
    "scipy",
)
CODE = f"""
import json, sys
from flows.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(json.dumps([end.code, sorted(set({HEAVY}) & set(sys.modules))]), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Folders of a family."""
    return family_folders(tmp_path_factory.mktemp("family"))


def imported(*arguments: str) -> tuple[int, list[str]]:
    """The exit code of a command, and what it imported of these."""
    done = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    code, found = json.loads(done.stderr.splitlines()[-1])
    return code, found


def test_check_is_light(words: dict[str, str]) -> None:
    assert imported("merge", "check", words["a"], words["b"], "--base", words["base"]) == (0, [])
    assert imported("merge", "check", words["a"], words["b"]) == (0, [])


def test_a_refusal_is_light(tmp_path: Path, words: dict[str, str]) -> None:
    assert imported("merge", "check", words["a"], "nano-merge") == (1, [])
    other = family_folders(tmp_path, "llama")["a"]
    assert imported("merge", "check", words["a"], other, "--base", words["base"]) == (1, [])


def test_help_is_light() -> None:
    for words in ([], ["run"], ["merge"], ["merge", "check"]):
        assert imported(*words, "--help") == (0, [])


def test_what_reads_a_home_needs_neither_torch_nor_prefect(tmp_path: Path) -> None:
    write_suite(tmp_path, items=24)
    rebuild(tmp_path)
    words = [["status"], ["sql", "SELECT 1"], ["settings"], ["host", "list"], ["compare", "example", "nope"]]
    code = (
        f"import sys\nfrom flows.cli import main\nfor words in {[*words, ['store', 'rebuild']]}:\n"
        " try: main(words)\n except SystemExit: pass\n"
        " assert not {'torch', 'prefect'} & {*sys.modules}, words"
    )
    environment = os.environ | {"EVOLORA_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
