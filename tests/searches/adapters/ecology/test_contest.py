"""Contests: who goes on is decided by common items, and what the winner has goes to the loser's slot."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_ecologies import change, evolve, founded, rows, without_clock

from evolora_core.engine.probes import probe
from evolora_core.searches.adapters.ecology.learning.learners import learners_of
from evolora_core.searches.adapters.ecology.learning.rehearsal import rehearse
from evolora_core.searches.adapters.ecology.ledger import SINK
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.pace import LEFT, LONGER, contest_flops
from evolora_core.searches.adapters.ecology.phases.contest import compete, contest, last_contest, losers_of, succeed
from evolora_core.searches.adapters.ecology.phases.episodes import act, allocate
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.prior import PriorConfig


def contending(small: Any, **contest: Any) -> EcologyConfig:
    """The little ecology without births and merges, whose founders draw their rates and contend."""
    changes: dict[str, Any] = {
        "population": 6,
        "assimilation": {"attempts": 0},
        "variation": {"births": 0},
        "economy": {"ticket": 0},
        "prior": {"learning_rate": [1e-4, 1.0]},
        "contest": {"contenders": 3, "every": 1, "items": 40, "alpha": 0.3, "loser": "copies", **contest},
    }
    return EcologyConfig.model_validate(small.config.model_dump() | changes)


@pytest.fixture(scope="module")
def contended(small: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run with contests and no limit but its generations; tests only read its folder."""
    return evolve(small, tmp_path_factory.mktemp("contended"), config=contending(small))


def test_a_contender_that_finds_late_learns_too(small: Any) -> None:
    economy = {"ticket": 0, "answer_price": 1e6}
    config = EcologyConfig.model_validate(
        contending(small, contenders=4, practice="own").model_dump() | {"economy": economy, "population": 8}
    )
    run = founded(small, config)
    item = next(number for number, item in enumerate(small.items) if item.family == "json_repair")
    niche = [own.id for own in run.state.living if own.niche == "json_repair"]
    for knowing in (niche[2:3], niche, niche[:3]):
        for number in knowing:
            run.state.remember(run.state.organelles[number], Memory(item, (1,), 1.0), 8)
        shares = learners_of(run, {own.id for own in run.state.living if run.state.buffers[own.id].memories})
        assert [own.organelle.id for own in shares] == knowing
        for own in shares:
            run.state.teach(own.organelle)
        if knowing == niche:  # one is beaten: nobody takes its place
            run.state.retire(run.state.organelles[niche[3]], "beaten")


def test_a_prior_changes_rates_and_no_weights(small: Any) -> None:
    drawing = contending(small)
    usual = drawing.model_copy(update={"prior": PriorConfig()})
    for mode in ("single", "ecology"):
        one, other = (founded(small, own, mode=mode).state for own in (drawing, usual))
        assert torch.equal(one.population.weights, other.population.weights)
        assert [own.learning_rate for own in one.living] != [own.learning_rate for own in other.living]


def test_practice_of_other_families_is_no_evidence_in_a_niche(small: Any) -> None:
    run = founded(small, contending(small, items=5))
    contenders = run.contenders()["json_repair"]
    foreign = [number for number, item in enumerate(small.items) if item.family == "math"][:20]
    standings = compete(run, "json_repair", contenders, {own.id: dict.fromkeys(foreign, True) for own in contenders})
    assert all(len(own.right) == 5 for own in standings)


def fates(folder: Path, *names: str) -> Sequence[dict[str, Any]]:
    """Rows of the contests whose fate is one of these."""
    return [row for row in rows(folder, "contests") if row["fate"] in names]


