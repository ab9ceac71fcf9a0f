"""What a pack says about tuning."""

import json
from pathlib import Path

import pytest
from example_suite import part, write_stage, write_suite

from evolora_core.report import build, verify
from evolora_core.report.tuning import edge, tuning_frame
from evolora_core.store import record

SUITE = "example-0a1b2c3d"
RATES = {"ecology": ([0.001, 0.002, 0.004], [0.3, 0.5, 0.5]), "sft": ([0.002, 0.004, 0.008], [0.3, 0.4, 0.5])}


@pytest.mark.parametrize(
    ("trials", "chosen", "words"),
    [
        ([{"rate": 1}, {"rate": 2}, {"rate": 3}], 1, ""),
        ([{"rate": 1}, {"rate": 2}, {"rate": 3}], 0, "lowest rate"),
        ([{"a.rate": 1.0}, {"a.rate": 3.0}], 1, "highest rate"),
        ([{"rate": 1, "rows": 8}, {"rate": 2}], 0, "lowest rate"),  # `rows` is not what the trials differ in
        ([{"rate": 1, "rule": "grpo"}, {"rate": 1, "rule": "search"}], 0, ""),
        ([{"rate": 1}], 0, ""),
        ([{}, {"rate": 2}], 0, ""),
    ],
)
def test_an_edge_is_the_end_of_what_was_tried(trials, chosen, words):
    assert edge(trials, trials[chosen]) == words


def test_a_pack_shows_what_was_tried_and_chosen(tmp_path: Path) -> None:
    for stage in write_suite(tmp_path, SUITE, items=96):
        record(tmp_path, stage)
    rows = [
        {"arm": arm, "trial": i, "changes": json.dumps({"learning_rate": rate}), "holdout_acc": acc, "flops": 10}
        for arm, (rates, accs) in RATES.items()
        for i, (rate, acc) in enumerate(zip(rates, accs, strict=True))
    ]
    record(tmp_path, write_stage(tmp_path, part(SUITE, "tuning", 1000, "choose"), {"tuning": rows}))
    trials = tuning_frame(tmp_path, SUITE, ["frozen", "sft", "ecology"])
    assert trials["condition"].tolist() == ["sft"] * 3 + ["ecology"] * 3
    assert trials["chosen"].tolist() == [False, False, True, False, True, False]
    assert trials["edge"].tolist() == ["", "", "highest learning_rate", "", "", ""]
    pack = build(tmp_path, SUITE, tmp_path / "pack")
    text = (pack / "README.md").read_text()
    assert (
        "## Tuning" in text
        and "| learning_rate 0.008 | holdout_id |       50.0 | yes    | highest learning_rate |" in text
    )
    assert verify(tmp_path, pack) == []
