"""The search itself, without a model: what is followed, in what order, and how often the verifier may be asked."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.lora.population.generate import Alternatives
from evolora_core.searches.adapters.ecology.rules.search import (
    AIDED,
    KNOWN,
    ROOT,
    Branch,
    Tree,
    found_memories,
    next_branches,
)

END = 0


def alternatives(taken: Any, others: Any, logprobs: Any) -> Alternatives:
    return Alternatives(np.array(taken), np.array(others), np.array(logprobs))


def test_an_alternative_begins_like_the_answer_and_costs_its_whole_improbability() -> None:
    tree = Tree()
    # The greedy answer is 5, 6, end; at each step one other token was possible.
    seen = alternatives([-0.1, -0.2, -0.3], [[7], [8], [9]], [[-2.0], [-1.0], [-3.0]])
    tree.expand([5, 6], ROOT, 3.0, seen, [END], cap=32, calls=16)
    likeliest = min(tree.frontier)
    assert likeliest.prefix == (5, 8) and np.isclose(likeliest.logprob, -1.1) and np.isclose(likeliest.cost, 1.1 - 3.0)
    assert {branch.prefix for branch in tree.frontier} == {(7,), (5, 8), (5, 6, 9)}
    # What departs from a departure carries the improbability of both.
    tree.expand(
        [5, 8, 4], likeliest, 0.5, alternatives([-0.5, -0.1], [[3], [2]], [[-1.0], [-4.0]]), [END], cap=32, calls=16
    )
    assert np.isclose(next(b for b in tree.frontier if b.prefix == (5, 8, 3)).logprob, -2.1)


def test_an_alternative_that_ends_the_answer_is_left_out() -> None:
    tree = Tree()
    tree.expand(
        [5],
        ROOT,
        0.0,
        alternatives([-0.1, -0.1], [[END, 7], [8, END]], [[-1.0, -2.0], [-1.0, -2.0]]),
        [END],
        cap=32,
        calls=16,
    )
    assert {branch.prefix for branch in tree.frontier} == {(7,), (5, 8)}


def test_an_alternative_beyond_the_cap_is_left_out() -> None:
    """An answer of four tokens, begun with one of them and cut off at the cap: nothing can follow its last token."""
    tree, begun = Tree(), Branch(0.0, (5,), 0.0)
    seen = alternatives([-0.1] * 5, [[6], [7], [8], [9], [10]], [[-1.0]] * 5)
    tree.expand([5, 1, 2, 3], begun, 0.0, seen, [END], cap=4, calls=16)
    assert {branch.prefix for branch in tree.frontier} == {(5, 6), (5, 1, 7), (5, 1, 2, 8)}


def test_what_could_never_be_followed_is_not_kept() -> None:
    """With two calls left the two best of all are kept, whatever answer they depart from; of equals, as tokens sort."""
    tree, calls = Tree(), 3
    tree.expand([5, 6], ROOT, 0.0, alternatives([-1.0] * 2, [[9, 8], [7, 4]], [[-2.0, -2.0], [-1.0, -3.0]]), [END],
        cap=32, calls=calls)  # fmt: skip
    assert [branch.prefix for branch in tree.frontier] == [(5, 7), (8,)]
    tree.expand([3], ROOT, 0.0, alternatives([-0.1], [[2]], [[-1.5]]), [END], cap=32, calls=calls)
    assert [branch.prefix for branch in tree.frontier] == [(2,), (5, 7)]
    assert [branch.prefix for _, branch in next_branches([tree], stage=4, calls=calls, budget=9)] == [(2,), (5, 7)]


def test_a_better_answer_is_worth_more_than_a_likelier_one() -> None:
    good, bad = Tree(), Tree()
    for tree, credit in ((good, 5.4), (bad, 0.0)):
        tree.expand([5], ROOT, credit, alternatives([-0.1], [[7]], [[-2.0]]), [END], cap=32, calls=16)
    assert [number for number, _ in next_branches([bad, good], stage=0, calls=16, budget=1)] == [1]


def test_the_answer_with_memories_comes_before_all_others() -> None:
    """Whatever credit a wrong answer has."""
    tree = Tree(frontier=[AIDED])
    tree.expand([5], ROOT, 5.4, alternatives([-0.1], [[7]], [[-2.0]]), [END], cap=32, calls=16)
    assert [branch.aided for _, branch in next_branches([tree], stage=0, calls=16, budget=1)] == [True]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 12)), min_size=1, max_size=8),
    st.integers(1, 16),
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
)
def test_neither_cap_is_ever_passed(items: Any, calls: Any, budgets: Any) -> None:
    trees = [
        Tree(solved=solved, frontier=[Branch(float(i), (i,), -float(i)) for i in range(width)])
        for solved, width in items
    ]
    followed = [0] * len(trees)
    for stage, budget in enumerate(budgets):
        chosen = next_branches(trees, stage, calls, budget)
        assert len(chosen) <= budget
        for number, _ in chosen:
            followed[number] += 1
    for tree, (solved, width), count in zip(trees, items, followed, strict=True):
        assert tree.calls == 1 + count <= max(calls, 1)
        assert count <= (0 if solved else width)


def test_what_is_found_is_learned_and_what_is_known_is_kept() -> None:
    answers = [(1,), (2,), (3,)]
    (found,) = found_memories(7, answers, [False, False, True], ())
    assert (found.item, found.tokens, found.weight) == (7, (3,), 1.0)
    (known,) = found_memories(7, answers[:1], [True], ())
    assert known.weight == KNOWN < 1
    assert found_memories(7, answers, [False] * 3, ()) == []
