"""Families that come and go one after another."""

from pathlib import Path
from typing import Any

import pytest
from small_ecologies import evolve, rows, start, without_clock

from evolora_core.engine.probes import probe
from evolora_core.errors import Unaffordable
from evolora_core.searches.adapters.ecology import evolve as loop
from evolora_core.searches.adapters.ecology.pace import longest_answer

ORDER = ["math", "json_repair"]  # not the alphabet's


@pytest.fixture(scope="module")
def passing(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return evolve(small, tmp_path_factory.mktemp("passing"), arrivals=ORDER)


def test_everyone_practises_what_is_there(small: Any, passing: Any) -> None:
    seen = {(row["generation"] >= 2, row["family"]) for row in rows(passing.folder, "episodes")}
    assert seen == {(False, "math"), (True, "json_repair")}


def test_who_sleeps_neither_pays_nor_learns_nor_dies(passing: Any) -> None:
    sleeping = {
        str(row["organelle"]): (row["niche"] == "math")
        for row in rows(passing.folder, "organelles")
        if row["origin"] == "founder"
    }
    tickets = [row for row in rows(passing.folder, "ledger") if row["entry"] in ("ticket", "answer", "sale")]
    own = [row for row in tickets if row["account"] in sleeping]
    assert {row["account"] for row in own} == {*sleeping}
    for row in own:  # a founder of `math` sleeps in the second half, the others in the first
        assert sleeping[row["account"]] == (row["generation"] < 2)
    deaths = [row for row in rows(passing.folder, "organelles") if row["died"] is not None]
    assert deaths and all((row["niche"] == "math") == (row["died"] < 2) for row in deaths)


def test_what_was_learned_stays(small: Any, passing: Any) -> None:
    """Weights of the first family are as its cooldown left them; both families were learned."""
    organelles = rows(passing.folder, "organelles")
    for family in ORDER:
        assert any(row["niche"] == family and row["delta_norm"] > 0 for row in organelles)
    updates = [row for row in rows(passing.folder, "ledger") if row["entry"] == "update" and row["amount"] < 0]
    by_id = {str(row["organelle"]): row["niche"] for row in organelles}
    # The cooldown of the first family is charged at the moment at which the second one comes.
    assert {(by_id[row["account"]], row["generation"]) for row in updates} >= {("math", 0), ("math", 2)}
    assert not any(by_id[row["account"]] == "math" and row["generation"] > 2 for row in updates)
    totals: dict[int, int] = {}
    for row in rows(passing.folder, "ledger"):
        totals[row["generation"]] = totals.get(row["generation"], 0) + row["amount"]
    assert set(totals.values()) == {0}


def test_a_family_whose_organelles_are_gone_leaves_the_run_to_the_next(
    small: Any, passing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else may practise it, so that its generations would cost nothing and never end."""
    made = loop.generation

    def fatal(run: Any) -> None:
        made(run)
        if run.state.phase == 0:
            for organelle in run.awake():
                run.state.retire(organelle, "bankrupt")

    monkeypatch.setattr(loop, "generation", fatal)
    done = evolve(small, tmp_path, budget=round(1.3 * passing.meter.total()), arrivals=ORDER)
    seen = [row["family"] for row in rows(done.folder, "episodes") if row["generation"] > 0]
    assert set(seen) == {"json_repair"} and not done.extinct


def test_a_share_that_pays_for_no_generation_is_refused(small: Any, tmp_path: Path) -> None:
    budget = round(small.prices.spent + 560 * small.prices.unit_flops)
    with pytest.raises(Unaffordable, match=r"a generation of each family \(json_repair has none\)"):
        start(small, tmp_path, arrivals=ORDER, shares=(0.97, 0.03), budget=budget)  # before anything is learned


def test_a_family_for_which_nothing_is_left_stays_unlearned_and_what_was_spent_counts(
    small: Any, passing: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(loop, "longest_answer", lambda run, phase: 1000.0**phase)  # the second is not as was foreseen
    monkeypatch.setattr(loop, "first_generation", lambda run: 0.0)
    budget = round(1.3 * passing.meter.total())
    done = evolve(small, tmp_path, arrivals=ORDER, budget=budget)
    assert {row["family"] for row in rows(done.folder, "episodes")} == {"math"}
    assert "the budget has no generation left for json_repair, which stays unlearned" in caplog.text
    assert len(done.stays) == 2 and done.stays[1] == 0 < done.stays[0] and done.meter.total() <= budget


def test_each_family_has_the_share_that_it_had_in_the_run_that_leads(small: Any, passing: Any, tmp_path: Path) -> None:
    routing = passing.meter.flops("routing")
    assert len(passing.stays) == 2 and min(passing.stays) > 0
    assert sum(passing.stays) == passing.meter.total() - routing - small.prices.spent
    budget = round(2 * passing.meter.total())
    done = evolve(small, tmp_path, budget=budget, arrivals=ORDER, shares=(0.75, 0.25))
    assert done.stays[0] / sum(done.stays) == pytest.approx(0.75, abs=0.12) and done.meter.total() <= budget


def test_a_cheap_family_is_not_priced_like_the_dear_one_before_it(small: Any, passing: Any, tmp_path: Path) -> None:
    """It may have room for one generation of its own price, and for none at the other's."""
    run = start(small, tmp_path, arrivals=["json_repair", "math"])
    longer, spent = longest_answer(run, 0), 10**9
    run.state.pass_generation(spent)
    run.state.arrive()
    assert longest_answer(run, 1) < 0.8 * longer
    run.state.foresee(longest_answer(run, 1) / longer)
    assert run.state.last_flops == pytest.approx(spent * longest_answer(run, 1) / longer, rel=1e-6)


@pytest.mark.parametrize("mode", ["ecology", "single"])
def test_a_killed_run_goes_on_as_if_nothing_had_been(
    small: Any,
    passing: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
) -> None:
    budget = {"budget": round(1.3 * passing.meter.total()), "mode": mode, "arrivals": ORDER}
    whole = evolve(small, tmp_path / "whole", **budget)
    assert whole.meter.total() <= budget["budget"]
    seen = [row["family"] for row in rows(whole.folder, "episodes")]
    assert list(dict.fromkeys(seen)) == ORDER and seen == sorted(seen, reverse=True)

    monkeypatch.setenv("EVOLORA_COMMIT_SECONDS", "0")
    last = whole.generations - 1

    def kill(number: Any) -> None:
        if number == last:
            raise KeyboardInterrupt

    with probe("generation", kill), pytest.raises(KeyboardInterrupt):
        evolve(small, tmp_path / "killed", **budget)
    with caplog.at_level("INFO"):
        resumed = evolve(small, tmp_path / "killed", **budget)
    assert f"resumed at generation {last}" in caplog.text
    assert without_clock(resumed.folder) == without_clock(whole.folder) and resumed.stays == whole.stays
    for name in ("population.safetensors", "routes-family.json"):
        assert (resumed.folder / name).read_bytes() == (whole.folder / name).read_bytes()
