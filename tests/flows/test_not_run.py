"""Rivals whose budget is too small cost their own rows: the rest of the seed is judged, compared and packed."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import command

from evolora_core.engine.run_index import entries, suites
from evolora_core.searches.adapters.map.regime_map import places
from evolora_core.store import query

TINY = str(Path(__file__).resolve().parents[2] / "configs" / "suites" / "tiny.yaml")
POOR = [
    "processes=1", "seeds=[0]", "conditions=[frozen, ecology, poor-sft, poor-grpo]", "ecology.generations=1",
    "arms={poor-sft: {like: sft, budget: 0.01}, poor-grpo: {like: grpo, budget: 0.01}}",
    "grpo.trials=[{learning_rate: 0.001}, {learning_rate: 0.002}]",
    "evaluation.comparisons=[{a: ecology, b: frozen, split: holdout_id}, {a: ecology, b: poor-sft, split: holdout_id}]",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_a_rival_without_a_step_costs_its_row(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", TINY, *(word for change in POOR for word in ("--set", change)), "--json"]
    code, out, err = command(capsys, *run)
    assert code == 0, err
    rows = {row["condition"]: row for row in json.loads(out)}
    assert [rows[own]["seeds"] for own in ("frozen", "ecology", "poor-sft", "poor-grpo")] == [1, 1, 0, 0]
    assert rows["ecology"]["holdout_id_acc"] > 0 and not rows["ecology"]["not_run"]
    for own in ("poor-sft", "poor-grpo"):
        assert rows[own]["not_run"] == "0"
        assert {rows[own][key] for key in ("holdout_id_acc", "retention_acc", "total_flops", "cost_per_answer")} == {
            None
        }

    reasons = dict(query(home, "SELECT condition, reason FROM not_run ORDER BY ALL").rows)
    assert reasons["poor-sft"].startswith("sft: the budget of ") and "one optimizer step" in reasons["poor-sft"]
    assert reasons["poor-grpo"].startswith("grpo: the budget of ") and "one step" in reasons["poor-grpo"]
    assert query(home, "SELECT seed FROM complete_seeds").rows == [(0,)]
    assert query(home, "SELECT DISTINCT condition FROM evaluations ORDER BY ALL").rows == [("ecology",), ("frozen",)]
    assert query(home, "SELECT a, b FROM comparison").rows == [("ecology", "frozen")]
    tried = (
        "SELECT arm, count(*), count(holdout_acc), sum(flops)::BIGINT FROM tuning WHERE arm LIKE 'poor-%' GROUP BY arm"
    )
    assert query(home, f"{tried} ORDER BY ALL").rows == [("poor-grpo", 2, 0, 0), ("poor-sft", 2, 0, 0)]

    page = Path("packs/tiny/README.md").read_text(encoding="utf-8")
    assert page.count("not run: budget too small") == 2 and reasons["poor-sft"] in page
    assert "Incomplete" not in page and page.count("\n- ") >= 1
    summary: dict[str, Any] = json.loads(Path("packs/tiny/summary.json").read_text(encoding="utf-8"))
    assert summary["missing_runs"] == [] and len(summary["takeaways"]) == 1
    assert command(capsys, "pack", "verify", "packs/tiny")[0] == 0
    assert command(capsys, "pack", "export", "packs/tiny")[0] == 0
    assert places(Path("packs/tiny")).empty  # a declared comparison that was not made is no place of the map

    (suite,) = suites(home)
    by_name = {f"{own.condition}.{own.stage}": own for own in entries(home, suite)}
    assert by_name["poor-sft.sft"].state == "done" and "not run: sft: the budget" in by_name["poor-sft.sft"].reason
    code, _, err = command(capsys, "export", f"{suite}.poor-sft.s0", "--out", "adapter")
    assert code == 1 and "was not run (sft: the budget" in err and not Path("adapter").exists()
    assert command(capsys, *run)[0] == 0
    assert {own.state for own in entries(home, suite)} == {"cached"}
