"""Who gets items and rows: by merit, or all alike."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import founded

from evolora_core.searches.adapters.ecology.ledger import SUN, micro
from evolora_core.searches.adapters.ecology.merit import FLOOR, appraise, cell_chances, promise_of
from evolora_core.searches.adapters.ecology.phases.episodes import act, admit, allocate, settle


def move(state: Any, slot: int) -> None:
    """Move an organelle's weights away from the host's."""
    adapter = state.population.get(slot)
    for factor in adapter.B.values():
        torch.nn.init.constant_(factor, 0.01)
    state.population.put(slot, adapter)


def shares(small: Any, allocation: Any) -> Any:
    """Items of each organelle, credit and cell chances where the first organelle is rich and knows its niche."""
    economy = small.config.economy.model_copy(update={"allocation": allocation})
    config = small.config.model_copy(update={"economy": economy, "episodes": 2400})
    run = founded(small, config)
    state = run.state
    state.ledger.post(0, "reward", SUN, "0", micro(50_000))
    move(state, 0)
    own = run.task.cells.index((state.organelles[0].niche, "short"))
    state.practice[0, own, :2] = (200, 200)
    groups = allocate(run, state.living)
    counts = Counter(group.organelle.id for group in groups)
    merit = appraise(run)
    return [counts[i] for i in range(4)], merit.credit[:4], cell_chances(run, merit, "")


def test_an_ecology_pays_by_its_own_economy_whatever_others_pay(small: Any) -> None:
    economy = small.config.economy.model_copy(update={"break_even_accuracy": 0.25})
    config = small.config.model_copy(update={"economy": economy})
    paid = []
    for own in (small.config, config):
        run = founded(small, own)
        groups = allocate(run, admit(run))
        settle(run, groups, act(run, groups))
        paid.append({row["amount"] for row in run.state.settle() if row["entry"] == "reward" and row["amount"] > 0})
    assert paid == [{micro(100)}, {micro(4)}]


def test_by_merit_the_rich_and_able_get_more(small: Any) -> None:
    counts, credit, chances = shares(small, "merit")
    assert counts[0] > 2 * max(counts[1:])
    assert credit[0] > 2 * max(credit[1:])
    assert chances.max() > 1.5 * chances.min()


def test_a_learner_that_fell_behind_the_host_is_not_starved(small: Any) -> None:
    """One unlucky generation took a family's rows for the rest of a run: with few rows it never came back."""
    run = founded(small)
    state = run.state
    move(state, 0)
    family = run.task.families.index(state.organelles[0].niche)

    def promise(answers: Any, gain: Any) -> Any:
        state.practice[0, run.task.inside[family], :2] = [(answers, answers * (p + gain)) for p in bare]
        merit = appraise(run)
        return promise_of(run, merit.gain, merit.doubt)[0, family]

    bare = run.host_accuracy[run.task.inside[family]]
    assert promise(1000, -0.3) == FLOOR  # one that is no learner will not go the way back
    state.teach(state.organelles[0])
    assert promise(1000, -0.3) == pytest.approx(0.3, abs=0.05)


def test_alike_means_alike(small: Any) -> None:
    counts, credit, chances = shares(small, "uniform")
    assert counts == pytest.approx([200] * 4, abs=60)
    assert np.ptp(credit) == 0
    assert chances == pytest.approx([1 / len(chances)] * len(chances))


@pytest.mark.parametrize("allocation", ["merit", "uniform"])
def test_learners_are_asked_more_often_whatever_the_allocation(small: Any, allocation: str) -> None:
    economy = small.config.economy.model_copy(update={"allocation": allocation})
    config = small.config.model_copy(update={"economy": economy, "episodes": 2400})
    run = founded(small, config)
    state = run.state
    state.generation = 2
    state.teach(state.organelles[1])
    state.generation = 3
    counts = Counter(group.organelle.id for group in allocate(run, state.living))
    assert counts[1] / sum(counts.values()) == pytest.approx(12 / 15, abs=0.05)


@pytest.mark.parametrize("practice", ["own", "common"])
def test_no_item_is_asked_again_before_all_of_its_cell_were(small: Any, practice: str) -> None:
    contest = small.config.contest.model_copy(update={"contenders": 2, "practice": practice})
    config = small.config.model_copy(update={"episodes": 2400, "contest": contest})
    run = founded(small, config)
    groups = allocate(run, run.state.living)
    for organelle in run.state.living:
        asked = Counter(group.item for group in groups if group.organelle is organelle)
        for cell, members in enumerate(run.task.members):
            times = [asked[item] for item in members]
            assert max(times) - min(times) <= 1, (organelle.id, cell)
        assert max(asked.values()) > 1  # there are more questions than items


def test_every_family_gets_every_rank(small: Any) -> None:
    """As many ranks as families: dealt over all founders, each family would have one."""
    config = small.config.model_copy(update={"ranks": [1, 4]})
    founders = {(organelle.niche, organelle.rank) for organelle in founded(small, config).state.living}
    assert founders == {(family, rank) for family in ("json_repair", "math") for rank in (1, 4)}
