"""`evolora task check` says in one line which suites it cannot look at."""

from pathlib import Path

import pytest
from commands import command

SUITES = Path(__file__).parents[2] / "configs" / "suites"


@pytest.mark.parametrize(
    ("suite", "said"),
    [
        ("merge-quickstart.yaml", "key 'search': a suite of merging; this command looks at suites of adapters"),
        ("tiny.yaml", "has no `tasks`; docs/extending.md shows how to bring one"),
        ("nowhere.yaml", "name an existing YAML file"),
    ],
)
def test_a_suite_without_tasks_to_look_at(suite: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = command(capsys, "task", "check", str(SUITES / suite))
    assert code != 0 and not out and said in err and err.count("\n") == 1
