"""Merit, against the same numbers worked out organelle by organelle and cell by cell."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import change, founded

from evolora_core.searches.adapters.ecology import merit as merits
from evolora_core.searches.adapters.ecology.evolve import generation
from evolora_core.searches.adapters.ecology.merit import FLOOR, PRIOR, appraise, promise_of, skill_of
from evolora_core.searches.adapters.ecology.run import Run


@pytest.fixture(params=["merit", "uniform"])
def run(small: Any, request: Any) -> Run:
    """Four organelles, of which two have moved, one of them a learner, and one family is not there."""
    economy = small.config.economy.model_copy(update={"allocation": request.param})
    config = small.config.model_copy(update={"economy": economy, "verifier_error": 0.1})
    run: Run = founded(small, config, arrivals=("math", "json_repair") if request.param == "merit" else ())
    draw = np.random.default_rng(0)
    answers = draw.integers(0, 40, run.state.practice.shape[:2])
    answers[4:] = 0
    run.state.practice[..., 0], run.state.practice[..., 1] = answers, draw.binomial(answers, 0.4)
    for slot in (0, 1):
        adapter = run.state.population.get(slot)
        torch.nn.init.constant_(next(iter(adapter.B.values())), 0.01)
        run.state.population.put(slot, adapter)
    change(run.state, run.state.organelles[1], lessons=3, learned=0)
    return run


def test_it_is_what_its_formulas_say(run: Run) -> None:
    found, skills = appraise(run), skill_of(run)
    hopes = promise_of(run, found.gain, found.doubt)
    state, task = run.state, run.task
    host = [task.prices.accuracy[f"{family}/{depth}"] for family, depth in task.cells]
    host = [p + 0.1 * (1 - 2 * p) for p in host]
    moved = {o.slot for o in state.living if float(state.population.delta_norms()[o.slot]) > 0}
    assert moved == {0, 1}
    promises: dict[int, list[float]] = {}
    for organelle in state.living:
        promises[organelle.slot] = []
        for number, family in enumerate(task.families):
            gains, variances = [], []
            for cell in [i for i, (own, _) in enumerate(task.cells) if own == family]:
                n, right = state.practice[organelle.slot, cell, :2]
                skill = (right + PRIOR * host[cell]) / (n + PRIOR)
                same = [state.practice[o.slot, cell, :2] for o in state.living if o.slot not in moved]
                priced = task.prices.per_cell["/".join(task.cells[cell])]
                asked = priced + sum(own[0] for own in same)
                bare = (priced * host[cell] + sum(own[1] for own in same)) / asked
                assert skills[organelle.slot, cell] == pytest.approx(skill)
                gains.append(skill - bare)
                variances.append(skill * (1 - skill) / (n + PRIOR) + bare * (1 - bare) / asked)
            gain, doubt = sum(gains) / len(gains), math.sqrt(sum(variances)) / len(gains)
            assert found.gain[organelle.slot, number] == pytest.approx(gain)
            assert found.doubt[organelle.slot, number] == pytest.approx(doubt)
            hoped = abs(gain + doubt) if organelle.lessons else gain + doubt
            promises[organelle.slot].append(max(hoped, FLOOR))
            assert hopes[organelle.slot, number] == pytest.approx(promises[organelle.slot][-1])
        known = organelle.slot in moved and not run.uniform
        own = promises[organelle.slot][task.families.index(organelle.niche)]
        assert found.credit[organelle.slot] == pytest.approx(own if known else FLOOR)
    assert not found.credit[4:].any()
    for cell, (family, _) in enumerate(task.cells):
        number = task.families.index(family)
        best = 1.0 if run.uniform else max(promise[number] for promise in promises.values())
        there = run.uniform or family == "math"
        assert found.interest[cell] == pytest.approx(best if there else 0.0)


def test_where_nobody_lives_nothing_is_of_interest(small: Any) -> None:
    run = founded(small)
    for organelle in run.state.living:
        run.state.retire(organelle, "culled")
    assert not appraise(run).interest.any() and not appraise(run).credit.any()


def test_all_weights_are_read_as_often_as_something_changed(small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before answers, before and after learners are chosen, and for each pair that is looked for."""
    run = founded(small)
    asked, moved = [], type(run.state).moved

    def counted(state: Any) -> Any:
        asked.append(state.generation)
        return moved(state)

    monkeypatch.setattr(type(run.state), "moved", counted)
    for _ in range(2):
        generation(run)
    assert max(asked.count(number) for number in (0, 1)) <= 4
    assert merits.appraise is appraise
