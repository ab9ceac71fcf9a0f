from hypothesis import given
from hypothesis import strategies as st

from evolora_core.archive import Archive, Elite

ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.floats(0, 1)))


def grid():
    return Archive([("math", "short"), ("math", "long")], [1.05, 1.15])


@given(ENTRIES)
def test_a_cell_holds_the_best_of_the_rivals(entries):
    """Without re-entries of a holder, each cell ends with its largest objective, as in MAP-Elites."""
    archive, best = grid(), {}
    for number, (index, _, objective) in enumerate(entries):
        stored = archive.add(index, Elite(number, objective, 0))
        assert stored == (objective > best.get(index, -1.0))
        best[index] = max(objective, best.get(index, -1.0))
    assert {i: e.objective for i, e in archive.elites.items()} == best
    assert archive.coverage == len(best) / 6
    assert abs(archive.qd_score - sum(best.values())) < 1e-9


def test_a_holder_that_got_worse_says_so():
    archive = grid()
    archive.add(0, Elite(1, 0.9, 0))
    assert archive.add(0, Elite(1, 0.4, 1))
    assert archive.elites[0].objective == 0.4


@given(ENTRIES)
def test_state_round_trip(entries):
    archive, other = grid(), grid()
    for index, organelle, objective in entries:
        archive.add(index, Elite(organelle, objective, 3))
    other.restore(archive.state())
    assert other.elites == archive.elites


def test_cells_and_cost_bins():
    archive = grid()
    assert archive.size == 6
    assert [archive.describe(archive.index(1, cost))[2] for cost in (1.0, 1.1, 1.2)] == [0, 1, 2]
    assert archive.describe(archive.index(1, 1.0))[:2] == ("math", "long")
