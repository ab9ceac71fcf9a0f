"""The generation loop on the shipped nano host."""

import math
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import evolve, rows, start, without_clock

from evolora_core.engine import artifacts
from evolora_core.errors import StageError
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population.merge import summed_rank
from evolora_core.lora.population.saved import load_population
from evolora_core.searches.adapters.ecology import evolve as loop
from evolora_core.searches.adapters.ecology import merit
from evolora_core.searches.adapters.ecology.evolve import advance
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


def test_a_resumed_run_is_the_same_run(small: Any, straight: Any, tmp_path: Path) -> None:
    """Also extends a finished run: the horizon is no part of it."""
    first = small.config.model_copy(update={"generations": 2})
    evolve(small, tmp_path, config=first)
    resumed = evolve(small, tmp_path)
    assert without_clock(tmp_path) == without_clock(straight.folder)
    for name in ("population.safetensors", "population.json", "routes-family.json", "routes-single.json"):
        assert (tmp_path / name).read_bytes() == (straight.folder / name).read_bytes()
    assert resumed.meter.total() == straight.meter.total()


def test_the_ledger_has_every_balance_and_all_that_was_metered(small: Any, straight: Any) -> None:
    """Sums are zero by construction; what can be wrong is who paid, and whether all of it was charged."""
    balances: dict[str, int] = {}
    spent: dict[str, int] = {}
    for row in rows(straight.folder, "ledger"):
        balances[row["account"]] = balances.get(row["account"], 0) + row["amount"]
        if row["account"] == "sink":
            spent[row["entry"]] = spent.get(row["entry"], 0) + row["amount"]
    assert sum(balances.values()) == 0
    organelles = rows(straight.folder, "organelles")
    assert {str(row["organelle"]): row["balance"] for row in organelles if row["balance"]} == {
        account: amount for account, amount in balances.items() if account not in ("sun", "sink") and amount
    }
    flops: dict[str, int] = {}
    for row in rows(straight.folder, "compute"):
        flops[row["purpose"]] = flops.get(row["purpose"], 0) + row["flops"]
    for entry, purpose in (("answer", "rollout"), ("update", "update")):
        assert spent[entry] == pytest.approx(flops[purpose] / small.prices.unit_flops * 1e6, rel=1e-6)


def test_the_archive_has_organelles_where_they_have_answered(small: Any, straight: Any) -> None:
    """A child inherits half of its parent's evidence of skill, which is no practice of its own."""
    asked = Counter((row["organelle"], row["family"], row["depth"]) for row in rows(straight.folder, "episodes"))
    elites = rows(straight.folder, "archive")
    assert elites
    for row in elites:
        assert asked[row["organelle"], row["family"], row["depth"]] >= small.config.samples
    born = {row["organelle"]: row["born"] for row in rows(straight.folder, "organelles") if row["origin"] == "mutation"}
    assert born and all(born.get(row["organelle"], -1) < row["generation"] for row in elites)


def test_births_are_paid_by_the_living(straight: Any) -> None:
    """A child's endowment comes out of organelles' accounts, never from the sun after the founders."""
    ledger = rows(straight.folder, "ledger")
    children = [row["organelle"] for row in rows(straight.folder, "organelles") if row["origin"] != "founder"]
    assert children
    for child in children:
        got = [row for row in ledger if row["entry"] == "birth" and row["account"] == str(child) and row["amount"] > 0]
        assert sum(row["amount"] for row in got) == 60_000_000
    assert all(row["generation"] == 0 for row in ledger if row["entry"] == "endowment")


def test_tables_agree_with_one_another(straight: Any) -> None:
    episodes, generations = rows(straight.folder, "episodes"), rows(straight.folder, "generations")
    for row in generations:
        own = [episode for episode in episodes if episode["generation"] == row["generation"]]
        assert 16 <= len(own) == row["episodes"] <= 48
        assert math.isclose(row["accuracy"], sum(e["correct"] for e in own) / len(own))
    alive = [row for row in rows(straight.folder, "organelles") if row["died"] is None]
    assert len(alive) == generations[-1]["population"] <= 4
    energy = sum(row["balance"] for row in alive) / 1e6
    ids = {str(row["organelle"]) for row in alive}
    cooled = [row for row in rows(straight.folder, "ledger") if row["generation"] == len(generations)]
    assert cooled and {row["entry"] for row in cooled} == {"update"}
    energy -= sum(row["amount"] for row in cooled if row["account"] in ids) / 1e6
    assert math.isclose(energy, generations[-1]["energy_total"], abs_tol=1e-6)


