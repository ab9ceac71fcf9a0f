"""Where a pack says that gain comes from."""

from pathlib import Path
from typing import Any

import pytest
from example_suite import part, write_stage
from unplotted import TABLES_ALONE

from evolora_core.report import StoredSuite, build
from evolora_core.searches.adapters.pack.attribution import found_frame, origin_frame, origin_table
from evolora_core.store import frame, record

SUITE = "example-0a1b2c3d"


def test_the_origins_of_answers_sum_to_the_gain(home: Path) -> None:
    found = origin_frame(StoredSuite(home, SUITE)).set_index("condition")
    assert list(found.index) == ["single", "ecology"]
    right = frame(
        home,
        "SELECT arm, seed, avg(correct::INT) AS acc FROM evaluations WHERE split = 'holdout_id' GROUP BY ALL",
        [],
    ).pivot(index="seed", columns="arm", values="acc")
    for condition, row in found.iterrows():
        gain = 100 * (right[condition] - right["frozen"]).mean()
        assert row["gain"] == pytest.approx(gain)
        answers = frame(
            home,
            "SELECT e.correct::INT - h.correct::INT AS ahead FROM evaluations AS e JOIN evaluations AS h "
            "USING (seed, split, task_id) JOIN organelles AS o ON o.run_id = e.run_id AND o.organelle = e.organelle "
            "WHERE e.arm = ? AND h.arm = 'frozen' AND split = 'holdout_id' AND o.origin = 'founder'",
            [condition],
        )
        assert row["founders"] == pytest.approx(100 * answers["ahead"].sum() / (3 * 96))
    assert (found["mutants"] == 0).all()
    members = frame(home, "SELECT * FROM organelles WHERE condition = 'ecology'", [])
    assert found.loc["ecology", "alive"] == members["died"].isna().sum() / 3
    last = frame(home, "SELECT run_id, max(generation) AS last FROM generations GROUP BY run_id", [])
    summed = members.merge(last).query("origin == 'merge' and born > last")
    assert found.loc["ecology", "alive"] == (members["died"].isna().sum() - len(summed)) / 3
    assert [row[3] for row in origin_table(SUITE, origin_frame(StoredSuite(home, SUITE))).cells()] == [
        f"{100 * (right[c] - right['frozen']).mean():+.1f}" for c in found.index
    ]


def test_who_took_no_learning_step_has_not_learned_whatever_its_weights(home: Path) -> None:
    """In the example suite organelle 0 of each run pays for an update, and every ΔW is not zero, as a copy's is."""
    members = frame(home, "SELECT * FROM organelles WHERE condition = 'ecology'", [])
    assert (members["delta_norm"] > 0).all()
    assert set(members.loc[members["lessons"] > 0, "organelle"]) == {0}
    before: Any = origin_frame(StoredSuite(home, SUITE)).set_index("condition")
    assert before.loc["ecology", "learned"] == 1 < before.loc["ecology", "alive"]
    columns = ["suite", "run_id", "condition", "seed", "stage", "lessons"]
    own = members[members["seed"] == 1].drop(columns=columns).assign(died=None)
    steps = [
        {"generation": generation, "entry": "update", "account": account, "amount": amount}
        for generation, account in [(0, "3"), (1, "3"), (1, "4")]
        for account, amount in [(account, -5), ("sink", 5)]
    ]
    tables: dict[str, Any] = {"organelles": own.to_dict("records"), "ledger": steps}
    record(home, write_stage(home, part(SUITE, "ecology", 1, "evolve"), tables))
    lessons = frame(home, "SELECT organelle, lessons FROM organelles WHERE condition = 'ecology' AND seed = 1", [])
    assert dict(lessons[lessons["lessons"] > 0].values.tolist()) == {3: 2, 4: 1}
    after = origin_frame(StoredSuite(home, SUITE)).set_index("condition")
    assert after.loc["ecology", "learned"] == pytest.approx((1 + 2 + 1) / 3)


def test_what_copies_of_a_winner_answer_is_theirs(home: Path) -> None:
    assert "copies" not in origin_frame(StoredSuite(home, SUITE))
    before: Any = origin_frame(StoredSuite(home, SUITE)).set_index("condition").loc["ecology"]
    members = frame(home, "SELECT * FROM organelles WHERE condition = 'ecology' AND seed = 1", [])
    own = members.drop(columns=["suite", "run_id", "condition", "seed", "stage", "lessons"]).assign(origin="copy")
    tables: dict[str, Any] = {"organelles": own.to_dict("records")}
    record(home, write_stage(home, part(SUITE, "ecology", 1, "evolve"), tables))
    after: Any = origin_frame(StoredSuite(home, SUITE)).set_index("condition").loc["ecology"]
    assert after["copies"] != 0
    assert after["founders"] + after["copies"] == pytest.approx(before["founders"])
    assert after["gain"] == pytest.approx(before["gain"])
    text = (build(home, SUITE, home / "pack", TABLES_ALONE) / "README.md").read_text()
    assert "by copies of a winner" in text and "a copy of the winner takes the place" in text


def test_what_practice_found_is_of_its_first_and_last_generation(home: Path) -> None:
    found: Any = found_frame(StoredSuite(home, SUITE)).set_index(["condition", "family"])
    asked = frame(home, "SELECT * FROM episodes WHERE condition = 'ecology'", [])
    for family, rows in asked.groupby("family"):
        shown = found.loc[("ecology", family)]
        assert shown["asked"] == len(rows) / 3
        for name, generation in (("first", 0), ("last", 7)):
            then = rows[rows["generation"] == generation]
            assert shown[f"{name}_items"] == len(then) / 3  # every item once
            assert shown[f"{name}_found"] == pytest.approx(then.groupby("seed")["correct"].mean().mean())
    text = (build(home, SUITE, home / "pack", TABLES_ALONE) / "README.md").read_text()
    assert "## Where the gain comes from" in text and "| ecology   | math" in text
    assert "With fewer than 5 seeds" in text.split("## Comparisons")[0]
