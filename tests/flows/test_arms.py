"""Conditions that a suite defines itself, and the rivals that the default suite has not."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from evolora_core.searches.adapters.evaluation.forms import FORMS
from evolora_core.store import query

ROOT = Path(__file__).resolve().parents[2]
ARMS = [
    "processes=1",
    "seeds=[0]",
    "conditions=[frozen, ecology, unmerged, double, es, grpo, expert, specialists, few]",
    "arms={unmerged: {like: ecology, changes: {verifier_error: 0.05, assimilation: {attempts: 0}}}, "
    "double: {like: single, budget: 2}, "
    "specialists: {like: sft, changes: {specialists: true, strengths: [1.0, 0.5], labels: 24, label_error: 0.1}}, "
    "few: {like: examples, changes: {labels: 4, shown: [1], chosen: [same]}}, expert: {like: expert-iteration}}",
    "es={pairs: 2, items: 8, trials: [{sigma: 0.02}, {sigma: 0.05}]}",
    "grpo={groups: 4, samples: 4, trials: [{learning_rate: 0.001}, {partial_credit: true}]}",
    "expert_iteration={rounds: 2, samples: 2, batch_rows: 8, labels: 2, trials: [{sampling: 0.4}, {sampling: 0.3}]}",
    "tuning={seeds: [1000], fraction: 0.5}",
    "data.reselection_items=12",
    "evaluation.routings=[family, single, cell, learned, reselected]",
    "evaluation.strengths=[0.5, 2.0]",
    "evaluation.frontier_items=9",
    "evaluation.variants=true",
    "evaluation.comparisons=[{a: specialists, b: es, split: holdout_id, routing: learned}]",
]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_arms_are_tuned_matched_and_compared_like_all_others(home: Path, tmp_path: Path) -> None:
    from flows.paper_suite import paper_suite

    done = paper_suite(str(ROOT / "configs" / "suites" / "tiny.yaml"), ARMS, packs=str(tmp_path))
    table = {row["condition"]: row for row in query(home, "FROM paper_table").records()}
    assert list(table) == [
        "frozen",
        "ecology",
        "unmerged",
        "double",
        "es",
        "grpo",
        "expert",
        "specialists",
        "few",
    ]
    assert table["unmerged"]["merges"] == 0 and table["double"]["merges"] is None
    whole = table["ecology"]["total_flops"]
    for condition, share in {
        "unmerged": 1,
        "double": 2,
        "es": 1,
        "grpo": 1,
        "expert": 1,
        "specialists": 1,
    }.items():
        assert 0.8 * share * whole < table[condition]["total_flops"] <= share * whole, condition
    tuned = query(home, "SELECT arm, count(*) FROM tuning WHERE changes IS NOT NULL GROUP BY ALL").rows
    assert dict(tuned) == dict.fromkeys(["ecology", "unmerged", "double", "es", "grpo", "expert", "specialists"], 2)
    adapters = "SELECT DISTINCT adapter FROM sft_steps WHERE condition = '{}' ORDER BY ALL"
    assert query(home, adapters.format("specialists")).rows == [("math",), ("string.sort",)]
    assert query(home, adapters.format("expert")).rows == [("round-1",), ("round-2",)]
    rounds = "SELECT sum(flops) FROM {} WHERE condition = 'expert' {}"
    learned = query(home, rounds.format("compute", "AND purpose IN ('rollout', 'update')")).rows
    assert query(home, rounds.format("expert_rounds", "")).rows == learned
    assert query(home, "SELECT count(*) > 0 FROM es_steps").rows == [(True,)]
    spent = "SELECT sum(flops) FROM compute WHERE condition = 'grpo' AND purpose IN ('rollout', 'update')"
    assert query(home, "SELECT sum(flops) FROM grpo_steps").rows == query(home, spent).rows
    assert query(home, "SELECT count(*) > 0 FROM grpo_steps").rows == [(True,)]
    # `few` trains nothing and is not tuned: the selection split chooses, bucket by bucket, and that is all it spends.
    asked = "SELECT purpose, flops FROM compute WHERE condition = 'few' AND stage = 'examples'"
    assert query(home, asked).rows == [("routing", table["few"]["total_flops"])]
    tried = "SELECT routing, count(*), count(*) FILTER (chosen) FROM shots GROUP BY ALL ORDER BY ALL"
    buckets = {"cell": 2, "family": 2, "learned": 2, "single": 1}
    assert query(home, tried).rows == [(router, 2 * many, many) for router, many in buckets.items()]
    arms = query(home, "SELECT DISTINCT arm FROM arm_accuracy WHERE condition = 'es'").rows
    assert {arm for (arm,) in arms} == {"es", "es:single", "es:cell", "es:learned", "es:reselected"}
    assert query(home, "SELECT a, b, routing FROM comparison").rows == [("specialists", "es", "learned")]
    # Asking the router `learned` costs something for each answer.
    price = "SELECT flops_per_answer FROM arm_accuracy WHERE split = 'retention' AND arm = ?"
    family, learned = (query(home, price.replace("?", f"'{arm}'")).rows[0][0] for arm in ("es", "es:learned"))
    assert family < learned
    assert (Path(done["pack"]) / "plots" / "comparisons.png").exists()
    found = query(home, "SELECT condition, strength, split, n FROM frontier ORDER BY ALL").rows
    assert found == sorted(
        (condition, strength, split, 9)
        for condition in table
        for strength in ([0.0] if condition == "frozen" else [0.5, 1.0, 2.0])
        for split in ("holdout_id", "retention")
    )
    # As trained, an arm answers the frontier's items as it answers them anyway: every 32 / 9th of the split.
    alone = "SELECT correct FROM evaluations WHERE arm = ? AND split = 'retention'"
    traced = "SELECT correct FROM frontier WHERE condition = ? AND split = 'retention' AND strength = ?"
    for condition, strength, arm in (("frozen", 0.0, "frozen"), ("es", 1.0, "es:single")):
        right = [correct for (correct,) in query(home, alone, [arm]).rows]
        assert query(home, traced, [condition, strength]).rows == [(sum(right[i * 32 // 9] for i in range(9)),)]
    assert (Path(done["pack"]) / "plots" / "frontier.png").exists()
    forms = query(home, "SELECT condition, form, n FROM robustness").rows
    assert sorted(forms) == sorted((condition, form, 32) for condition in table for form in FORMS)
    as_asked = "SELECT run_id, task_id, organelle, answer, correct FROM {} ORDER BY ALL"
    plain, answered = "variants WHERE form = 'plain'", "evaluations WHERE arm = condition AND split = 'holdout_id'"
    assert query(home, as_asked.format(plain)).rows == query(home, as_asked.format(answered)).rows
    assert (Path(done["pack"]) / "plots" / "robustness.png").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_families_arrive_for_every_arm_alike(home: Path, tmp_path: Path) -> None:
    from flows.paper_suite import paper_suite

    changes = [
        "processes=1",
        "seeds=[0]",
        "data.arrivals=true",
        "ecology.assimilation={}",  # nobody to merge with: one family learns at a time
        "conditions=[frozen, ecology, single, sft, specialists]",
        "arms={specialists: {like: sft, changes: {specialists: true}}}",
        "ecology.trials=[]",
        "sft.trials=[]",
        "evaluation.comparisons=[{a: ecology, b: sft, split: holdout_id}]",
    ]
    paper_suite(str(ROOT / "configs" / "suites" / "tiny.yaml"), changes, packs=str(tmp_path))
    families = "SELECT DISTINCT generation, family FROM episodes WHERE condition = 'ecology' ORDER BY ALL"
    assert query(home, families).rows == [(0, "math"), (1, "string.sort")]
    steps = "SELECT condition, adapter, min(step), max(step) > 0 FROM sft_steps GROUP BY ALL ORDER BY ALL"
    both = [("math", 1, True), ("string.sort", 1, True)]
    assert query(home, steps).rows == [(own, *row) for own in ("sft", "specialists") for row in both]
    # Every arm has for each family the share of the FLOPs that the ecology spent on it.
    stays = query(home, "SELECT manifest FROM stages WHERE stage = 'evolve' AND condition = 'ecology'").rows[0][0]
    earlier, later = json.loads(stays)["summary"]["stays"]
    shares = "SELECT sum(flops) FILTER (adapter = 'math') / sum(flops) FROM sft_steps WHERE condition = '{}'"
    for own in ("sft", "specialists"):
        ((share,),) = query(home, shares.format(own)).rows
        assert share == pytest.approx(earlier / (earlier + later), abs=0.1)
    ((folder,),) = query(home, "SELECT folder FROM stages WHERE stage = 'sft' AND condition = 'specialists'").rows
    weights = [load_file(path) for path in sorted((home / folder).rglob("adapter/adapter_model.safetensors"))]
    first, second = (torch.cat([own[name].ravel() for name in sorted(own) if "lora_A" in name]) for own in weights)
    assert abs(torch.cosine_similarity(first, second, dim=0)) < 0.2  # of beginnings of their own
    table = {row["condition"]: row["total_flops"] for row in query(home, "FROM paper_table").records()}
    assert all(table[own] <= table["ecology"] for own in ("single", "sft", "specialists"))