def test_beside_births_copies_live_and_who_is_left_learns_in_all_steps(small: Any, tmp_path: Path) -> None:
    """Idle founders and children of a niche are no contenders: they take no steps, and no copy makes room for one."""
    config = contending(small, contenders=2, ends=3, alpha=0.49)
    births = {"variation": {"births": 2}, "population": 8, "generations": 6}
    config = EcologyConfig.model_validate(config.model_dump() | births)
    slots: list[list[set[int]]] = []  # of each step of each generation

    def step(population: Any, batch: Any) -> None:
        slots[-1].append(set(batch.slots.tolist()))

    with probe("generation", lambda number: slots.append([])), probe("update", step):
        budget = evolve(small, tmp_path, config=config).meter.total()
    assert evolve(small, tmp_path / "paid", config=config, budget=budget).meter.total() <= budget
    organelles = {row["organelle"]: row for row in rows(tmp_path, "organelles")}
    copies = [row for row in organelles.values() if row["origin"] == "copy"]
    assert copies and "culled" not in {row["cause"] for row in copies}
    steps = config.plasticity.steps
    assert len(slots[0]) == steps // 2 and {len(own) for own in slots[0]} == {4}  # two contenders in each of two niches
    assert len(slots[3]) == steps and {len(own) for own in slots[3]} == {2}


def test_one_learns_in_the_place_of_a_winner_that_cannot_pay(small: Any) -> None:
    run = founded(small, config=contending(small, contenders=2))
    niche = run.state.living[0].niche
    winner, *others = [own for own in run.state.living if own.niche == niche]
    assert len(others) == 2
    run.state.teach(winner)
    balance = run.state.ledger.balance(winner.id)
    run.state.ledger.post(0, "test", str(winner.id), SINK, balance + 1)
    shares = learners_of(run, {own.id for own in run.state.living})
    assert [own.organelle.id for own in shares if own.organelle.niche == niche] == [others[0].id]


def test_who_learns_in_the_place_of_a_winner_does_not_count_its_steps_again(small: Any) -> None:
    """`state.steps` prices the steps of the cooldown; counted twice, each would seem half as dear."""
    run = founded(small, config=contending(small, contenders=2))
    item = next(number for number, item in enumerate(small.items) if item.family == "math")
    for own in run.state.living:
        run.state.remember(own, Memory(item, run.task.gold_tokens[item], 1.0), 8)
    winners = list({own.niche: own for own in run.state.living}.values())
    for own in winners:
        run.state.teach(own)
    assert run.crowd == 1
    run.state.ledger.post(0, "test", str(winners[0].id), SINK, run.state.ledger.balance(winners[0].id) + 1)
    rehearse(run, [], [])
    assert run.crowd == 2 and run.state.steps == run.config.plasticity.steps


@pytest.mark.parametrize("mode", ["ecology", "single"])
def test_losers_copy_the_winner_and_one_is_left(small: Any, contended: Any, tmp_path: Path, mode: str) -> None:
    budget = contended.meter.total()
    done = evolve(small, tmp_path, config=contending(small), mode=mode, budget=budget)
    assert done.meter.total() <= budget and done.generations > 1
    organelles = {row["organelle"]: row for row in rows(tmp_path, "organelles")}
    copies = [row for row in organelles.values() if row["origin"] == "copy"]
    assert copies and len(copies) == len(fates(tmp_path, "copies"))
    winners = {row["child"]: row["parent"] for row in rows(tmp_path, "lineage") if row["role"] == "parent"}
    for row in fates(tmp_path, "copies"):
        (best, *_) = [
            own
            for own in rows(tmp_path, "contests")
            if (own["generation"], own["niche"]) == (row["generation"], row["niche"])
        ]
        assert best["correct"] > row["correct"] and row["p"] <= 0.3 and row["items"] == 40
        assert organelles[row["organelle"]]["cause"] == "beaten"
        assert best["organelle"] in winners.values()
    alive = [row for row in organelles.values() if row["died"] is None and row["origin"] != "merge"]
    niches = ["json_repair", "math"] if mode == "ecology" else [""]
    assert sorted(row["niche"] for row in alive) == niches
    assert sum(row["amount"] for row in rows(tmp_path, "ledger")) == 0


