"""What `evolora evaluate` leaves out of a holdout file."""

from pathlib import Path

import pytest

from evolora_core.errors import DataError
from evolora_core.language.datasets import write_items
from evolora_core.language.families.base import Item
from flows.cli.evaluate import _unseen


def items(*prompts: str) -> list[Item]:
    return [Item(prompt, "4", "math", "short", prompt) for prompt in prompts]


def test_prompts_that_a_run_has_seen_are_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As in a suite: those of its training and selection, however they are spaced, and none of its holdouts."""
    asked = items("Compute  1 + 3.", "Compute 2 + 2.", "Compute 5 - 1.", "Compute 4 + 0.")
    write_items(tmp_path / "train.jsonl", items("Compute 1 + 3."))
    write_items(tmp_path / "selection.jsonl", asked[1:2])
    write_items(tmp_path / "holdout_id.jsonl", asked[2:3])
    assert _unseen(asked, Path("hold.jsonl"), "two.sft.s0", tmp_path) == asked[2:]
    said = "hold.jsonl: 2 of 4 prompts were seen by two.sft.s0 in training or selection; left out\n"
    assert capsys.readouterr().err == said
    assert _unseen(asked[2:], Path("hold.jsonl"), "two.sft.s0", tmp_path) == asked[2:]
    assert capsys.readouterr().err == ""
    with pytest.raises(DataError, match="hold.jsonl: two.sft.s0 saw all its prompts"):
        _unseen(asked[:2], Path("hold.jsonl"), "two.sft.s0", tmp_path)
    assert _unseen(asked, Path("hold.jsonl"), "two.sft.s0", tmp_path / "gone") == asked
    assert "gone: missing, so prompts that two.sft.s0 has seen are graded too" in capsys.readouterr().err
