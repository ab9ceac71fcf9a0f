"""Whatever a space makes is a valid recipe that can be written and read, and a mutant is never what it was."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.recipe import DEEPEST, Genome, Merge, depth, leaves, values_at
from evolora_core.searches.merging.spaces.base import Space
from evolora_core.searches.merging.spaces.names import NAMES
from evolora_core.searches.merging.spaces.registry import make_space
from evolora_core.searches.merging.weights import place_of

PARENTS = ("code", "math", "structured", "multilingual", "more")


def check(genome: Genome, space: Space) -> None:
    """A recipe of the space's models, at most three operators deep, that is what its text says."""
    again = Genome.read(genome.text)
    assert again == genome and again.id == genome.id
    assert 1 <= depth(genome.recipe) <= DEEPEST
    assert set(leaves(genome.recipe)) <= {*space.parents, "base"}


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=25)
@given(
    seed=st.integers(0, 2**32),
    parents=st.integers(2, len(PARENTS)),
    layers=st.integers(1, 6),
    groups=st.integers(1, 4),
)
def test_all_that_a_space_makes_is_valid(name: str, seed: int, parents: int, layers: int, groups: int) -> None:
    space = make_space(name, PARENTS[:parents], layers, groups)
    rng = stream(seed, 0, 0, "space")
    pool = [genome for genome, _ in space.seeds(rng)]
    assert len(pool) >= 8
    pool += [space.draw(rng) for _ in range(4)]
    pool += [space.decode(space.start() + rng.standard_normal(space.dimension) * width) for width in (0, 0.2, 10)]
    for genome in pool:
        check(genome, space)
    for _ in range(20):
        first, second = (pool[int(rng.integers(len(pool)))] for _ in range(2))
        child = space.cross(first, second, rng)
        mutant, change = space.mutate(child, rng)
        check(child, space)
        check(mutant, space)
        assert mutant != child and mutant.id != child.id and change
        pool[int(rng.integers(len(pool)))] = mutant


def test_masks_are_drawn_anew_for_each_run() -> None:
    """Every genome of a run has the run's seed, so that equal recipes stay equal genomes."""
    rng = stream(4, 0, 0, "space")
    space = make_space("operators", PARENTS[:3], 4, 2, seed=7)
    made = [genome for genome, _ in space.seeds(rng)] + [space.draw(rng), space.decode(space.start())]
    made += [space.mutate(made[0], rng)[0], space.cross(made[0], made[1], rng)]
    assert {genome.seed for genome in made} == {7}


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=25)
def test_any_vector_is_a_genome(name: str, data: st.DataObject) -> None:
    space = make_space(name, PARENTS[:2], 2, 2)
    assert space.start().shape == (space.dimension,)
    numbers = st.floats(width=64, allow_nan=True, allow_infinity=True)
    vector = np.array(data.draw(st.lists(numbers, min_size=space.dimension, max_size=space.dimension)))
    check(space.decode(vector), space)


@pytest.mark.parametrize("name", ["smooth", "operators"])
@pytest.mark.parametrize("groups", [3, 5, 64])
def test_every_number_of_a_vector_changes_the_model(name: str, groups: int) -> None:
    """Four layers and what lies behind them have five groups at most."""
    space = make_space(name, PARENTS[:2], 4, groups)
    places = [
        place_of(own, 4) for own in (*(f"model.layers.{layer}.up.weight" for layer in range(4)), "lm_head.weight")
    ]

    def values(vector: np.ndarray) -> list[object]:
        recipe = space.decode(vector).recipe
        assert isinstance(recipe, Merge)
        return [values_at(recipe, place) for place in places]

    for number in range(space.dimension):
        moved = space.start()
        moved[number] += 0.1
        assert values(moved) != values(space.start()), number


@pytest.mark.parametrize("name", NAMES)
def test_the_same_stream_makes_the_same(name: str) -> None:
    made = []
    for _ in range(2):
        space, rng = make_space(name, PARENTS[:3], 4, 2), stream(4, 0, 0, "space")
        seeds = space.seeds(rng)
        mutants = [space.mutate(genome, rng) for genome, _ in seeds]
        made.append((seeds, mutants, space.cross(seeds[0][0], seeds[1][0], rng), space.draw(rng)))
    assert made[0] == made[1]


def test_what_is_no_space_is_told() -> None:
    with pytest.raises(ValueError, match="did you mean 'routes'"):
        make_space("route", PARENTS, 4, 1)
    with pytest.raises(ValueError, match="two parents"):
        make_space("routes", PARENTS[:1], 4, 1)
