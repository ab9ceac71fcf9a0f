"""What a pack says about tuning."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from example_suite import compute_rows, part, write_stage, write_suite
from hypothesis import given
from hypothesis import strategies as st
from unplotted import TABLES_ALONE

from evolora_core.report import StoredSuite, build, verify
from evolora_core.searches.adapters.pack.paid import paid_frame
from evolora_core.searches.adapters.pack.tuning import edge, tuning_frame
from evolora_core.searches.adapters.trials import best_trials
from evolora_core.store import rebuild, record
from evolora_core.store.connection import opened, store_path

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
        ([{"specialists": True}, {"specialists": False}], 0, ""),
        ([{}, {"rate": 2}], 0, ""),
    ],
)
def test_an_edge_is_the_end_of_what_was_tried(trials: Any, chosen: int, words: str) -> None:
    assert edge(trials, trials[chosen]) == words


@given(
    st.lists(
        st.tuples(st.sampled_from(["sft", "ecology"]), st.integers(0, 2), st.integers(0, 10)),
        min_size=1,
    ),
    st.randoms(use_true_random=False),
)
def test_the_best_trial_has_the_highest_mean_whatever_the_order(right: Any, shuffled: Any) -> None:
    answered = [(arm, trial, correct / 10) for arm, trial, correct in right]
    of_ten: dict[tuple[str, int], list[int]] = {}
    for arm, trial, correct in right:
        of_ten.setdefault((arm, trial), []).append(correct)
    means = {own: Fraction(sum(correct), len(correct)) for own, correct in of_ten.items()}
    best = best_trials(answered)
    assert set(best) == {arm for arm, _, _ in answered}
    for arm, chosen in best.items():
        rivals = {trial: mean for (own, trial), mean in means.items() if own == arm}
        assert rivals[chosen] == max(rivals.values())
        assert all(rivals[trial] < rivals[chosen] for trial in rivals if trial < chosen)  # a tie: the earlier
    again = list(answered)
    shuffled.shuffle(again)
    assert best_trials(again) == best


def test_a_pack_shows_what_was_tried_and_chosen(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=96)
    rebuild(tmp_path)
    for arm, (rates, accs) in RATES.items():
        for i, (rate, acc) in enumerate(zip(rates, accs, strict=True)):
            for seed, more in {1000: 0.1, 1001: -0.1}.items():
                changes = json.dumps({"learning_rate": rate})
                row = {"arm": arm, "trial": i, "changes": changes, "holdout_acc": acc + more, "flops": 10}
                stage = part(SUITE, "tuning", seed, f"try-{arm}-{i}")
                judged = {"tuning": [row], "compute": compute_rows(tuning=12)}  # 10, and the answers that judge
                record(tmp_path, write_stage(tmp_path, stage, judged))
    trials = tuning_frame(StoredSuite(tmp_path, SUITE))
    assert trials["condition"].tolist() == ["ecology"] * 3 + ["sft"] * 3
    assert trials["chosen"].tolist() == [False, True, False, False, False, True]
    assert trials["accuracy"].tolist() == pytest.approx([0.3, 0.5, 0.5, 0.3, 0.4, 0.5]) and set(trials["flops"]) == {20}
    assert trials["edge"].tolist() == ["", "", "", "", "", "highest learning_rate"]
    pack = build(tmp_path, SUITE, tmp_path / "pack", TABLES_ALONE)
    text = (pack / "README.md").read_text()
    assert (
        "## Tuning" in text
        and "| learning_rate 0.008 | holdout_id |        60.0 |        40.0 |   50.0 | yes    | highest learning_rate |"
        in text
    )
    assert verify(tmp_path, pack, TABLES_ALONE) == [] and "come in splits" not in text
    tasks = json.dumps(
        {"tasks": [{"name": "cut", "data": "a.csv"}, {"name": "rounded", "splits": {"holdout": "test"}}]}
    )
    with opened(store_path(tmp_path)) as connection:
        connection.execute("UPDATE data.suites SET config = json_merge_patch(config, ?)", [tasks])
    text = (build(tmp_path, SUITE, tmp_path / "own", TABLES_ALONE) / "README.md").read_text()
    assert "The data of rounded come in splits, and the tuning seeds\ndraw from the same holdout as all others" in text

    paid = paid_frame(StoredSuite(tmp_path, SUITE)).set_index("condition")
    assert paid["trials"].to_dict() == {"frozen": 0, "single": 0, "ecology": 3, "sft": 3}
    assert paid["tuning_flops"].to_dict() == {"frozen": 0, "single": 0, "ecology": 72, "sft": 72}
    assert (paid["paid_flops"] == paid["run_flops"] + paid["tuning_flops"]).all()
    priced = [("shared", 1000, "price"), ("shared", 1001, "price"), ("ecology", 0, "price-run")]
    for condition, seed, name in priced:  # 5 for each seed's price, which each run of `ecology` is charged for
        stage = part(SUITE, condition, seed, name)
        record(tmp_path, write_stage(tmp_path, stage, {"compute": compute_rows(calibration=5)}))
    paid = paid_frame(StoredSuite(tmp_path, SUITE)).set_index("condition")
    assert paid["tuning_flops"].to_dict() == {"frozen": 0, "single": 0, "ecology": 6 * (12 + 5), "sft": 6 * 12}
    stage = part(SUITE, "shared", 1001, "price-ecology")  # an arm that practises at another temperature
    record(tmp_path, write_stage(tmp_path, stage, {"compute": compute_rows(calibration=7)}))
    paid = paid_frame(StoredSuite(tmp_path, SUITE)).set_index("condition")
    assert paid["tuning_flops"]["ecology"] == 3 * (12 + 5) + 3 * (12 + 7)
    for cost, column in (("run_flops", "ahead"), ("paid_flops", "ahead_paid")):
        for own in paid.itertuples():
            better = paid[(paid["accuracy"] > own.accuracy) & (paid[cost] <= 1.05 * getattr(own, cost))]
            assert getattr(own, column) == ", ".join(better.index)


def test_without_trials_nothing_is_paid(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=24)
    rebuild(tmp_path)
    assert paid_frame(StoredSuite(tmp_path, SUITE)).empty


def test_who_is_ahead_is_read_over_the_seeds_that_both_were_run_with(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=24)
    rebuild(tmp_path)
    row = {"arm": "sft", "trial": 0, "changes": "{}", "holdout_acc": 0.5, "flops": 0}
    record(tmp_path, write_stage(tmp_path, part(SUITE, "tuning", 1000, "try-sft-0"), {"tuning": [row]}))
    with opened(store_path(tmp_path)) as connection:
        (first,) = connection.execute("SELECT min(seed) FROM data.evaluations").fetchone() or (0,)
        connection.execute("UPDATE data.evaluations SET correct = seed > ?", [first])  # a hard seed
        connection.execute("DELETE FROM data.evaluations WHERE condition = 'sft' AND seed = ?", [first])
        connection.execute("DELETE FROM data.compute WHERE condition IN ('single', 'sft')")
    paid = paid_frame(StoredSuite(tmp_path, SUITE)).set_index("condition")
    assert paid["accuracy"]["sft"] > paid["accuracy"]["single"]  # over other seeds
    assert "sft" not in paid["ahead"]["single"].split(", ")
    assert "sft" not in paid["ahead_paid"]["single"].split(", ")
