"""Who gets items and rows: by merit, or all alike."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch

from evolora_core.ecology.ledger import SUN, micro
from evolora_core.ecology.rollout import allocate, cell_chances
from evolora_core.ecology.world import FLOOR, World, found


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
    world = World(small.host, small.items, config, small.decoding, 0, small.calibration, "ecology")
    state = found(world)
    state.ledger.post(0, "reward", SUN, "0", micro(50_000))
    move(state, 0)
    own = world.cells.index((state.organelles[0].niche, "short"))
    state.practice[0, own] = (200, 200)
    groups = allocate(world, state, state.living)
    counts = Counter(group.organelle.id for group in groups)
    return [counts[i] for i in range(4)], world.credit(state)[:4], cell_chances(world, state, "")


def test_an_ecology_pays_by_its_own_economy_whatever_others_pay(small: Any) -> None:
    economy = small.config.economy.model_copy(update={"break_even_accuracy": 0.25})
    config = small.config.model_copy(update={"economy": economy})
    paid = [
        World(small.host, small.items, own, small.decoding, 0, small.calibration, "ecology").reward
        for own in (small.config, config)
    ]
    assert paid == [micro(100), micro(4)]


def test_by_merit_the_rich_and_able_get_more(small: Any) -> None:
    counts, credit, chances = shares(small, "merit")
    assert counts[0] > 2 * max(counts[1:])
    assert credit[0] > 2 * max(credit[1:])
    assert chances.max() > 1.5 * chances.min()


def test_a_learner_that_fell_behind_the_host_is_not_starved(small: Any) -> None:
    """One unlucky generation took a family's rows for the rest of a run: with few rows it never came back."""
    world = World(small.host, small.items, small.config, small.decoding, 0, small.calibration, "ecology")
    state = found(world)
    move(state, 0)
    family = world.families.index(state.organelles[0].niche)

    def promise(answers: Any, gain: Any) -> Any:
        state.practice[0, world.inside[family]] = [(answers, answers * (p + gain)) for p in bare]
        return world.promise(state)[0, family]

    bare = world.host_accuracy[world.inside[family]]
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
    world = World(small.host, small.items, config, small.decoding, 0, small.calibration, "ecology")
    state = found(world)
    state.generation = 3
    state.change(state.organelles[1], learned=2)
    counts = Counter(group.organelle.id for group in allocate(world, state, state.living))
    assert counts[1] / sum(counts.values()) == pytest.approx(12 / 15, abs=0.05)


def test_every_family_gets_every_rank(small: Any) -> None:
    """As many ranks as families: dealt over all founders, each family would have one."""
    config = small.config.model_copy(update={"ranks": [1, 4]})
    world = World(small.host, small.items, config, small.decoding, 0, small.calibration, "ecology")
    founders = {(organelle.niche, organelle.rank) for organelle in found(world).living}
    assert founders == {(family, rank) for family in ("json_repair", "math") for rank in (1, 4)}
