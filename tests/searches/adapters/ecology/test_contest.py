"""Contests: who goes on is decided by common items, and what the winner has goes to the loser's slot."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from small_ecologies import change, contending, evolve, founded, rows, without_clock

from evolora_core.engine.probes import probe
from evolora_core.searches.adapters.ecology.learning.learners import learners_of
from evolora_core.searches.adapters.ecology.learning.rehearsal import rehearse
from evolora_core.searches.adapters.ecology.ledger import SINK
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.organelle import Organelle
from evolora_core.searches.adapters.ecology.pace import LEFT, LONGER, contest_flops
from evolora_core.searches.adapters.ecology.phases.contest import compete, contest, last_contest
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.prior import PriorConfig


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
    assert [len(own.right) for own in standings] == [5] * len(contenders)


def fates(folder: Path, *names: str) -> Sequence[dict[str, Any]]:
    """Rows of the contests whose fate is one of these."""
    return [row for row in rows(folder, "contests") if row["fate"] in names]


def test_beside_births_copies_live_and_who_is_left_learns_in_all_steps(small: Any, tmp_path: Path) -> None:
    """Idle founders and children of a niche are no contenders: they take no steps, and no copy makes room for one."""
    config = contending(small, contenders=2, ends=3, alpha=0.49)
    births = {"variation": {"births": 2}, "population": 8, "generations": 5}
    config = EcologyConfig.model_validate(config.model_dump() | births)
    slots: list[list[set[int]]] = []  # of each step of each generation

    def step(population: Any, batch: Any) -> None:
        slots[-1].append(set(batch.slots.tolist()))

    with probe("generation", lambda number: slots.append([])), probe("update", step):
        budget = round(0.9 * evolve(small, tmp_path, config=config).meter.total())
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
    folder = contended.folder
    if mode == "single":
        folder, budget = tmp_path, contended.meter.total()
        done = evolve(small, folder, config=contending(small), mode=mode, budget=budget)
        assert done.meter.total() <= budget and done.generations > 1
    organelles = {row["organelle"]: row for row in rows(folder, "organelles")}
    copies = [row for row in organelles.values() if row["origin"] == "copy"]
    assert copies and len(copies) == len(fates(folder, "copies"))
    winners = {row["child"]: row["parent"] for row in rows(folder, "lineage") if row["role"] == "parent"}
    for row in fates(folder, "copies"):
        (best, *_) = [
            own
            for own in rows(folder, "contests")
            if (own["generation"], own["niche"]) == (row["generation"], row["niche"])
        ]
        assert best["correct"] > row["correct"] and row["p"] <= 0.3 and row["items"] == 40
        assert organelles[row["organelle"]]["cause"] == "beaten"
        born = [own["organelle"] for own in copies if own["born"] == row["generation"]]
        assert best["organelle"] in {winners[child] for child in born}
    alive = [row for row in organelles.values() if row["died"] is None and row["origin"] != "merge"]
    niches = ["json_repair", "math"] if mode == "ecology" else [""]
    assert sorted(row["niche"] for row in alive) == niches
    assert sum(row["amount"] for row in rows(folder, "ledger")) == 0


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
        config = contending(small, practice=practice, loser="retires").model_copy(update={"generations": 3})
        done = evolve(small, tmp_path / practice, config=config)
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
    config = contending(small, contenders=4, loser="retires", every=2, items=20)
    budget = round(1.3 * contended.meter.total())
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
    budget = round(3574 * small.prices.unit_flops)
    updates: list[int] = []  # rows of each generation; those of the cooldown are in the last

    def step(population: Any, batch: Any) -> None:
        updates[-1] += len(batch.slots)

    with probe("generation", lambda number: updates.append(0)), probe("update", step):
        done = evolve(small, tmp_path, config=config, mode="single", budget=budget)
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
