"""The landscape's genes and numbers, and scales that exist where their step is taken."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.recipe import Route
from evolora_core.searches.merging.spaces.flow import Flow
from evolora_core.searches.merging.spaces.routes import Genes, Genotype, Routes

PARENTS = ("a", "b", "c", "d")
SPACE = Routes(PARENTS, 4, "base")


def steps(space: Routes, number: int) -> list[tuple[int, int]]:
    """(input, layer) of the steps of a model."""
    recipe = space.distinct(number).recipe
    assert isinstance(recipe, Route)
    return [(step.input, step.layer) for step in recipe.route]


def genes(genotype: Genotype) -> Genes:
    """What the model of a genotype depends on."""
    return tuple(SPACE.gene(parent, count) for parent, count in genotype)


def test_the_landscape_has_the_announced_sizes() -> None:
    one = [(parent, count) for parent in range(4) for count in range(3)]
    genotypes = list(itertools.product(one, repeat=4))
    models = Counter(SPACE.number(genes(genotype)) for genotype in genotypes)
    assert len(genotypes) == 12**4 == 20_736
    assert models.pop(-1) == 4**4  # all layers left out: no model
    assert len(models) == SPACE.models == 9**4 - 1 == 6560
    assert set(models) == set(range(SPACE.models))
    assert sum(models.values()) == 12**4 - 4**4


def test_every_distinct_model_has_its_number_and_no_two_are_equal() -> None:
    ids = set()
    for number in range(SPACE.models):
        genome = SPACE.distinct(number)
        assert SPACE.key(genome) == number
        ids.add(genome.id)
    assert len(ids) == SPACE.models
    with pytest.raises(IndexError):
        SPACE.distinct(SPACE.models)
    with pytest.raises(IndexError):
        SPACE.distinct(-1)
    with pytest.raises(ValueError, match="at least one layer"):
        SPACE.genome((0, 0, 0, 0))


def test_genes_say_what_is_stacked() -> None:
    number = SPACE.number(genes(((0, 1), (1, 2), (3, 0), (0, 1))))
    assert steps(SPACE, number) == [(0, 0), (1, 1), (1, 1), (0, 3)]
    assert SPACE.describe(number) == "a b*2 - a"
    assert SPACE.genotype(SPACE.numbered(number)) == ((0, 1), (1, 2), (0, 0), (0, 1))  # left out: parent 0
    recipe = SPACE.distinct(number).recipe
    assert isinstance(recipe, Route) and recipe.inputs == [*PARENTS, "base"] and recipe.rest == 4
    own = Routes(PARENTS, 4, "c").distinct(number).recipe
    assert isinstance(own, Route) and own.inputs == list(PARENTS) and own.rest == 2


def test_draws_are_uniform_over_distinct_models() -> None:
    space, rng = Routes(("a", "b"), 2, "base"), stream(0, 0, 0, "draws")
    found = Counter(space.key(space.draw(rng)) for _ in range(4800))
    assert len(found) == space.models == 24
    assert sum((count - 200) ** 2 / 200 for count in found.values()) < 50  # chi² with 23 degrees; p < .001


@given(number=st.integers(0, SPACE.models - 1), seed=st.integers(0, 2**32))
def test_a_mutation_changes_one_position_and_a_crossing_takes_both_sides(number: int, seed: int) -> None:
    rng = stream(seed, 0, 0, "mutation")
    old = SPACE.numbered(number)
    mutant, change = SPACE.mutate(SPACE.distinct(number), rng)
    new = SPACE.genes(mutant)
    (place,) = [place for place in range(4) if new[place] != old[place]]
    before, after = SPACE.genotype(old)[place], SPACE.genotype(new)[place]
    assert change == ("parent" if before[1] == after[1] else "count")
    assert change == "parent" or before[0] == after[0] or 0 in (before[1], after[1])
    other = SPACE.draw(rng)
    child = SPACE.genes(SPACE.cross(SPACE.distinct(number), other, rng))
    assert child in {(*old[:at], *SPACE.genes(other)[at:]) for at in range(1, 5)}


def test_every_neighbour_is_reached() -> None:
    rng, start = stream(0, 0, 0, "neighbours"), SPACE.distinct(SPACE.number((1, 0, 4, 8)))
    reached = {SPACE.mutate(start, rng)[0].id for _ in range(2000)}
    # A passed layer has 3 other parents and 2 other counts, one that is left out 8 genes.
    assert len(reached) == 3 * (3 + 2) + 8


def test_the_largest_number_decides_and_no_vector_leaves_out_everything() -> None:
    numbers = np.zeros((4, 9))
    numbers[[0, 1, 2, 3], [3, 0, 8, 1]] = 1
    assert SPACE.genes(SPACE.decode(numbers.ravel())) == (3, 0, 8, 1)
    numbers = np.zeros((4, 9))
    numbers[:, 0], numbers[2, 5] = 1, 0.9
    assert SPACE.genes(SPACE.decode(numbers.ravel())) == (0, 0, 5, 0)


def test_recipes_of_other_spaces_are_refused() -> None:
    with pytest.raises(ValueError, match="no recipe of the space"):
        Routes(PARENTS[:3], 4, "base").key(SPACE.distinct(0))


def test_flow_with_scales_of_one_is_the_route() -> None:
    flow = Flow(SPACE)
    vector = np.full(flow.dimension, 0.5)
    vector[: SPACE.dimension] = stream(0, 0, 0, "vector").random(SPACE.dimension)
    assert flow.decode(vector) == SPACE.decode(vector[: SPACE.dimension])


@given(seed=st.integers(0, 2**32))
def test_a_scale_exists_where_its_step_is_taken_and_stays_when_another_changes(seed: int) -> None:
    flow, rng = Flow(SPACE), stream(seed, 0, 0, "flow")
    genome = flow.draw(rng)
    mutant, change = flow.mutate(genome, rng)
    (old, scales), (new, changed) = flow.read(genome), flow.read(mutant)
    assert [len(own) for own in changed] == [count for _, count in SPACE.genotype(new)]
    touched = [place for place in range(4) if (old[place], scales[place]) != (new[place], changed[place])]
    assert len(touched) == 1
    if change == "scale":
        assert old == new
        assert sum(one != other for one, other in zip(scales[touched[0]], changed[touched[0]], strict=True)) == 1
    else:
        assert all(one == other for one, other in zip(scales[touched[0]], changed[touched[0]], strict=False))


def test_numbers_of_scales_that_no_step_has_change_nothing() -> None:
    flow = Flow(SPACE)
    vector = np.full(flow.dimension, 0.5)
    vector[: SPACE.dimension : SPACE.alleles] = 1  # all left out but
    vector[1] = 2  # the first layer, passed once
    before = flow.decode(vector)
    vector[SPACE.dimension + 1 :] = 7  # every scale but the first
    assert flow.decode(vector) == before
    vector[SPACE.dimension] = 1.0
    assert flow.read(flow.decode(vector))[1] == ((2.0,), (), (), ())
