"""What an answer costs in a pack."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_suite import part, write_stage, write_suite

from evolora_core.report import StoredSuite
from evolora_core.searches.adapters.pack.prices import price_frame, price_table
from evolora_core.store import frame, rebuild, record

SUITE = "example-0a1b2c3d"


def test_prices_are_ratios_to_the_host_of_the_same_seed(packed: Path, built: Path) -> None:
    found: Any = price_frame(StoredSuite(packed, SUITE)).set_index("arm")
    items = frame(packed, "SELECT * FROM evaluations WHERE split = 'holdout_id'", [])
    for arm, row in found.iterrows():
        answers, rights = [], []
        for seed in (0, 1, 2):
            own, host = (items[(items["seed"] == seed) & (items["arm"] == name)] for name in (arm, "frozen"))
            answers.append(own["flops"].sum() / host["flops"].sum())
            rights.append(own["flops"].sum() / own["correct"].sum() / (host["flops"].sum() / host["correct"].sum()))
        assert row["answer"] == pytest.approx(np.mean(answers)) and row["correct"] == pytest.approx(np.mean(rights))
        assert min(rights) - 1e-12 <= row["correct_lo"] <= row["correct"] <= row["correct_hi"] <= max(rights) + 1e-12
    assert "frozen" not in found.index and {"single", "ecology", "sft"} <= set(found["condition"])
    assert f"{found.loc['sft', 'correct']:.3f} [" in (built / "README.md").read_text().split("## Economy")[1]


def test_without_a_right_answer_a_right_one_has_no_price(home: Path) -> None:
    all_wrong(home, "sft", 1)
    found = price_frame(StoredSuite(home, SUITE))
    shown = {row[0]: row for row in price_table(SUITE, found[found["arm"] == found["condition"]]).cells()}
    assert shown["sft"][3] == "–" and shown["ecology"][3] != "–"


def test_where_the_host_has_no_right_answer_none_is_free(home: Path) -> None:
    all_wrong(home, "frozen", 1)
    found = price_frame(StoredSuite(home, SUITE))
    assert {row[3] for row in price_table(SUITE, found).cells()} == {"–"}


def all_wrong(home: Path, condition: str, seed: int) -> None:
    items = frame(home, "SELECT * FROM evaluations WHERE condition = ? AND seed = ?", [condition, seed])
    columns = ["arm", "split", "task_id", "family", "depth", "slot", "organelle", "flops", "prompt_tokens"]
    rows = items[[column for column in items if column in columns or column == "answer_tokens"]].assign(correct=False)
    made = part(SUITE, condition, seed, "evaluate")
    record(home, write_stage(home, made, {"evaluations": rows.to_dict("records")}))


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=48, seeds=(0,))
    rebuild(tmp_path)
    found = price_frame(StoredSuite(tmp_path, SUITE))
    assert found["answer_lo"].isna().all() and found["answer"].notna().all()
    assert not any("[" in cell for row in price_table(SUITE, found).cells() for cell in row)
