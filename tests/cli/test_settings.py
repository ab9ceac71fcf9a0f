"""`evolora settings`."""

import json

import pytest

from evolora_core.searches.adapters.settings.contest import ContestConfig
from flows.cli import main


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code and what was printed."""
    with pytest.raises(SystemExit) as end:
        main(["settings", *words])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_a_section_is_shown_with_bounds_defaults_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "ecology.contest", "--json")
    keys = {row["key"]: row for row in json.loads(out)}
    assert code == 0
    assert keys.keys() == {"ecology.contest"} | {f"ecology.contest.{name}" for name in ContestConfig.model_fields}
    every = keys["ecology.contest.every"]
    assert (every["values"], every["default"]) == ("integer from 1 to 1,000,000", "2")
    assert keys["ecology.contest.loser"]["values"] == "copies, restarts, retires"
    code, out, _ = run(capsys, "ecology.contest.every")
    head, words, *_ = out.split("\n")
    assert code == 0 and head == "ecology.contest.every  integer from 1 to 1,000,000; default 2"
    assert words.startswith("    generations between two contests")


def test_items_of_lists_and_names_of_ones_own_are_keys(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys)
    assert "\nevaluation.comparisons[].a  text; required\n" in out and "\narms.NAME.like  text; required\n" in out
    code, out, _ = run(capsys, "--search", "merging", "domains")
    assert code == 0 and "domains.NAME.families" in out


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["ecology.contst"], "ecology.contst: suites of adapters have no such key; did you mean 'ecology.contest'?"),
        (["labels"], "did you mean 'sft.labels'?"),
        (["x" * 999], "`evolora settings` shows all"),
        (["--search", "mergin"], "search: 'mergin' is none; did you mean 'merging'?"),
    ],
)
def test_a_key_that_is_none_is_refused_in_a_line(
    capsys: pytest.CaptureFixture[str], words: list[str], reason: str
) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (1, "") and reason in err and err.count("\n") == 1