def test_after_its_end_one_contender_has_all_steps(small: Any, tmp_path: Path) -> None:
    config = contending(small, ends=2, alpha=0.05)
    evolve(small, tmp_path, config=config)
    contests = rows(tmp_path, "contests")
    assert {row["generation"] for row in contests} == {1}  # in the first nobody has learned yet
    retired = fates(tmp_path, "retires")
    assert {row["generation"] for row in retired} == {1}
    for niche in ("json_repair", "math"):
        last = [row for row in contests if (row["generation"], row["niche"]) == (1, niche)]
        assert [row["fate"] for row in last] == ["goes on"] + ["retires"] * (len(last) - 1) and len(last) == 3
    assert sum(row["amount"] for row in rows(tmp_path, "ledger")) == 0


def test_contenders_who_practise_their_own_items_are_asked_for_all_of_a_contest(small: Any, tmp_path: Path) -> None:
    asked = {}
    for practice in ("common", "own"):
        done = evolve(small, tmp_path / practice, config=contending(small, practice=practice, loser="retires"))
        asked[practice] = done.meter.flops("selection")
        assert {row["items"] for row in rows(tmp_path / practice, "contests")} == {40}
        first = [row for row in rows(tmp_path / practice, "episodes") if row["generation"] == 0 and row["sample"] == 0]
        by_organelle: dict[int, set[str]] = {}
        for row in first:
            by_organelle.setdefault(row["organelle"], set()).add(row["task_id"])
        niches = {row["organelle"]: row["niche"] for row in rows(tmp_path / practice, "organelles")}
        mine = [tasks for own, tasks in by_organelle.items() if niches[own] == "math"]
        assert (mine[0] == mine[1]) == (practice == "common")
    assert asked["own"] > asked["common"] > 0


def test_a_resumed_contest_is_the_same_run(small: Any, contended: Any, tmp_path: Path) -> None:
    config = contending(small)
    evolve(small, tmp_path, config=config.model_copy(update={"generations": 2}))
    evolve(small, tmp_path, config=config)
    assert without_clock(tmp_path) == without_clock(contended.folder)
    weights = [(folder / "population.safetensors").read_bytes() for folder in (tmp_path, contended.folder)]
    assert weights[0] == weights[1]


def test_halving_lets_the_worse_half_go_and_the_others_take_more_steps(
    small: Any, contended: Any, tmp_path: Path
) -> None:
    config = contending(small, contenders=4, loser="retires", every=2)
    budget = 2 * contended.meter.total()
    done = evolve(small, tmp_path, config=config, mode="single", budget=budget)
    assert done.generations >= 5 and done.meter.total() <= budget
    held = {row["generation"] for row in rows(tmp_path, "contests")}
    left = [[row["fate"] for row in rows(tmp_path, "contests") if row["generation"] == g] for g in sorted(held)]
    assert left == [["goes on"] * 2 + ["retires"] * 2, ["goes on", "retires"]]
    assert {row["origin"] for row in rows(tmp_path, "organelles")} == {"founder"}
    for generation in held:
        right = [row["correct"] for row in rows(tmp_path, "contests") if row["generation"] == generation]
        assert right == sorted(right, reverse=True)


def test_the_last_contest_leaves_one_who_cools_in_each_niche(small: Any) -> None:
    """Whoever learned in another's place meets it too; where nobody learned, nothing is asked."""
    run = founded(small, contending(small, contenders=2, items=10))
    learned, idle = run.task.families
    for own in run.state.living:
        if own.niche == learned:
            run.state.teach(own)
    last_contest(run)
    assert {niche: len(own) for niche, own in run.contenders().items()} == {learned: 1, idle: 1} and run.crowd == 1
    assert [row["niche"] for row in run.state.events["contests"]] == [learned] * 3


