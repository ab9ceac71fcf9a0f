"""What right answers pay, alone and where others know them too, and who goes when accounts do not decide."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_ecologies import evolve, founded, rows, start, without_clock

from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.searches.adapters.ecology.evolve import advance
from evolora_core.searches.adapters.ecology.ledger import micro
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.phases.episodes import allocate
from evolora_core.searches.adapters.ecology.phases.rewards import rewards
from evolora_core.searches.adapters.ecology.phases.selection import cull
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.settings.ecology import EcologyConfig


def priced(small: Any, **economy: Any) -> Run:
    """The little ecology before its first generation, with other prices."""
    return founded(small, EcologyConfig.model_validate(small.config.model_dump() | {"economy": economy}))


def outcome(right: bool) -> Outcome:
    item = Item("Compute 1 + 1.", 2, "math", "short", "math:short:1")
    answer = "2" if right else "3"
    return Outcome(item, 0, answer, grade(item, answer), 5, 2, 10, 10, [1], True)


def organelle(number: int, niche: str) -> Organelle:
    return Organelle(number, number, 2, "founder", 0, niche, 1.0, 0.5)


def test_an_item_that_several_know_is_shared_and_one_that_only_one_knows_is_not(small: Any) -> None:
    run = priced(small, reward="shared", break_even_accuracy=0.1)
    a, b, other = organelle(0, "math"), organelle(1, "math"), organelle(2, "json_repair")
    groups = [Group(a, 7), Group(b, 7), Group(other, 7), Group(a, 8), Group(b, 8)]
    answers = [[outcome(False), outcome(True)], [outcome(True)], [outcome(True)], [outcome(True)], [outcome(False)]]
    paid = rewards(run, groups, answers)
    assert [[amount / micro(1) for amount in own] for own in paid] == [[0, 5], [5], [10], [10], [0]]
    each = rewards(priced(small, break_even_accuracy=0.1), groups, answers)
    assert [[amount / micro(1) for amount in own] for own in each] == [[0, 10], [10], [10], [10], [0]]


@settings(max_examples=60, deadline=None)
@given(
    right=st.lists(st.lists(st.booleans(), min_size=1, max_size=3), min_size=1, max_size=12),
    shared=st.booleans(),
    pool=st.floats(0.5, 1e4),
)
def test_a_pool_pays_what_is_in_it_and_nothing_without_a_right_answer(
    small: Any, right: list[list[bool]], shared: bool, pool: float
) -> None:
    run = priced(small, reward="shared" if shared else "each", pool=pool)
    groups = [Group(organelle(number % 3, "math"), number // 3) for number in range(len(right))]
    answers = [[outcome(own) for own in group] for group in right]
    paid = [amount for own in rewards(run, groups, answers) for amount in own]
    anybody = any(own for group in right for own in group)
    assert abs(sum(paid) - (micro(pool) if anybody else 0)) <= len(paid)  # each is rounded
    assert all((amount > 0) == own for amount, own in zip(paid, (o for group in right for o in group), strict=True))


def test_who_share_rewards_practise_the_same_items(small: Any) -> None:
    run = priced(small, reward="shared", allocation="uniform")
    asked: dict[str, list[list[int]]] = {}
    groups = allocate(run, run.state.living)
    for own in run.state.living:
        asked.setdefault(own.niche, []).append([group.item for group in groups if group.organelle.id == own.id])
    assert all(first == second and first for first, second in asked.values())


def test_a_newborn_is_judged_by_what_it_was_paid_and_not_by_its_account(small: Any) -> None:
    run = priced(small, cull="least")
    state = run.state
    state.generation = 3
    for number, reward in ((0, 5), (1, 9), (2, 30), (3, 40)):
        row = {"generation": 3, "organelle": number, "reward": reward}
        state.events.add("episodes", [row])
        state.ledger.post(3, "reward", "sun", str(number), 10 ** (9 - number))  # the richest was paid least
    cull(replace(run, config=run.config.model_copy(update={"population": 2})))
    assert [own.id for own in state.living] == [2, 3]


def test_lots_are_drawn_by_seed_and_generation(small: Any) -> None:
    left = set()
    for generation in range(8):
        again = []
        for _ in range(2):
            run = priced(small, cull="lots")
            run.state.generation = 3 + generation
            cull(replace(run, config=run.config.model_copy(update={"population": 2})))
            again.append(tuple(own.id for own in run.state.living))
        assert again[0] == again[1]
        left.add(again[0])
    assert len(left) > 1


def test_a_run_with_a_pool_keeps_its_books_and_resumes_as_it_was(small: Any, tmp_path: Path) -> None:
    economy = {"reward": "shared", "pool": 300.0, "cull": "least", "endowment": 60.0, "ticket": 2.0}
    config = EcologyConfig.model_validate(small.config.model_dump() | {"economy": economy})
    evolve(small, tmp_path / "whole", config=config)
    ledger = rows(tmp_path / "whole", "ledger")
    assert sum(row["amount"] for row in ledger) == 0
    for generation in range(config.generations):
        paid = [
            row["amount"]
            for row in ledger
            if row["entry"] == "reward" and row["generation"] == generation and row["amount"] > 0
        ]
        assert sum(paid) == pytest.approx(micro(300.0), abs=len(paid))
    advance(start(small, tmp_path / "broken", config), generations=2)
    evolve(small, tmp_path / "broken", config=config)
    assert without_clock(tmp_path / "broken") == without_clock(tmp_path / "whole")
