"""The views that users query: their fixed columns, and their numbers against plain Python over the same rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_suite import CONDITIONS, COOLDOWN, part, suite_id, write_stage, write_suite

from evolora_core.statistics.inference import wilson
from evolora_core.store import query, rebuild, record
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"
CONTRACT = {
    "paper_table": "suite condition host seeds generations episodes mean_net mean_roi merges qd_coverage "
    "holdout_id_acc holdout_id_lo holdout_id_hi holdout_ood_acc holdout_ood_lo holdout_ood_hi retention_acc "
    "cost_per_answer train_flops total_flops",
    "holdout_accuracy": "suite run_id condition seed split family depth n correct acc lo hi",
    "comparison": "suite split a b n diff lo hi p verdict",
    "compute": "run_id condition seed stage purpose flops tokens seconds",
    "generation_summary": "run_id generation population episodes mean_reward mean_cost mean_net mean_roi energy_total "
    "births deaths merges qd_coverage",
    "ledger_balance": "run_id generation balance",
    "lineage": "run_id child parent role generation",
    "merge_table": "suite arm seeds evaluations search_score test_score test_lo test_hi flops seconds",
    "merge_domains": "suite arm domain score lo hi",
    "merge_generation": "run_id generation best mean diversity",
    "attention_table": "suite framework arm programs score lo hi predicted measured step_time parameters",
    "attention_losses": "suite program size seed loss",
    "scaling_fit": "",  # the name alone is fixed
    "candidate": "run_id candidate generation operator genome status reject_stage reason score",
    "candidate_lineage": "run_id child parent role",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("views")
    write_suite(home, SUITE, items=96)
    rebuild(home)
    return home


@pytest.mark.parametrize("view", CONTRACT)
def test_the_contract_columns_come_first_and_in_order(home: Path, view: str) -> None:
    columns = query(home, f"SELECT * FROM {view} LIMIT 1").columns
    expected = CONTRACT[view].split()
    assert columns[: len(expected)] == expected


def test_holdout_accuracy_counts_each_headline_item_once_with_wilson_intervals(home: Path) -> None:
    rows = query(home, "FROM holdout_accuracy").records()
    assert sum(r["n"] for r in rows) == 96 * 3 * 3 * len(CONDITIONS)
    for r in rows:
        assert r["acc"] == r["correct"] / r["n"]
        assert (r["lo"], r["hi"]) == pytest.approx(wilson(r["correct"], r["n"]), abs=1e-12)


def test_split_and_arm_accuracy_agree_with_the_items(home: Path) -> None:
    items = query(home, "SELECT run_id, arm, condition, split, correct FROM evaluations").rows
    for run_id, arm, split, acc in query(home, "SELECT run_id, arm, split, acc FROM arm_accuracy").rows:
        assert acc == pytest.approx(np.mean([i[4] for i in items if (i[0], i[1], i[3]) == (run_id, arm, split)]))
    difference = "SELECT DISTINCT a.acc - s.acc FROM arm_accuracy a JOIN split_accuracy s USING (run_id, split)"
    assert query(home, f"{difference} WHERE a.arm = s.condition").rows == [(0.0,)]


def test_a_router_that_asks_nobody_but_the_host_is_told(home: Path) -> None:
    found = {row["arm"]: (row["bare"], row["seeds"]) for row in query(home, "FROM bare_host").records()}
    assert found.pop("ecology:single") == (1, 3) and len(found) == 5 and set(found.values()) == {(0, 3)}
    told = query(home, "SELECT b, split, routing, bare FROM comparison_bare").rows
    assert told == [("sft", "retention", "single", "ecology in 1 of 3 seeds")]


def test_the_bare_host_is_counted_in_the_seeds_that_are_compared(tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=24)
    rebuild(tmp_path)
    sql = "SELECT bare FROM comparison_bare WHERE routing = 'single'"
    assert query(tmp_path, sql).rows == [("ecology in 1 of 3 seeds",)]
    with opened(store_path(tmp_path)) as connection:  # seed 0, in which it is, leaves the comparison
        connection.execute(
            """UPDATE data.stages SET manifest = json_merge_patch(manifest, '{"summary": {"not_run": "too dear"}}')
            WHERE stage = 'evaluate' AND condition = 'sft' AND seed = 0"""
        )
    assert query(tmp_path, sql).rows == []
    found = query(tmp_path, "SELECT bare, seeds FROM bare_host WHERE arm = 'ecology:single'").rows
    assert found and set(found) == {(1, 3)}


def test_paper_table_means_over_seeds(home: Path) -> None:
    table = {row["condition"]: row for row in query(home, "FROM paper_table").records()}
    assert list(table) == list(CONDITIONS)
    ecology, frozen, sft = table["ecology"], table["frozen"], table["sft"]
    assert (ecology["suite"], ecology["host"], ecology["seeds"]) == (SUITE, "nano", 3)
    assert (ecology["generations"], ecology["episodes"], ecology["merges"]) == (8, 256, 2)
    episodes = query(home, "SELECT seed, reward, cost FROM episodes WHERE condition = 'ecology'").rows
    net, roi = [], []
    for seed in range(3):
        reward, cost = (np.array([r[i] for r in episodes if r[0] == seed]) for i in (1, 2))
        costs = cost.sum() + COOLDOWN  # of which no episode and no generation knows
        net.append((reward.sum() - costs) / len(reward) / 1e6)
        roi.append(reward.sum() / costs)
    assert (ecology["mean_net"], ecology["mean_roi"]) == pytest.approx((np.mean(net), np.mean(roi)))
    assert ecology["qd_coverage"] == pytest.approx(0.7)  # of the last generation
    accuracies = query(home, "SELECT acc FROM split_accuracy WHERE condition = 'sft' AND split = 'retention'").rows
    assert sft["retention_acc"] == pytest.approx(np.mean(accuracies))
    assert (sft["train_flops"], sft["total_flops"]) == (1e11, 1e11 + 1e9)
    assert (ecology["train_flops"], ecology["total_flops"]) == (9e10, 1.01e11)
    assert [frozen[c] for c in ("generations", "episodes", "mean_net", "mean_roi", "merges", "train_flops")] == [
        None
    ] * 6
    assert sft["merges"] is None and frozen["cost_per_answer"] == pytest.approx(2e7 + 47.5)


def test_paper_table_leaves_out_seeds_that_one_condition_lacks(home: Path, tmp_path: Path) -> None:
    write_suite(tmp_path, SUITE, items=24)
    (entry,) = suite_id(SUITE).index(tmp_path).glob("sft-s1.evaluate.json")
    entry.unlink()
    rebuild(tmp_path)
    assert query(tmp_path, "SELECT seed FROM complete_seeds ORDER BY seed").rows == [(0,), (2,)]
    assert query(tmp_path, "SELECT DISTINCT seeds FROM paper_table").rows == [(2,)]


def test_the_ledger_balances_and_a_broken_one_shows(home: Path, tmp_path: Path) -> None:
    assert query(home, "SELECT max(abs(balance)), count(*) FROM ledger_balance").rows == [(0.0, 54)]
    broken = [{"generation": g, "entry": "settle", "account": "sun", "amount": 500_000} for g in range(2)]
    record(tmp_path, write_stage(tmp_path, part(SUITE, "ecology", 0, "evolve"), {"ledger": broken}))
    assert query(tmp_path, "SELECT generation, balance FROM ledger_balance ORDER BY ALL").rows == [(0, 0.5), (1, 1.0)]


def test_energies_are_shown_in_units(home: Path) -> None:
    where = "WHERE condition = 'ecology'"
    shown = query(home, f"SELECT mean_cost FROM generation_summary {where} ORDER BY seed, generation").rows
    grouped = "GROUP BY seed, generation ORDER BY seed, generation"
    raw = query(home, f"SELECT avg(cost) FROM episodes {where} {grouped}").rows
    assert np.array(shown) == pytest.approx(np.array(raw) / 1e6)


def test_reasons_of_assimilation_count_every_trial(home: Path) -> None:
    trials = query(home, "SELECT condition, reason, accepted, uplift FROM assimilations").rows
    for row in query(home, "FROM assimilation_reasons").records():
        own = [t[3] for t in trials if t[:3] == (row["condition"], row["reason"], row["accepted"])]
        assert row["trials"] == len(own) and row["uplift"] == pytest.approx(np.mean(own))
    assert query(home, "SELECT sum(trials) FROM assimilation_reasons").rows[0][0] == len(trials) > 0


def test_progress_along_the_lineage_is_that_of_first_answers(home: Path) -> None:
    first = query(home, "SELECT run_id, organelle, family, generation, correct FROM episodes WHERE sample = 0").rows
    parents = query(home, "SELECT run_id, child, parent FROM lineage WHERE role = 'parent'").rows
    rows = query(home, "FROM lineage_progress").records()
    assert any(row["inherited"] is not None for row in rows)
    for row in rows:
        niche = [f for f in first if f[0] == row["run_id"] and f[2] == row["niche"]]
        own = [f for f in niche if f[1] == row["organelle"]]
        began, ended = min(f[3] for f in own), max(f[3] for f in own)
        start = np.mean([f[4] for f in own if f[3] <= began + 1])
        end = np.mean([f[4] for f in own if f[3] >= ended - 1])
        assert (row["first"], row["last"]) == pytest.approx((start, end))
        elders = [p[2] for p in parents if p[:2] == (row["run_id"], row["organelle"])]
        born_from = [f[4] for f in niche if f[1] in elders and row["born"] - 1 <= f[3] <= row["born"]]
        if born_from:
            assert row["inherited"] == pytest.approx(start - np.mean(born_from))
        else:
            assert row["inherited"] is None


def test_a_comparison_has_the_regime_that_its_suite_names(home: Path) -> None:
    rows = query(home, "SELECT b, split, regime FROM comparison WHERE regime IS NOT NULL").rows
    assert rows == [("sft", "holdout_id", "all labels, $5 each")]
    assert query(home, "SELECT count(*) FROM comparison").rows == query(home, "SELECT count(*) FROM comparisons").rows


def test_discovery_counts_items_and_not_answers(home: Path) -> None:
    rows = query(home, "FROM discovery").records()
    episodes = query(home, "SELECT run_id, generation, family, organelle, task_id, sample, correct FROM episodes").rows
    groups: dict[tuple[Any, ...], list[tuple[int, bool]]] = {}
    for *key, sample, correct in episodes:
        groups.setdefault(tuple(key), []).append((sample, correct))
    assert rows
    for row in rows:
        mine = [own for key, own in groups.items() if key[:3] == (row["run_id"], row["generation"], row["family"])]
        assert row["items"] == len(mine)
        assert row["right_first"] == pytest.approx(np.mean([any(c and s == 0 for s, c in own) for own in mine]))
        assert row["right_in_the_end"] == pytest.approx(np.mean([any(c for _, c in own) for own in mine]))
        assert row["answers"] == pytest.approx(np.mean([len(own) for own in mine]))


def test_gains_by_origin_add_up_to_the_gain_over_the_host(home: Path) -> None:
    rows = query(home, "FROM gain_by_origin").records()
    answers = query(home, "SELECT arm, seed, split, correct FROM evaluations").rows
    assert {"founder", "host"} <= {row["origin"] for row in rows}
    for arm, seed, split in {(row["arm"], row["seed"], row["split"]) for row in rows}:
        own = [row for row in rows if (row["arm"], row["seed"], row["split"]) == (arm, seed, split)]
        mine, hosts = ([a[3] for a in answers if a[:3] == (name, seed, split)] for name in (arm, "frozen"))
        assert sum(row["items"] for row in own) == len(mine)
        assert sum(row["points"] for row in own) == pytest.approx(100 * (np.mean(mine) - np.mean(hosts)))
