"""Other forms of the prompts in a pack: what is counted of whom, which form is the worst, and that it verifies."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from example_suite import CONDITIONS, write_suite

from evolora_core.report import StoredSuite, build, verify
from evolora_core.searches.adapters.evaluation.forms import FORMS, PLAIN, WORDS_AFTER
from evolora_core.searches.adapters.pack.robustness import WORST, robustness_frame, robustness_points, robustness_table
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.store import carry, frame, query, read, rebuild, unpacked
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"
ONE_PLOT = replace(SECTIONS, plots={"robustness": SECTIONS.plots["robustness"]})  # plots take most of the time


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example suite with other forms; never changed."""
    home = tmp_path_factory.mktemp("varied")
    write_suite(home, SUITE, items=96, variants=True)
    rebuild(home)
    return home


@pytest.fixture(scope="module")
def pack(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "example", ONE_PLOT)


def test_a_form_is_compared_with_the_plain_one_on_the_items_that_it_was_asked_of(home: Path) -> None:
    found: Any = robustness_frame(StoredSuite(home, SUITE)).set_index(["condition", "form"])
    assert list(dict.fromkeys(found.index)) == [(c, form) for c in CONDITIONS for form in (*FORMS, WORST)]
    rows = frame(home, "SELECT * FROM variants", [])
    for (condition, form), row in found.iterrows():
        if form == WORST:
            continue
        accuracies, changes, left_out = [], [], 0
        for seed in (0, 1, 2):
            own = rows[(rows["condition"] == condition) & (rows["seed"] == seed)]
            both = own[own["form"] == form].merge(own[own["form"] == PLAIN], on="task_id", suffixes=("", "_plain"))
            asked = both[both["correct"].notna()].astype({"correct": int, "correct_plain": int})
            accuracies.append(asked["correct"].mean())
            changes.append((asked["correct"] - asked["correct_plain"]).mean())
            left_out += len(both) - len(asked)
        assert row["acc"] == pytest.approx(np.mean(accuracies)) and row["change"] == pytest.approx(np.mean(changes))
        assert row["lo"] <= row["acc"] <= row["hi"] and row["change_lo"] <= row["change"] <= row["change_hi"]
        asked_host = rows.loc[(rows["condition"] == condition) & (rows["form"] == form), "organelle"].dropna() == -1
        assert row["bare"] == pytest.approx(asked_host.mean())
        assert left_out == row["left_out"] == (3 * 24 if form in WORDS_AFTER else 0) and row["n"] + left_out == 3 * 96
    plain = found.xs(PLAIN, level="form")
    whole = frame(home, "SELECT * FROM accuracy WHERE split = 'holdout_id' AND family = '*'", []).set_index("arm")
    for name in ("acc", "lo", "hi"):
        assert plain[name].to_dict() == pytest.approx(whole.loc[list(CONDITIONS), name].to_dict())
    assert set(plain["change"]) == {0}


@pytest.mark.parametrize("name", ["split_part(task_id, '-', 3)", "task_id"])
def test_where_seeds_share_items_they_are_resampled_as_the_accuracy_is(home: Path, tmp_path: Path, name: str) -> None:
    own = tmp_path / "home"
    shutil.copytree(home, own)
    with opened(store_path(own)) as connection:
        connection.execute(f"UPDATE data.evaluations SET prompt = {name}")
    stored = StoredSuite(own, SUITE)
    assert ("holdout_id" in stored.splits_of_shared_items) == (name != "task_id")
    found: Any = robustness_frame(stored).set_index(["form", "condition"]).loc[PLAIN]
    whole = {row["arm"]: row for row in stored.counted()["accuracies"] if row["split"] == "holdout_id"
             and row["family"] == "*"}  # fmt: skip
    for condition in CONDITIONS:
        assert [found.loc[condition, bound] for bound in ("lo", "hi")] == [
            whole[condition][bound] for bound in ("lo", "hi")
        ]