def test_the_last_contest_is_set_aside_for_all_that_learned(small: Any) -> None:
    """Three learned where two contend, so three are asked; where nobody learned, a regular contest would ask two."""
    config = contending(small, contenders=2, items=10)
    run = founded(small, config)

    def set_aside(asked: Sequence[Organelle]) -> float:
        """By their ranks: an adapter's answers cost more than the bare host's."""
        bare_answers = sum(run.task.flops.dearness(own.rank) for own in asked)
        assert bare_answers > 1.03 * len(asked)
        return 1.1 * config.contest.items * bare_answers * run.task.prices.unit_flops

    contending_now = [own for niche in run.contenders().values() for own in niche]
    assert contest_flops(run) == pytest.approx(set_aside(contending_now)) and len(contending_now) == 4
    taught, idle = run.task.families
    learned = [own for own in run.state.living if own.niche == taught]
    for own in learned:
        run.state.teach(own)
    assert contest_flops(run) == pytest.approx(set_aside([*learned, *run.contenders()[idle]])) and len(learned) == 3
    last_contest(run)
    assert sum(row["items"] for row in run.state.events["contests"]) == 3 * config.contest.items


def test_a_niche_that_has_learned_nothing_holds_no_contest(small: Any) -> None:
    """Also after the end: the contest that leaves one is held when somebody has learned."""
    run = founded(small, contending(small, ends=2, items=10))
    run.state.pass_generation(0)
    learned, idle = run.task.families
    living = run.state.living
    contest(run, [], [])
    assert run.state.living == living and not run.state.meter.flops("selection")
    for own in living:
        if own.niche == learned:
            run.state.teach(own)
    contest(run, [], [])
    assert {niche: len(own) for niche, own in run.contenders().items()} == {learned: 1, idle: 3}
    assert [row["niche"] for row in run.state.events["contests"]] == [learned] * 3


def test_without_contests_nobody_is_asked_or_retires_at_the_end(small: Any) -> None:
    """A merged child may learn beside its parent, and who learned in another's place beside that one."""
    run = founded(small, contending(small, contenders=1, ends=None))
    for own in run.state.living[:4]:
        run.state.teach(own)
    living = run.state.living
    last_contest(run)
    assert run.state.living == living and contest_flops(run) == 0.0
    assert not run.state.meter.flops("selection") and not run.state.events["contests"]


