"""Replays of strategies on a landscape that is known."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from searches.merging.strategies.toys import Toy, toy_of

from evolora_core.engine.rng import stream
from evolora_core.engine.stage import Work
from evolora_core.engine.tables import read_table, write_table
from evolora_core.searches.merging.landscape import simulate
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.settings import Landscape
from evolora_core.searches.merging.spaces.routes import Routes
from evolora_core.searches.merging.stages import regret


@pytest.fixture(scope="module")
def toy() -> Toy:
    """One landscape."""
    return toy_of(0)


def walked(toy: Toy, names: Sequence[str], seeds: Sequence[int], evaluations: int) -> np.ndarray:
    """Regret with all that is known."""
    return simulate(
        names,
        toy.table,
        toy.space,
        seeds=seeds,
        evaluations=evaluations,
        domains=toy.domains,
        solved=toy.solved,
        item_domains=toy.item_domains,
    )


def test_regret_never_grows_and_a_replay_is_reproducible(toy: Toy) -> None:
    names = list(STRATEGIES)
    found = walked(toy, names, range(3), 120)
    assert found.shape == (len(names), 3, 120)
    assert (np.diff(found, axis=2) <= 0).all() and (found >= 0).all() and np.isfinite(found).all()
    assert (found == walked(toy, names, range(3), 120)).all()
    assert (found[2:4, 1:] == walked(toy, names[2:4], [1, 2], 120)).all()  # a run does not depend on those beside it
    assert (found[:, :, :50] == walked(toy, names, range(3), 50)).all()


def test_strategies_begin_with_the_same_seeds(toy: Toy) -> None:
    found = walked(toy, [name for name in STRATEGIES if name not in ("random", "cma")], range(2), 8)
    assert (found == found[0]).all()


def test_random_search_is_drawing_without_replacement(toy: Toy) -> None:
    """P(regret of the best of n ≤ r) of n models drawn without replacement from N."""
    runs, n = 120, 40
    found = walked(toy, ["random"], range(runs), n)[0, :, -1]
    scores = np.sort(toy.table)
    total = len(scores)
    # P(the best is the k-th smallest) = C(k-1, n-1) / C(N, n), by a product that does not overflow.
    at_most = np.ones(total)
    for place in range(n):
        at_most *= np.clip((np.arange(1, total + 1) - place) / (total - place), 0, None)
    chance = np.diff(np.r_[0, at_most])
    expected = float((chance * (scores[-1] - scores)).sum())
    assert abs(found.mean() - expected) < 4 * found.std(ddof=1) / np.sqrt(runs)


def test_evolution_beats_random_search_on_rugged_sums() -> None:
    """20 seeds, each with a landscape of its own, paired. Niches share what is solved, and take longer to gain."""
    both = np.array([walked(toy_of(seed), ["random", "evomerge", "niches"], [seed], 250)[:, 0] for seed in range(20)])
    for rival, at in ((1, 99), (1, 249), (2, 249)):
        gain = both[:, 0, at] - both[:, rival, at]
        assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain)), (rival, at)


def test_replays_of_two_seeds_of_a_suite_are_other_runs(tmp_path: Path) -> None:
    """And none is the search of an arm: those have the seeds 0, 1, … themselves."""
    space, rng = Routes(("a", "b"), 2, "base"), stream(0, 0, 0, "scores")
    scores, nothing = rng.standard_normal((space.models, 1)), np.packbits(np.zeros(4, bool)).tobytes().hex()
    (tmp_path / "shard").mkdir()
    rows = [
        {"model": number, "search_score": float(own[0]), "domains": json.dumps(own.tolist()), "solved": nothing}
        for number, own in enumerate(scores)
    ]
    write_table(tmp_path / "shard", "landscape", rows)
    settings, found = Landscape(runs=3, evaluations=10, read_at=10), []
    for seed in (0, 1):
        asked, folder = regret.replay(["a", "b"], 2, [4], [1.0], "random", settings), tmp_path / str(seed)
        folder.mkdir()
        regret.make(Work(config=asked, seed=seed, folder=folder, inputs={"shard-0": tmp_path / "shard"}))
        found.append([row["regret"] for row in read_table(folder, "regrets")])
    arms = simulate(["random"], scores[:, 0], space, seeds=range(3), evaluations=10)[0].mean(axis=0)
    assert found[0] != found[1] and arms.tolist() not in found


def test_models_that_fail_never_win_and_the_last_model_can_be_found() -> None:
    toy = toy_of(1)
    table = toy.table.copy()
    table[table > np.quantile(table, 0.9)] = np.nan
    found = simulate(["random", "evomerge", "cma"], table, toy.space, seeds=[0], evaluations=60)
    assert found[:, :, -1].min() >= 0 and np.isfinite(found[:, :, -1]).all()
    small = Routes(("a", "b"), 3, "base")
    every = simulate(["random"], np.arange(small.models) - 200.0, small, seeds=[0], evaluations=small.models)
    assert every[0, 0, -1] == 0 and every[0, 0, 0] > 0
    with pytest.raises(ValueError, match="distinct models"):
        simulate(["random"], table[:-1], toy.space, seeds=[0], evaluations=5)
