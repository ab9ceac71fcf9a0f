"""Who is sold what, who has to go, and how fast whoever stays may learn."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from small_ecologies import founded

from evolora_core.engine.archive import Elite
from evolora_core.engine.probes import probe
from evolora_core.language.flops import FlopModel
from evolora_core.searches.adapters.ecology import evolve
from evolora_core.searches.adapters.ecology.learning import rehearsal
from evolora_core.searches.adapters.ecology.learning.learners import learners_of, train
from evolora_core.searches.adapters.ecology.ledger import SINK, SUN, micro
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.pace import LONGER, affords, cooldown_steps, learning_flops
from evolora_core.searches.adapters.ecology.phases.episodes import admit, trade
from evolora_core.searches.adapters.ecology.phases.selection import cull, reproduce
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


@pytest.fixture
def ecology(small: Any) -> Run:
    """An ecology and its founders: 0 and 2 practise one family, 1 and 3 the other."""
    run: Run = founded(small)
    niches = [organelle.niche for organelle in run.state.living]
    assert niches == [niches[0], niches[1]] * 2 and niches[0] != niches[1]
    return run


def changed(run: Run, **changes: Any) -> Run:
    """The same run with other settings."""
    return replace(run, config=run.config.model_copy(update=changes))


def leave(state: Any, organelle: Any, units: Any) -> None:
    """Take or give what it takes for the account to hold so many units."""
    missing = micro(units) - state.ledger.balance(organelle)
    payer, payee = (SUN, str(organelle)) if missing > 0 else (str(organelle), SINK)
    state.ledger.post(state.generation, "reward", payer, payee, abs(missing))


def test_what_was_found_is_sold_within_the_niche_to_who_can_pay_and_keep_a_ticket(ecology: Run) -> None:
    run = changed(ecology, economy=_prices(ecology, answer_price=3.0, ticket=10.0))
    state = run.state
    newcomer = replace(state.organelles[2], id=4, slot=4)  # a third of the finder's niche, who would lack its ticket
    state.organelles.append(newcomer)
    state.buffers[4] = type(state.buffers[0])()
    leave(state, 4, 12.9)
    before = {i: state.ledger.balance(i) for i in range(5)}
    memory = Memory(7, (5, 6), 1.0)
    trade(run, [(state.organelles[0], memory)])
    paid = {i: (state.ledger.balance(i) - before[i]) / micro(1) for i in range(5)}
    assert paid == {0: 3.0, 1: 0.0, 2: -3.0, 3: 0.0, 4: 0.0}
    assert [len(state.buffers[i]) for i in range(5)] == [0, 0, 1, 0, 0]
    assert {row["entry"] for row in state.ledger.drain() if row["account"] == "2"} == {"sale"}
    trade(run, [(state.organelles[0], memory)])
    assert state.ledger.balance(2) / micro(1) == before[2] / micro(1) - 3.0  # nobody buys what it has
    leave(state, 4, 13.0)
    trade(run, [(state.organelles[0], memory)])
    assert state.ledger.balance(4) == micro(10) and memory in state.buffers[4]


def test_strikes_count_in_a_row_and_a_paid_ticket_clears_them(ecology: Run) -> None:
    run = changed(ecology, economy=_prices(ecology, ticket=10.0, strikes=2))
    state = run.state
    strikes, present = [], []
    for balance in (9.0, 10.0, 9.0, 9.0):
        leave(state, 1, balance)
        admitted = admit(run)
        present.append(1 in [organelle.id for organelle in admitted])
        strikes.append(state.organelles[1].strikes)
    assert present == [False, True, False, False]
    assert strikes == [1, 0, 1, 1]
    assert state.organelles[1].cause == "bankrupt" and state.ledger.balance(1) == 0
    assert [organelle.id for organelle in state.living] == [0, 2, 3]


def test_the_poorest_go_first_but_for_elites_learners_and_the_newborn(ecology: Run) -> None:
    run = changed(ecology, population=2)
    state = run.state
    for organelle, balance in enumerate((1.0, 2.0, 4.0, 3.0)):
        leave(state, organelle, balance)
    state.generation = 5
    state.archive.add(0, Elite(0, 0.9))  # the very poorest
    state.teach(state.organelles[1])  # the next
    cull(run)
    assert [organelle.id for organelle in state.living] == [0, 1]
    assert {o.cause for o in state.organelles if not o.alive} == {"culled"}


def test_a_learner_that_could_not_pay_for_once_is_stood_in_for_and_comes_back(ecology: Run) -> None:
    run, state = ecology, ecology.state
    for state.generation in range(2):
        state.teach(state.organelles[0])
    leave(state, 0, 0.0)
    learners = [organelle.id for organelle, _ in learners_of(run, {0, 2})]
    assert learners == [2]
    state.generation = 2
    state.teach(state.organelles[2])
    leave(state, 0, 1.0)
    assert [organelle.id for organelle, _ in learners_of(run, {0, 2})] == [0]
    state.generation = 3
    cull(changed(run, population=1))
    assert [organelle.id for organelle in state.living] == [0]


def test_who_could_not_pay_its_ticket_learns_in_the_cooldown_alone(ecology: Run) -> None:
    run, state = changed(ecology, economy=_prices(ecology, ticket=10.0)), ecology.state
    state.teach(state.organelles[0])
    leave(state, 0, 9.0)
    assert 0 not in [organelle.id for organelle in admit(run)]
    assert [organelle.id for organelle, _ in learners_of(run, {0, 2})] == [2]
    assert [organelle.id for organelle, _ in learners_of(run, {0, 2}, owing=True)] == [0]


def test_an_elite_has_the_very_weights_of_its_organelle(ecology: Run) -> None:
    state, draw = ecology.state, np.random.default_rng(0)
    assert len({own.rank for own in state.living}) > 1
    state.elites.weights += 1.0  # of whoever was the elite before
    for own in state.living:
        adapter = state.population.get(own.slot)
        for B in adapter.B.values():
            B[:] = torch.from_numpy(draw.standard_normal(B.shape, np.float32))
        state.population.put(own.slot, adapter)
        state.elect(0, float(FlopModel.from_model(ecology.task.host.model).dearness(own.rank)), own, float(own.id))
    assert len(state.archive.elites) > 1
    for index, elite in state.archive.elites.items():
        copied, plain = (part.state_dict() for part in (state.elites, state.population))
        slot = state.organelles[elite.organelle].slot
        assert all(torch.equal(copied[name][index], plain[name][slot]) for name in plain)
        state.elites.put(index, state.population.get(slot))  # module by module
        assert all(torch.equal(copied[name], own) for name, own in state.elites.state_dict().items())


def test_who_pays_for_a_birth_keeps_its_next_ticket(ecology: Run) -> None:
    """So a newborn, which has an endowment and no more, pays for no sibling."""
    run, state = ecology, ecology.state
    economy, source = run.config.economy, state.organelles[0]
    adapter = state.population.get(source.slot)
    torch.nn.init.constant_(next(iter(adapter.B.values())), 0.01)
    index = state.archive.index(run.task.families.index(source.niche), 1.0)
    state.archive.add(index, Elite(0, 0.9))
    state.elites.put(index, adapter)
    for organelle in (0, 2):
        leave(state, organelle, economy.endowment + economy.ticket - 1e-6)
    reproduce(run)
    assert len(state.organelles) == 4
    leave(state, 2, economy.endowment + economy.ticket)
    reproduce(run)
    assert [own.origin for own in state.organelles[4:]] == ["mutation"]  # of the generation's four
    assert state.ledger.balance(2) == micro(economy.ticket) and state.ledger.balance(4) == micro(economy.endowment)


def test_a_learner_in_debt_makes_the_last_steps(ecology: Run) -> None:
    """Nobody pays after a cooldown, and the learner is who answers."""
    run, state = ecology, ecology.state
    for state.generation in range(2):
        state.teach(state.organelles[0])
    leave(state, 0, -1.0)
    assert [organelle.id for organelle, _ in learners_of(run, {0, 2})] == [2]
    assert [organelle.id for organelle, _ in learners_of(run, {0, 2}, owing=True)] == [0]


def test_the_children_of_a_rich_niche_do_not_end_a_poor_one(ecology: Run) -> None:
    """Two niches of two: the learner of one is the poorest of all, and the other has nobody who learned."""
    state = ecology.state
    for organelle, balance in enumerate((1.0, 8.0, 9.0, 7.0)):
        leave(state, organelle, balance)
    state.teach(state.organelles[0])
    state.generation = 5
    for organelle in (2, 3):
        state.organelles[organelle] = replace(state.organelles[organelle], born=5)
    cull(changed(ecology, population=3))
    assert [own.id for own in state.living] == [0, 2, 3]  # 1, the elder of two that never learned
    cull(changed(ecology, population=2))
    assert [own.id for own in state.living] == [0, 3]  # not the richest of all, whose niche has its learner
    cull(changed(ecology, population=1))
    assert [own.id for own in state.living] == [0]


def test_the_poorest_of_the_spared_go_where_nobody_else_is_left(ecology: Run) -> None:
    run = changed(ecology, population=3)
    state = run.state
    for organelle, balance in enumerate((5.0, 2.0, 4.0, 3.0)):
        leave(state, organelle, balance)  # all were born in this generation
    cull(run)
    assert [organelle.id for organelle in state.living] == [0, 2, 3]


def test_the_rate_halves_and_what_arrives_is_learned_at_the_full_one(ecology: Run) -> None:
    run, state = ecology, ecology.state
    organelle = replace(state.organelles[0], learning_rate=1.5)
    plasticity = run.config.plasticity
    assert plasticity.half_life == 16
    rates = []
    for state.generation in (0, 16, 32):
        rates.append(run.rate(organelle))
    assert rates == pytest.approx([1.5 * plasticity.learning_rate / 2**i for i in range(3)])
    state.arrive()
    assert run.rate(organelle) == pytest.approx(rates[0])


def test_a_cooldown_falls_to_zero_over_its_share_of_the_steps(ecology: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run, state = ecology, ecology.state
    for organelle in state.living:
        state.buffers[organelle.id].add(Memory(0, (5,), 1.0), 8)
    state.generation, state.steps = 10, run.steps(10)
    seen = []

    def spied(run: Any, learners: Any, decay: Any, batches: Any, *, crowd: int) -> None:
        seen.append(decay)
        train(run, learners, decay, batches, crowd=crowd)

    monkeypatch.setattr(rehearsal, "train", spied)
    evolve.cool(run)
    (decay,) = seen
    assert len(decay) == round(run.config.plasticity.steps * 10 * run.config.plasticity.cooldown) > 3
    assert (np.diff(decay) < 0).all() and 0 < decay[-1] < 1 / len(decay) and 1 - 1 / len(decay) < decay[0] < 1


def test_a_cooldown_is_a_share_of_the_steps_that_were_made(ecology: Run) -> None:
    """Where the first finds come late, most generations have none."""
    ecology.state.generation, ecology.state.steps = 10, 20
    assert cooldown_steps(ecology) == round(20 * ecology.config.plasticity.cooldown) > 0


def _prices(run: Run, **changes: Any) -> Any:
    return run.config.economy.model_copy(update=changes)


@pytest.mark.parametrize("changes", [{"rule": "none"}, {"steps": 0}])
def test_without_learning_nothing_is_set_aside_for_it_but_a_tenth_for_longer_answers(
    small: Any, changes: dict[str, Any]
) -> None:
    data = small.config.model_dump()
    data["plasticity"] |= changes
    config = EcologyConfig.model_validate(data)
    more = 1000 * small.prices.unit_flops

    def enough(share: float) -> bool:
        run = founded(small, config)
        budget = round(run.state.meter.total() + share * more)
        return affords(founded(small, config, budget=budget), more)

    assert learning_flops(founded(small, config)) == 0
    assert enough(LONGER + 0.01) and not enough(LONGER - 0.01)


def test_a_step_is_charged_what_its_rows_cost(ecology: Run) -> None:
    """Counted here from the rows themselves: all budgets are multiples of what the ecology's meter says."""
    run, state, counted = ecology, ecology.state, list[int]()
    for organelle in state.living:
        state.buffers[organelle.id].add(Memory(0, (5, 6), 1.0), 8)
    state.generation, state.steps, model = 10, run.steps(10), FlopModel.from_model(run.task.host.model)

    def look(population: Any, batch: Any) -> None:
        ranks = population.ranks.numpy(force=True)[batch.slots.numpy(force=True)]
        counted.append(int(model.train_flops(batch.lengths, batch.answer_lengths, ranks).sum()))

    before = state.meter.flops("update")
    with probe("update", look):
        evolve.cool(run)
    assert counted and state.meter.flops("update") - before == sum(counted)