def test_a_merged_child_contends_in_the_place_of_a_parent(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    for own in run.state.living:
        run.state.teach(own)
    assert [own.id for own in run.contenders(most=2)[""]] == [0, 1]
    child = change(run.state, run.state.organelles[2], origin="merge")
    assert [own.id for own in run.contenders(most=2)[""]] == [0, child.id]


def test_who_samples_in_practice_is_asked_anew_in_a_contest(small: Any) -> None:
    """Two contenders with the same weights, of whom one samples at a high temperature."""
    config = contending(small, contenders=2, loser="restarts", alpha=0.05)
    config = config.model_copy(update={"plasticity": config.plasticity.model_copy(update={"rule": "reinforce"})})
    run = founded(small, config, mode="single")
    for own, temperature in zip(run.state.living, (0.05, 5.0), strict=False):
        change(run.state, own, temperature=temperature)
    for own in run.state.living:
        run.state.teach(own)
    groups = allocate(run, run.state.living)
    answers = act(run, groups)
    contest(run, groups, answers)
    found = run.state.events["contests"]
    assert len(found) == 2 and len({row["correct"] for row in found}) == 1 and {row["p"] for row in found} == {1.0}


def test_who_restarts_begins_with_the_founders_labels(small: Any) -> None:
    config = contending(small, loser="restarts")
    config = config.model_copy(update={"memory": config.memory.model_copy(update={"labels": 3})})
    run = founded(small, config, mode="single")
    before = run.state.buffers[1].memories
    child = succeed(run, run.state.organelles[0], run.state.organelles[1])
    assert run.state.buffers[child.id].memories == before and len(before) == 6


def test_a_copy_has_what_its_winner_had_and_who_restarts_its_traits_alone(small: Any) -> None:
    for loser in ("copies", "restarts"):
        run = founded(small, contending(small, loser=loser, spread=0.0), mode="single")
        state = run.state
        winner, beaten = state.organelles[0], state.organelles[1]
        state.population.weights[0] += 0.1 * (state.population.rank_mask()[0])
        state.optimizer.steps[0], state.optimizer.first[0], state.optimizer.second[0] = 7, 0.2, 0.3
        state.remember(winner, Memory(3, (1, 2), 1.0), 8)
        state.observe(winner, 0, [True, True])
        winner = state.teach(winner)
        child = succeed(run, winner, beaten)
        assert (child.slot, child.learning_rate, child.rank) == (1, winner.learning_rate, winner.rank)
        assert not state.organelles[1].alive and state.organelles[1].cause == "beaten"
        same = torch.equal(state.population.weights[0], state.population.weights[1])
        assert same == (loser == "copies")
        assert int(state.optimizer.steps[1]) == (7 if same else 0)
        assert torch.equal(state.optimizer.second[0], state.optimizer.second[1]) == same
        assert len(state.buffers[child.id]) == (1 if same else 0)
        assert state.practice[1].any() == same
        assert child.lessons == winner.lessons  # it keeps contending
        assert sum(state.ledger.balances.values()) == 0


def test_chance_names_as_many_losers_as_the_test_and_by_another_order(small: Any) -> None:
    orders = set()
    for seed in range(6):
        small.task = replace(small.task, seed=seed)
        run = founded(small, contending(small, judge="chance"), mode="single")
        contenders = run.state.living
        right = {own.id: dict.fromkeys(range(60), own.id == 1) for own in contenders}
        standings = compete(run, "", contenders, right)
        orders.add(tuple(own.organelle.id for own in standings))
        losers = losers_of(run, standings)
        assert len(losers) == 2 and losers == standings[1:]
    assert len(orders) > 2
    small.task = replace(small.task, seed=0)


def test_what_was_practised_in_common_counts(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    contenders = run.state.living
    practised = {own.id: dict.fromkeys((*range(30), 100 + own.id), own.id == 2) for own in contenders}
    standings = compete(run, "", contenders, practised)
    assert standings[0].organelle.id == 2 and [own.p <= 1e-6 for own in standings] == [False, True, True]
    assert all(len(own.right) == 40 for own in standings)
    asked = run.state.meter.accounts["selection"]
    assert asked.flops == pytest.approx(3 * 10 * run.task.prices.unit_flops, rel=0.5)


def test_no_contender_is_asked_for_what_one_remembers(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    first, *others = run.state.living
    left = 12
    for item in range(left, len(run.task.items)):
        run.state.remember(first, Memory(item, (1,), 1.0), 10_000)
    standings = compete(run, "", [first, *others], {})
    assert all(len(own.right) == left for own in standings)


def test_where_all_remember_everything_they_are_asked_for_that(small: Any) -> None:
    run = founded(small, contending(small), mode="single")
    contenders = run.state.living
    left = 12  # items that nobody remembers
    for own in contenders:
        for item in range(left, len(run.task.items)):
            run.state.remember(own, Memory(item, (1,), 1.0), 10_000)
    unaware = compete(run, "", contenders, {})
    assert all(len(own.right) == 40 for own in unaware)
    practised = {own.id: dict.fromkeys(range(left), own.id == 2) for own in contenders}
    standings = compete(run, "", contenders, practised)
    assert standings[0].organelle.id == 2 and all(len(own.right) == 40 for own in standings)


def test_a_contest_without_any_item_is_decided_by_lot(small: Any) -> None:
    best = set()
    for seed in range(8):
        small.task = replace(small.task, seed=seed)
        run = founded(small, contending(small), mode="single")
        contenders = run.state.living
        for item in range(len(run.task.items)):  # each is known to one, and none to all
            run.state.remember(contenders[item % 3], Memory(item, (1,), 1.0), 10_000)
        standings = compete(run, "", contenders, {})
        assert all(len(own.right) == 0 for own in standings)
        best.add(standings[0].organelle.id)
    small.task = replace(small.task, seed=0)
    assert len(best) > 1


def test_nobody_takes_the_place_of_who_retired(small: Any) -> None:
    """Two of three have learned and the third never did."""
    run = founded(small, contending(small), mode="single")
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0, 1, 2]
    for own in run.state.living[:2]:
        run.state.teach(own)
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0, 1]
    run.state.retire(run.state.organelles[1], "beaten")
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0]
    child = succeed(run, run.state.organelles[0], run.state.organelles[2])
    assert [own.id for own in run.contenders(run.state.living)[""]] == [0, child.id]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"plasticity": {"rule": "grpo"}, "contest": {"contenders": 2}}, "remembers nothing"),
        ({"economy": {"reward": "shared"}, "contest": {"contenders": 2, "practice": "own"}}, "contest.practice: own"),
        ({"prior": {"learning_rate": [0.1, 0.01]}}, "the lowest and the highest"),
        ({"prior": {"learning_rate": [0.1]}}, "the lowest and the highest"),
    ],
)
def test_settings_that_cannot_be_are_refused(small: Any, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        EcologyConfig.model_validate(small.config.model_dump() | changes)


def test_founders_of_all_regimes_draw_the_same_traits(small: Any) -> None:
    config = contending(small)
    drawn = [
        [own.learning_rate * config.plasticity.learning_rate for own in founded(small, config, mode=mode).state.living]
        for mode in ("single", "ecology")
    ]
    assert drawn[0] == drawn[1][:3] and all(1e-4 <= rate <= 1 for rate in drawn[1])
    assert len(set(drawn[1])) == 6


def test_a_contest_leaves_the_learning_after_it_and_the_cooldown_their_part(small: Any, tmp_path: Path) -> None:
    """With this budget a contest was once held in the last generation, at the cost of the cooldown."""
    config = contending(small, every=2, items=120, alpha=1e-9)  # nobody is beaten before the last contest
    config = config.model_copy(update={"prior": PriorConfig()})
    budget = int(1.27 * evolve(small, tmp_path / "lead", config=config).meter.total())
    updates: list[int] = []  # rows of each generation; those of the cooldown are in the last

    def step(population: Any, batch: Any) -> None:
        updates[-1] += len(batch.slots)

    with probe("generation", lambda number: updates.append(0)), probe("update", step):
        done = evolve(small, tmp_path / "paid", config=config, mode="single", budget=budget)
    assert done.meter.total() - done.meter.flops("routing") <= budget
    *before, last = updates
    assert last - before[-1] >= LEFT / LONGER * config.plasticity.cooldown * (sum(before) + before[-1])


ONE_RUN = """
import hashlib, sys, torch
from pathlib import Path
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from small_ecologies import evolve, little
torch.set_num_threads(1)
small, folder = little(load_host("nano")), Path(sys.argv[1])
evolve(small, folder, config=EcologyConfig.model_validate_json(sys.argv[2]))
print(hashlib.sha256((folder / "population.safetensors").read_bytes()).hexdigest())
"""


@pytest.mark.slow
def test_a_run_is_the_same_in_every_process(small: Any, tmp_path: Path) -> None:
    """Python orders sets of words anew in each process, and nothing may depend on it."""
    config = contending(small).model_copy(update={"generations": 1}).model_dump_json()
    made = [
        subprocess.run(
            [sys.executable, "-c", ONE_RUN, str(tmp_path / order), config],
            env={**os.environ, "PYTHONHASHSEED": order, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for order in ("0", "1")
    ]
    assert made[0] == made[1] and made[0]
