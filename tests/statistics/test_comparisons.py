"""Pairing, refusals and the two tables, on small made-up items."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from evolora_core.engine.rng import stream
from evolora_core.errors import StageError
from evolora_core.searches.comparing import in_words
from evolora_core.statistics.comparisons import (
    complete_seeds,
    compute_accuracies,
    compute_comparisons,
    facts_of,
    write_comparisons,
)

PAIR = [{"a": "ecology", "b": "frozen", "split": "holdout_id"}]
FACTS = ("host", "tokenizer", "decoding", "dataset", "code")  # for instance


def _items(share: dict[str, float], seeds: int = 3, n: int = 300) -> pd.DataFrame:
    rows = []
    for condition, p in share.items():
        for seed in range(seeds):
            correct = stream(seed, 0, 0, "items", condition).random(n) < p
            for arm in (condition, f"{condition}:single"):
                rows += [
                    {"condition": condition, "seed": seed, "arm": arm, "split": "holdout_id", "task_id": f"t{i}"}
                    | {"prompt": f"{i} of {seed}", "family": ("math", "string.sort")[i % 2], "correct": bool(c)}
                    for i, c in enumerate(correct)
                ]
    return pd.DataFrame(rows)


def _facts(items: pd.DataFrame, **changed: object) -> dict[tuple[str, int], dict[str, Any]]:
    runs = set(zip(items["condition"], items["seed"], strict=True))
    return {run: dict.fromkeys(FACTS, "same") | (changed if run[0] == "ecology" else {}) for run in runs}


def test_a_clear_gain_is_found_and_does_not_depend_on_the_order_of_rows() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.5})
    (row,) = compute_comparisons(items, _facts(items), PAIR, 1000)
    assert (row["verdict"], row["note"], row["n"], row["seeds"]) == ("ecology", "these runs only", 900, 3)
    shares = items[items.arm == items.condition].groupby("condition").correct.mean()
    assert row["diff"] == pytest.approx(shares["ecology"] - shares["frozen"])
    shuffled = items.sample(frac=1, random_state=1)
    assert compute_comparisons(shuffled, _facts(items), PAIR, 1000) == [row]


def test_equal_answers_are_undecided_and_said_to_be_equal() -> None:
    items = _items({"frozen": 0.3})
    both = pd.concat([items, items.assign(condition="ecology", arm=items.arm.str.replace("frozen", "ecology"))])
    (row,) = compute_comparisons(both, _facts(both), PAIR, 1000)
    assert (row["verdict"], row["note"]) == ("undecided", "these runs only; no answer differs in correctness")


@pytest.mark.parametrize("fact", FACTS)
def test_unlike_conditions_are_refused_with_the_difference_named(fact: str) -> None:
    items = _items({"frozen": 0.3, "ecology": 0.5}, seeds=1, n=20)
    with pytest.raises(StageError, match=rf"ecology and frozen cannot be compared: seed 0 differs in {fact} "):
        compute_comparisons(items, _facts(items, **{fact: {"other": 1}}), PAIR, 1000)


def test_items_without_a_partner_are_refused() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.5}, seeds=2, n=20)
    lost = items[~((items.condition == "ecology") & (items.seed == 1) & (items.task_id == "t7"))]
    with pytest.raises(StageError, match="1 have no partner, the first is t7 of seed 1"):
        compute_comparisons(lost, _facts(items), PAIR, 1000)
    with pytest.raises(StageError, match="twice in one arm"):
        compute_comparisons(pd.concat([items, items.tail(30)]), _facts(items), PAIR, 1000)
    with pytest.raises(StageError, match="sft has no items on holdout_id"):
        compute_comparisons(items, _facts(items), [PAIR[0] | {"b": "sft"}], 1000)


def test_accuracies_of_every_arm_and_family() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.5})
    rows = {(r["arm"], r["family"]): r for r in compute_accuracies(items, 1000)}
    assert len(rows) == 4 * 3
    for (arm, family), row in rows.items():
        mine = items[(items.arm == arm) & ((family == "*") | (items.family == family))]
        assert row["acc"] == pytest.approx(mine.groupby("seed").correct.mean().mean())
        assert row["lo"] < row["acc"] < row["hi"] and row["n"] == len(mine)


def test_what_only_one_of_two_conditions_says_is_a_difference() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.5}, seeds=1, n=20)
    for more in ("ecology", "frozen"):
        facts = {run: own | ({"template": "x"} if run[0] == more else {}) for run, own in _facts(items).items()}
        with pytest.raises(StageError, match="cannot be compared: seed 0 differs in template .*null"):
            compute_comparisons(items, facts, PAIR, 1000)


def test_a_manifest_that_does_not_say_what_it_measured_is_refused() -> None:
    known = {"host": "x", "template": None}
    document = {"code": "abc"}
    whole = facts_of({"summary": {"comparable": known}, "identity_document": document})
    assert whole == known | {"code": "abc"}
    run = {"condition": "sft", "seed": 2}
    with pytest.raises(StageError, match=re.escape("evaluate sft s2: its manifest does not say comparable, so")):
        facts_of({"summary": {"comparable": {}}, "identity_document": document} | run)
    with pytest.raises(StageError, match=re.escape("evaluate sft s2: its manifest does not say comparable, code, so")):
        facts_of(run)


def test_only_complete_seeds_are_compared(tmp_path: Path) -> None:
    assert complete_seeds([("a", 0), ("b", 0), ("a", 1), ("b", 2), ("a", 2)]) == [0, 2]
    with pytest.raises(StageError, match="nothing to compare"):
        write_comparisons({("a", 0): tmp_path, ("b", 1): tmp_path}, [], tmp_path)


def test_a_suite_in_which_nothing_could_be_run_says_why(tmp_path: Path) -> None:
    from example_suite import part, write_stage

    stage = write_stage(
        tmp_path, part("example-0a1b2c3d", "sft", 0, "evaluate"), {}, summary={"not_run": "sft: too dear"}
    )
    with pytest.raises(StageError, match="nothing to compare: sft: too dear"):
        write_comparisons({("sft", 0): tmp_path / stage.folder}, [], tmp_path)


def test_a_suite_without_claims_leaves_an_empty_table(tmp_path: Path) -> None:
    from example_suite import part, write_suite

    write_suite(tmp_path, seeds=(0,), items=24)
    folder = tmp_path / part("example-0a1b2c3d", "frozen", 0, "evaluate").folder
    written = write_comparisons({("frozen", 0): folder}, [], tmp_path, resamples=200)
    assert pq.read_table(tmp_path / "comparisons.parquet").num_rows == 0 and written["comparisons"] == []
    assert np.isfinite([row["hi"] for row in written["accuracies"]]).all()


def test_a_declared_margin_is_answered_in_the_note() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.31}, seeds=6)
    rows = [compute_comparisons(items, _facts(items), [PAIR[0] | {"margin": m}], 1000)[0] for m in (0.2, 0.005)]
    assert [row["note"] for row in rows] == [
        f"ecology not worse by more than {m} points: {s} (bound {100 * row['lo']:+.1f})"
        for row, m, s in zip(rows, ("20", "0.5"), ("shown", "not shown"), strict=True)
    ]


def test_several_margins_share_their_chance_to_err() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.31}, seeds=8)
    alone = compute_comparisons(items, _facts(items), [PAIR[0]], 1000)[0]["lo"]
    margin = -alone + 1e-4 if alone < 0 else 1e-4
    claim = PAIR[0] | {"margin": margin}
    other = claim | {"a": PAIR[0]["b"], "b": PAIR[0]["a"]}
    assert ": shown" in compute_comparisons(items, _facts(items), [claim], 1000)[0]["note"]
    shared = compute_comparisons(items, _facts(items), [claim, other], 1000)[0]
    assert ": not shown" in shared["note"] and f"(bound {100 * shared['lo']:+.1f})" not in shared["note"]


def test_seeds_too_few_for_the_declared_margins_show_none() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.31}, seeds=6)
    claim = PAIR[0] | {"margin": 0.5}
    (row, _) = compute_comparisons(items, _facts(items), [claim, claim], 1000)
    assert row["note"].endswith("ecology not worse by more than 50 points: not shown (6 seeds cannot)")


def test_verdicts_of_one_pair_by_two_routers_are_told_apart() -> None:
    items = _items({"frozen": 0.3, "ecology": 0.5})
    rows = compute_comparisons(items, _facts(items), [PAIR[0], PAIR[0] | {"routing": "single"}], 1000)
    assert list(in_words(rows)) == [
        "ecology vs frozen on holdout_id",
        "ecology vs frozen on holdout_id by router single",
    ]


def test_a_pair_may_be_compared_under_another_routing() -> None:
    """Under `single` nothing differs; the host, which has no routing, stands for itself."""
    items = _items({"frozen": 0.3, "ecology": 0.5})
    host = items[items.arm == "frozen"].set_index(["seed", "task_id"]).correct
    routed = items.arm == "ecology:single"
    items.loc[routed, "correct"] = host.loc[
        list(zip(items[routed].seed, items[routed].task_id, strict=True))
    ].to_numpy()
    items = items[items.arm != "frozen:single"]
    (row,) = compute_comparisons(items, _facts(items), [PAIR[0] | {"routing": "single"}], 1000)
    assert (row["a"], row["b"], row["routing"], row["diff"]) == ("ecology", "frozen", "single", 0.0)
    assert row["verdict"] == "undecided"
    (headline,) = compute_comparisons(items, _facts(items), [PAIR[0] | {"routing": None}], 1000)
    assert (headline["routing"], headline["verdict"]) == ("headline", "ecology")


def test_a_condition_that_was_not_run_is_compared_over_the_other_seeds() -> None:
    rng = stream(0, 0, 0, "test")
    rows = [
        {"condition": own, "seed": seed, "arm": own, "split": "holdout_id", "task_id": str(task), "family": "math"}
        | {"correct": bool(rng.random() < (0.8 if own == "a" else 0.4))}
        for own, seeds in (("a", (0, 1, 2)), ("b", (0, 2)))
        for seed in seeds
        for task in range(50)
    ]
    facts: dict[tuple[str, int], dict[str, str]] = {(own, seed): {"host": "h"} for own in "ab" for seed in range(3)}
    facts |= {("b", 1): {"not_run": "no step"}} | {("c", seed): {"not_run": "no step"} for seed in range(3)}
    declared = [{"a": "a", "b": own, "split": "holdout_id"} for own in ("b", "c")]
    (row,) = compute_comparisons(pd.DataFrame(rows), facts, declared, 200)
    assert (row["a"], row["b"], row["seeds"], row["n"]) == ("a", "b", 2, 100)
    assert "without seed 1, where one of them was not run" in row["note"]
    del facts["c", 0], facts["c", 1], facts["c", 2]  # never judged: that is no condition that was not run
    with pytest.raises(StageError, match="c has no items on holdout_id"):
        compute_comparisons(pd.DataFrame(rows), facts, declared, 200)


@pytest.mark.parametrize("others", [100, 200])
def test_a_family_that_seeds_share_is_crossed_and_its_split_if_it_weighs(others: int) -> None:
    """All seeds err alike, so that crossing shows in its width. Of 20 prompts that eight seeds have and 100 that one
    has, a prompt stands with 2.2 seeds in the mean; beside 200 with 1.6.
    """
    rows = [
        {"condition": "frozen", "arm": "frozen", "seed": seed, "split": "holdout_id", "task_id": f"{family}{item}"}
        | {"family": family, "correct": item % 3 == 0, "prompt": f"{family} {item}{'' if few else f' of {seed}'}"}
        for seed in range(8)
        for family, items, few in (("small", 20, True), ("large", others, False))
        for item in range(items)
    ]
    drawn_again = pd.DataFrame(rows)
    apart = drawn_again.assign(prompt=drawn_again["prompt"] + " " + drawn_again["seed"].astype(str))
    wide, narrow = ({r["family"]: r for r in compute_accuracies(items, 1000)} for items in (drawn_again, apart))
    widths = {own: (wide[own]["hi"] - wide[own]["lo"]) / (narrow[own]["hi"] - narrow[own]["lo"]) for own in wide}
    assert widths["small"] > 1.5 and widths["large"] == 1 and (widths["*"] > 1.5 if others == 100 else widths["*"] == 1)


def test_a_gain_on_the_few_items_of_a_file_is_no_verdict() -> None:
    """Every seed gains the same four of 50 items and loses the same one."""
    rows = [
        {"condition": condition, "seed": seed, "arm": condition, "split": "holdout_id", "task_id": f"t{item}"}
        | {"family": "math", "correct": 4 <= item < 20 or item in gained, "prompt": str(item)}
        for condition, gained in (("ecology", {0, 1, 2, 3}), ("frozen", {30}))
        for seed in range(8)
        for item in range(50)
    ]
    file = pd.DataFrame(rows)
    (row,) = compute_comparisons(file, _facts(file), PAIR)
    assert row["verdict"] == "undecided" and row["lo"] < 0 < row["diff"]
    own = file.assign(prompt=file["prompt"] + " " + file["seed"].astype(str))
    (row,) = compute_comparisons(own, _facts(own), PAIR)
    assert row["verdict"] == "ecology" and row["lo"] > 0
    wide, narrow = (compute_accuracies(items)[0] for items in (file, own))
    assert wide["acc"] == narrow["acc"] and wide["hi"] - wide["lo"] > 2 * (narrow["hi"] - narrow["lo"])