def test_the_worst_form_is_chosen_on_other_items_than_it_is_measured_on(home: Path, tmp_path: Path) -> None:
    """Answers to the half that is measured do not change which form is chosen."""
    before: Any = robustness_frame(StoredSuite(home, SUITE)).set_index(["condition", "form"]).loc[("frozen", WORST)]
    assert before["chosen"] == "aside" and before["n"] == 3 * 48

    def frame_with(half: int, form: str, correct: bool) -> Any:
        """The answers to half of the items in a form, all right or all wrong."""
        own = Path(shutil.copytree(home, tmp_path / f"{half}-{form}"))
        with opened(store_path(own)) as connection:
            connection.execute(
                """WITH asked AS (
                    SELECT rowid AS place, row_number() OVER (PARTITION BY seed ORDER BY task_id) % 2 AS half
                    FROM data.variants WHERE condition = 'frozen' AND form = $form
                ) UPDATE data.variants SET correct = $correct FROM asked WHERE rowid = place AND half = $half""",
                {"form": form, "half": half, "correct": correct},
            )
        return robustness_frame(StoredSuite(own, SUITE)).set_index(["condition", "form"]).loc[("frozen", WORST)]

    measured = frame_with(1, "aside", True)
    assert measured["chosen"] == "aside" and measured["acc"] == 1 and measured["change"] > 0 > before["change"]
    chosen = frame_with(0, "blank lines before", False)
    assert chosen["chosen"] == "blank lines before" and chosen["change"] > before["change"]


def test_the_view_counts_each_run(home: Path) -> None:
    rows = query(home, "FROM robustness WHERE condition = 'sft' AND seed = 1").records()
    assert {row["form"] for row in rows} == set(FORMS)
    for row in rows:
        assert row["n"] + row["left_out"] == 96 and row["acc"] == row["correct"] / row["n"]
        assert row["change"] == pytest.approx(row["acc"] - row["plain_acc"])
        assert row["lo"] < row["acc"] < row["hi"] and 0 < row["bare"] < 1


def test_the_pack_carries_the_answers_and_verifies_without_a_store(pack: Path, tmp_path: Path) -> None:
    assert verify(tmp_path, pack, ONE_PLOT) == []
    shown = pd.read_csv(pack / "robustness.csv", keep_default_na=False)
    assert len(shown) == len(CONDITIONS) * (len(FORMS) + 1)
    text = (pack / "README.md").read_text()
    assert "| ecology   | worst: aside, on the other half |" in text and "biased low" in text
    assert (pack / "plots" / "robustness.png").stat().st_size > 1000
    rows = pq.read_table(pack / "data" / "variants.parquet")
    place = next(i for i, form in enumerate(rows["form"].to_pylist()) if form == "aside")
    answers = rows["correct"].to_pylist()
    answers[place] = not answers[place]
    at = rows.schema.get_field_index("correct")
    pq.write_table(rows.set_column(at, "correct", pa.array(answers)), pack / "data" / "variants.parquet")
    assert any(line.startswith("robustness.csv: line") for line in verify(tmp_path, pack, ONE_PLOT))


def test_a_shard_names_the_items(home: Path, tmp_path: Path) -> None:
    carry(home, SUITE, tmp_path / "shard", shard=True)
    with unpacked(read(tmp_path / "shard")) as other:
        sql = "SELECT run_id, form, task_id, organelle, correct FROM variants ORDER BY ALL"
        assert query(other, sql).rows == query(home, sql).rows


def test_a_form_that_a_seed_was_not_asked_in_has_no_numbers(home: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(home, tmp_path / "home"))
    with opened(store_path(other)) as connection:
        connection.execute("UPDATE data.variants SET correct = NULL WHERE form = 'headings' AND seed = 1")
    stored = StoredSuite(other, SUITE)
    found = robustness_frame(stored)
    assert set(found.loc[found["form"] == "headings", "left_out"]) == {2 * 24 + 96}
    shown = [row for row in robustness_table(SUITE, found).cells() if row[1] == "headings"]
    assert len(shown) == len(CONDITIONS) and {tuple(row[4:6]) for row in shown} == {("–", "–")}
    assert set(robustness_points(stored)["form"]) == {*FORMS} - {PLAIN, "headings"}


def test_a_suite_without_other_forms_has_the_same_tables_as_before(pack: Path, built: Path) -> None:
    assert not (built / "robustness.csv").exists() and not (built / "data" / "variants.parquet").exists()
    assert "Robustness" not in (built / "README.md").read_text()
    for name in ("paper_table.csv", "by_family.csv", "by_routing.csv", "comparisons.csv", "transfer.csv", "prices.csv"):
        assert (pack / name).read_text() == (built / name).read_text(), name
