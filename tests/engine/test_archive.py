from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from ribs.archives import GridArchive

from evolora_core.engine.archive import Archive, Elite

ENTRIES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.floats(0, 1)))


def grid() -> Archive:
    return Archive([("math", "short"), ("math", "long")], [1.05, 1.15])


@given(ENTRIES)
def test_a_cell_holds_the_best_of_the_rivals(entries: Any) -> None:
    """Without re-entries of a holder, each cell ends with its largest objective, as in MAP-Elites."""
    archive = grid()
    best: dict[int, float] = {}
    for number, (index, _, objective) in enumerate(entries):
        stored = archive.add(index, Elite(number, objective))
        assert stored == (objective > best.get(index, -1.0))
        best[index] = max(objective, best.get(index, -1.0))
    assert {i: e.objective for i, e in archive.elites.items()} == best
    assert archive.coverage == len(best) / 6
    assert abs(archive.qd_score - sum(best.values())) < 1e-9


def test_a_holder_that_got_worse_says_so() -> None:
    archive = grid()
    archive.add(0, Elite(1, 0.9))
    assert archive.add(0, Elite(1, 0.4))
    assert archive.elites[0].objective == 0.4


@given(ENTRIES)
def test_state_round_trip(entries: Any) -> None:
    archive, other = grid(), grid()
    for index, organelle, objective in entries:
        archive.add(index, Elite(organelle, objective))
    other.restore(archive.state())
    assert other.elites == archive.elites


def test_the_score_does_not_depend_on_who_came_first() -> None:
    """As after a resume, which restores the elites in the order of their cells."""
    first, other = Archive([("math", "short")], list(range(1, 60))), Archive([("math", "short")], list(range(1, 60)))
    for index in reversed(range(60)):
        first.add(index, Elite(index, 0.1 + index / 7))
    other.restore(first.state())
    assert other.qd_score == first.qd_score
    assert sum(e.objective for e in other.elites.values()) != sum(e.objective for e in first.elites.values())


def test_cells_and_cost_bins() -> None:
    archive = grid()
    assert archive.size == 6
    assert [archive.describe(archive.index(1, cost))[2] for cost in (1.0, 1.1, 1.2)] == [0, 1, 2]
    assert archive.describe(archive.index(1, 1.0))[:2] == ("math", "long")


@given(ENTRIES)
def test_it_keeps_what_pyribs_keeps(entries: Any) -> None:
    """pyribs' GridArchive as an oracle, over the same grid: two (family, depth) cells by three cost bins."""
    ours, theirs = grid(), GridArchive(solution_dim=1, dims=[2, 3], ranges=[(0, 2), (0, 3)], qd_score_offset=0.0)
    for number, (index, _, objective) in enumerate(entries):
        stored = ours.add(index, Elite(number, objective))
        cell, cost_bin = divmod(index, 3)
        told = theirs.add_single([float(number)], objective, [cell + 0.5, cost_bin + 0.5])
        assert stored == (told["status"] > 0)
    elites = theirs.data(["solution", "objective", "measures"])
    places = [int(cell) * 3 + int(cost_bin) for cell, cost_bin in elites["measures"]]
    kept = dict(zip(places, zip(elites["solution"][:, 0], elites["objective"], strict=True), strict=True))
    assert {i: (e.organelle, e.objective) for i, e in ours.elites.items()} == kept
    assert ours.coverage == theirs.stats.coverage
    their_score: Any = theirs.stats.qd_score
    assert abs(ours.qd_score - their_score) < 1e-9