def test_the_log_names_families_without_a_right_answer(
    small: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = [replace(item, target=10**9 + n) if item.family == "math" else item for n, item in enumerate(small.items)]
    run = start(SimpleNamespace(task=replace(small.task, items=wrong)), tmp_path, small.config)
    caplog.set_level("INFO")
    advance(run, generations=1)
    for organelle in run.state.living:
        if organelle.niche == "math":
            run.state.retire(organelle, "culled")
    advance(run, generations=2)
    lines = [record.getMessage() for record in caplog.records if record.getMessage().startswith("generation ")]
    shown = run.state.events["generations"]
    for line, row, words in zip(lines, shown, (", none of math", ", no item of math"), strict=True):
        merged = f", {row['merges']} merged" if row["merges"] else ""
        share = f"{row['accuracy']:.1%} of {row['episodes']} answers right"
        assert line == f"generation {row['generation']}: {row['population']} alive, {share}{words}{merged}"


def test_the_population_can_be_loaded_again(small: Any, straight: Any) -> None:
    population, organelles = load_population(small.host, straight.folder)
    norms = population.delta_norms()
    for organelle in organelles:
        assert int(population.ranks[organelle["slot"]]) == organelle["rank"]
        assert math.isclose(float(norms[organelle["slot"]]), organelle["delta_norm"], rel_tol=1e-5, abs_tol=1e-7)


def test_an_unfinished_folder_is_refused(small: Any, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="no finished run"):
        load_population(small.host, tmp_path)


@pytest.mark.parametrize("mode", ["single", "ecology"])
def test_a_run_that_died_after_its_last_commit_makes_no_further_generation(
    small: Any, straight: Any, tmp_path: Path, mode: str
) -> None:
    budget = {"mode": mode, "budget": round(0.9 * straight.meter.total())}
    whole = evolve(small, tmp_path, **budget)
    assert whole.generations > 1 and whole.meter.total() <= budget["budget"]
    tables = without_clock(tmp_path)
    resumed = evolve(small, tmp_path, **budget)
    assert resumed.generations == whole.generations
    assert without_clock(tmp_path) == tables


def test_single_spends_its_budget_and_not_more(small: Any, straight: Any, tmp_path: Path) -> None:
    single = evolve(small, tmp_path, mode="single", budget=straight.meter.total())
    assert straight.meter.total() * 0.9 < single.meter.total() <= straight.meter.total()
    assert len(rows(tmp_path, "organelles")) == 1


def test_a_population_that_dies_out_ends_the_run(small: Any, tmp_path: Path) -> None:
    data = small.config.model_dump()
    data["economy"] |= {"ticket": 1e6, "strikes": 1}
    done = evolve(small, tmp_path, config=EcologyConfig.model_validate(data))
    assert done.extinct and done.generations == 1
    assert load_population(small.host, tmp_path)[1] == []


def test_a_cooldown_that_leaves_nobody_is_an_extinction(
    small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoil(run: Any) -> None:
        for organelle in run.state.living:
            run.state.retire(organelle, "not finite")

    monkeypatch.setattr(loop, "cool", spoil)
    done = evolve(small, tmp_path, config=small.config.model_copy(update={"generations": 1}))
    assert done.extinct and done.generations == 1


def test_a_search_spends_no_more_than_its_episodes_and_calls(straight: Any, small: Any) -> None:
    """It asks again only where it was wrong, and stops at the first right answer."""
    asked: dict[tuple[int, int, str], list[dict[str, Any]]] = {}
    group = -1
    for row in rows(straight.folder, "episodes"):
        group += row["sample"] == 0
        asked.setdefault((row["generation"], group, row["task_id"]), []).append(row)
    assert max(map(len, asked.values())) > 1
    for answers in asked.values():
        assert [row["sample"] for row in answers] == list(range(len(answers)))
        assert len(answers) <= small.config.plasticity.calls
        stages = (1, 2, 3, 5, 9, 17)  # answers after each stage of the search
        solved = [number for number, row in enumerate(answers, start=1) if row["correct"]]
        assert not solved or len(answers) <= next(stage for stage in stages if stage >= solved[0])


def test_in_every_niche_one_learns_and_pays_for_it(straight: Any) -> None:
    niches = {row["organelle"]: row["niche"] for row in rows(straight.folder, "organelles")}
    learners: dict[tuple[int, str], set[str]] = {}
    for row in rows(straight.folder, "ledger"):
        if row["entry"] == "update" and row["account"] != "sink":
            learners.setdefault((row["generation"], niches[int(row["account"])]), set()).add(row["account"])
    assert learners and all(len(own) == 1 for own in learners.values())


@pytest.fixture(scope="module")
def varied(small: Any) -> Any:
    """Merges by Fisher, mutation along singular directions, ranks that change by use."""
    data = small.config.model_dump()
    data["assimilation"] |= {"methods": ["fisher"], "fisher_rows": 4}
    data["variation"] |= {"directions": "singular", "rank_change_by": "use", "rank_change": 1.0}
    return EcologyConfig.model_validate(data)


def test_merges_by_fisher_are_resumed_and_paid_for(
    small: Any, varied: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def each_leads_in_its_niche(run: Any, skill: Any, bare: Any) -> Any:
        gain = np.zeros((len(run.state.practice), len(run.task.families)))
        for organelle in run.state.living:
            gain[organelle.slot, run.task.families.index(organelle.niche)] = 0.1
        return gain

    monkeypatch.setattr(merit, "gain_of", each_leads_in_its_niche)  # every pair of learners may be merged
    quick = {"learning_rate": 5e-3, "steps": 6, "batch_rows": 16}
    plasticity = varied.plasticity.model_copy(update=quick)
    config = varied.model_copy(update={"episodes": 144, "plasticity": plasticity, "generations": 3})
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = evolve(small, whole, config=config)
    evolve(small, parts, config=config.model_copy(update={"generations": 1}))
    evolve(small, parts, config=config)
    assert without_clock(parts) == without_clock(whole)
    for name in ("population.safetensors", "population.json", "routes-single.json"):
        assert (parts / name).read_bytes() == (whole / name).read_bytes()
    trials = rows(whole, "assimilations")
    assert {row["method"] for row in trials} == {"fisher"}
    ledger = rows(whole, "ledger")
    assert sum(row["amount"] for row in ledger) == 0
    # The parents pay for the trials and for their Fishers, one posting each, all that was metered.
    spent = sum(row["amount"] for row in ledger if row["entry"] == "test" and row["account"] == "sink")
    metered = done.meter.flops("assimilation") / small.prices.unit_flops * 1e6
    assert metered > 0 and spent == pytest.approx(metered, rel=1e-6)


def test_a_rank_that_is_used_doubles_and_one_that_is_not_halves(
    small: Any, varied: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`rank_change` is 1 here, so every child has another rank than its parent, within the bounds."""
    ranks = {}
    for threshold in (0.0, 1.0):
        monkeypatch.setattr("evolora_core.searches.adapters.ecology.phases.selection.WELL_USED", threshold)
        folder = tmp_path / str(threshold)
        evolve(small, folder, config=varied.model_copy(update={"generations": 2}))
        known = {row["organelle"]: row for row in rows(folder, "organelles")}
        parents = {row["child"]: row["parent"] for row in rows(folder, "lineage") if row["role"] == "parent"}
        children = [row for row in known.values() if row["origin"] == "mutation"]
        ranks[threshold] = [(known[parents[row["organelle"]]]["rank"], row["rank"]) for row in children]
    assert ranks[0.0] and all(child == min(2 * parent, 4) for parent, child in ranks[0.0])
    assert ranks[1.0] and all(child == max(parent // 2, 1) for parent, child in ranks[1.0])


def test_learners_step_by_the_moment_decays_of_the_settings(small: Any, tmp_path: Path) -> None:
    changes = [{}, {"betas": (0.9, 0.999)}, {"betas": (0.9, 0.9)}]
    norms = []
    for number, change in enumerate(changes):
        data = small.config.model_dump() | {"generations": 1}
        data["plasticity"] |= change
        evolve(small, tmp_path / str(number), config=EcologyConfig.model_validate(data))
        norms.append([row["delta_norm"] for row in rows(tmp_path / str(number), "organelles")])
    assert norms[0] == norms[1] != norms[2]


@pytest.mark.parametrize("rule", ["none", "reinforce", "grpo", "hebbian", "es", "gold"])
def test_other_rules(small: Any, tmp_path: Path, rule: str) -> None:
    data = small.config.model_dump()
    data["plasticity"] |= {"rule": rule, "sigma": 0.1}
    data["generations"] = 1
    data["variation"]["births"] = 0
    evolve(small, tmp_path, config=EcologyConfig.model_validate(data))
    population, _ = load_population(small.host, tmp_path)
    assert (float(population.delta_norms().max()) > 0) == (rule != "none")


def test_a_family_of_which_nobody_learned_anything_leaves_nothing_to_cool(small: Any, tmp_path: Path) -> None:
    data = small.config.model_dump()
    data["plasticity"]["rule"] = "none"
    budget = 4 * sum(row["flops"] for row in small.prices.meter["rows"])
    config = EcologyConfig.model_validate(data)
    done = evolve(small, tmp_path, config=config, budget=budget, arrivals=("json_repair", "math"))
    assert done.generations > 1 and done.meter.total() <= budget


@pytest.mark.parametrize("mode", ["single", "ecology"])
def test_a_budget_that_pays_for_no_generation_is_refused(small: Any, tmp_path: Path, mode: str) -> None:
    calibrated = sum(row["flops"] for row in small.prices.meter["rows"])
    answers = small.config.episodes * small.prices.unit_flops
    reserved = small.prices.routing_reserve(FlopModel.from_model(small.host.model), len(small.task.selection), [4])
    for budget in (calibrated, calibrated + reserved + answers):  # of a generation the answers alone could be paid
        with pytest.raises(StageError, match=f"{mode}: the budget does not pay for a generation: .*raise ecology"):
            evolve(small, tmp_path, mode=mode, budget=round(budget))


@pytest.mark.parametrize("mode", ["single", "ecology"])
def test_a_budget_of_its_answers_and_twice_its_rows_pays_for_a_generation(
    small: Any, tmp_path: Path, mode: str
) -> None:
    learning = small.config.plasticity
    answers = small.config.episodes + 2 * learning.steps * learning.batch_rows  # a row costs what two answers do
    model, ranks = FlopModel.from_model(small.host.model), [4] if mode == "single" else [4, summed_rank(4)]
    budget = sum(row["flops"] for row in small.prices.meter["rows"]) + 1.01 * answers * small.prices.unit_flops
    budget += small.prices.routing_reserve(model, len(small.task.selection), ranks)
    done = evolve(small, tmp_path, mode=mode, budget=round(budget))
    assert done.generations >= 1 and done.meter.total() <= budget


def test_a_budget_of_what_a_run_took_pays_for_as_many_generations(small: Any, straight: Any, tmp_path: Path) -> None:
    model = FlopModel.from_model(small.host.model)
    reserve = small.prices.routing_reserve(model, len(small.task.selection), [4, summed_rank(4)])
    budget = straight.meter.total() - straight.meter.flops("routing") + reserve
    again = evolve(small, tmp_path, budget=budget)
    assert again.generations == straight.generations == small.config.generations
    assert 0.9 * straight.meter.flops("update") < again.meter.flops("update") <= straight.meter.flops("update")


def test_an_organelle_with_broken_weights_is_retired_and_the_run_goes_on(small: Any, tmp_path: Path) -> None:
    first = small.config.model_copy(update={"generations": 1})
    evolve(small, tmp_path, config=first)
    from safetensors.torch import load_file, save_file

    commit = sorted((tmp_path / "checkpoints").glob("g*"))[-1]
    checkpoint = artifacts.partial_folder(commit) / "state.safetensors"
    shutil.copytree(commit, checkpoint.parent, dirs_exist_ok=True)
    tensors = load_file(checkpoint)
    name = next(k for k in tensors if k.startswith("population.") and "A" in k and tensors[k].dim() == 3)
    tensors[name][0] = torch.nan
    save_file(tensors, checkpoint)
    artifacts.commit(commit, {"before": (artifacts.read_manifest(commit) or {})["before"]})
    done = evolve(small, tmp_path, config=small.config.model_copy(update={"generations": 2}))
    fates = {row["organelle"]: row["cause"] for row in rows(tmp_path, "organelles")}
    assert fates[0] == "not finite"
    assert not done.extinct
