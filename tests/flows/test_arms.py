"""Conditions that a suite defines itself, and the rivals that the default suite has not."""

from pathlib import Path

import pytest

from evolora_core.store import query

ROOT = Path(__file__).resolve().parents[2]
ARMS = [
    "processes=1",
    "seeds=[0]",
    "conditions=[frozen, ecology, unmerged, double, es, grpo, specialists]",
    "arms={unmerged: {like: ecology, changes: {assimilation: {attempts: 0}}}, double: {like: single, budget: 2}, "
    "specialists: {like: sft, changes: {specialists: true, strengths: [1.0, 0.5], labels: 24, label_error: 0.1}}}",
    "ecology.verifier_error=0.05",
    "es={pairs: 2, items: 2, trials: [{sigma: 0.02}, {sigma: 0.05}]}",
    "grpo={groups: 2, samples: 2, trials: [{learning_rate: 0.001}, {partial_credit: true}]}",
    "tuning.fraction=1.0",
    "evaluation.comparisons=[{a: specialists, b: es, split: holdout_id, routing: learned}]",
]


@pytest.mark.usefixtures("prefect_server")
def test_arms_are_tuned_matched_and_compared_like_all_others(home, tmp_path):
    from flows.paper_suite import paper_suite

    done = paper_suite(str(ROOT / "configs" / "suites" / "tiny.yaml"), ARMS, packs=str(tmp_path))
    table = {row["condition"]: row for row in query(home, "FROM paper_table").records()}
    assert list(table) == ["frozen", "ecology", "unmerged", "double", "es", "grpo", "specialists"]
    assert table["unmerged"]["merges"] == 0 and table["double"]["merges"] is None
    whole = table["ecology"]["total_flops"]
    for condition, share in {"unmerged": 1, "double": 2, "es": 1, "grpo": 1, "specialists": 1}.items():
        assert 0.2 * share * whole < table[condition]["total_flops"] <= share * whole, condition
    tuned = query(home, "SELECT arm, count(*) FROM tuning WHERE changes IS NOT NULL GROUP BY ALL").rows
    assert dict(tuned) == dict.fromkeys(["ecology", "unmerged", "double", "es", "grpo", "specialists"], 2)
    assert query(home, "SELECT DISTINCT adapter FROM sft_steps ORDER BY ALL").rows == [("math",), ("string.sort",)]
    assert query(home, "SELECT count(*) > 0 FROM es_steps").rows == [(True,)]
    spent = "SELECT sum(flops) FROM compute WHERE condition = 'grpo' AND purpose IN ('rollout', 'update')"
    assert query(home, "SELECT sum(flops) FROM grpo_steps").rows == query(home, spent).rows
    assert query(home, "SELECT count(*) > 0 FROM grpo_steps").rows == [(True,)]
    arms = query(home, "SELECT DISTINCT arm FROM arm_accuracy WHERE condition = 'es'").rows
    assert {arm for (arm,) in arms} == {"es", "es:single", "es:cell", "es:learned"}
    assert query(home, "SELECT a, b, routing FROM comparison").rows == [("specialists", "es", "learned")]
    # Asking the router `learned` costs a layer's prefill for each answer.
    price = "SELECT flops_per_answer FROM arm_accuracy WHERE split = 'retention' AND arm = ?"
    family, learned = (query(home, price.replace("?", f"'{arm}'")).rows[0][0] for arm in ("es", "es:learned"))
    assert family < learned
    assert (Path(done["pack"]) / "plots" / "comparisons.png").exists()
