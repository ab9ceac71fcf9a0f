"""Weights by parent and group, and trees of operators."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolora_core.engine.rng import stream
from evolora_core.searches.merging.operators.registry import get_operator, operators
from evolora_core.searches.merging.recipe import Genome, Merge, Route, Step, at_group, depth, leaves, nodes
from evolora_core.searches.merging.spaces import changes, stages
from evolora_core.searches.merging.spaces.operators import Operators
from evolora_core.searches.merging.spaces.smooth import HIGH, LOW, Smooth
from evolora_core.searches.merging.spaces.trees import merged, route_over, values_of
from evolora_core.searches.merging.spaces.values import drawn, jittered

PARENTS = ("a", "b", "c", "d")
SHAPE = changes.Shape(PARENTS, 4)
SMOOTH = Smooth(PARENTS, 2, 4)
OPERATORS = Operators(PARENTS, 4, 2)


@given(seed=st.integers(0, 2**32))
def test_smooth_weights_are_the_vector_within_bounds(seed: int) -> None:
    vector = stream(seed, 0, 0, "vector").normal(0.5, 1, SMOOTH.dimension)
    found = SMOOTH.weights(SMOOTH.decode(vector))
    assert found == pytest.approx(np.clip(vector, LOW, HIGH).reshape(4, 2), abs=1e-6)


def test_the_mean_of_smooth_recipes_is_that_of_weights_and_starts_uniform() -> None:
    rng = stream(0, 0, 0, "smooth")
    drawn = [SMOOTH.draw(rng) for _ in range(3)]
    mean = np.mean([SMOOTH.weights(genome) for genome in drawn], axis=0)
    assert SMOOTH.weights(SMOOTH.mean(drawn)) == pytest.approx(mean, abs=1e-6)
    assert (SMOOTH.weights(SMOOTH.seeds(rng)[0][0]) == 0.25).all()
    with pytest.raises(ValueError, match="smooth"):
        SMOOTH.weights(Genome(recipe="a"))


def test_groups_of_a_drawn_smooth_recipe_add_up_to_sums_of_their_own() -> None:
    """As the best recipes do: lower layers want about the mean of the parents, upper ones several times as much."""
    sums = np.array([SMOOTH.weights(SMOOTH.draw(stream(seed, 0, 0, "sums"))).sum(0) for seed in range(400)])
    assert sums.min() >= 0.499 and 5 < sums.max() <= 6.001
    assert np.median(sums) == pytest.approx(1.73, abs=0.3) and abs(np.corrcoef(sums.T)[0, 1]) < 0.2


@given(seed=st.integers(0, 2**20))
def test_a_search_drops_few_outliers(seed: int) -> None:
    """Breadcrumbs drop the largest magnitudes: a search tries shares about the default of 1 %, a recipe may say any."""
    gamma = next(own for own in get_operator("breadcrumbs").parameters if own.name == "gamma")
    values = drawn(gamma, (4,), stream(seed, 0, 0, "gamma"))
    for step in range(5):
        values = jittered(gamma, values, stream(seed, step, 1, "gamma"))
        assert ((values >= 0.002) & (values <= 0.098)).all()


def test_the_eight_seeds_are_three_stages_over_all_parents() -> None:
    seeds = OPERATORS.seeds(stream(0, 0, 0, "seeds"))
    assert len({genome.id for genome, _ in seeds}) == len({name for _, name in seeds}) == 8
    for genome, name in seeds:
        first, second, third = name.split("+")
        route = genome.recipe
        assert isinstance(route, Route) and depth(route) == 3 and set(leaves(route)) == {*PARENTS}
        middle = route.inputs[0]
        assert isinstance(middle, Merge) and middle.op == second and middle.inputs[1:] == list(PARENTS)
        inner = middle.inputs[0]
        assert isinstance(inner, Merge) and inner.op == first
        assert len({step.input for step in route.route}) > 1 or third == "data-flow"
        assert all(step.scale == 1 for step in route.route) == (third == "round-robin")


def _sample() -> list[Genome]:
    rng = stream(1, 0, 0, "sample")
    return [genome for genome, _ in OPERATORS.seeds(rng)] + [OPERATORS.draw(rng) for _ in range(30)]


@pytest.mark.parametrize("name", changes.CHANGES)
def test_every_change_changes_and_stays_valid(name: str) -> None:
    rng, worked = stream(0, 0, 0, "change", name), 0
    for genome in _sample():
        recipe = changes.CHANGES[name](genome.recipe, SHAPE, rng)
        if recipe is None or depth(recipe) > 3:
            continue
        worked += recipe != genome.recipe
        Genome(recipe=recipe)
    assert worked > 3


def test_jitter_keeps_signs_and_ranges() -> None:
    rng = stream(0, 0, 0, "jitter")
    node = merged(
        "ties", PARENTS, {"weight": np.array([[-1.0], [2.0], [0.5], [0.0]]), "density": np.full((4, 1), 0.97)}
    )
    weights, densities = [], []
    for _ in range(200):
        other = changes.CHANGES["weights"](node, SHAPE, rng)
        assert isinstance(other, Merge) and other.params["density"] == node.params["density"]
        weights.append(values_of(other, get_operator("ties").parameters[0], 1)[:, 0])
        other = changes.CHANGES["density"](node, SHAPE, rng)
        assert isinstance(other, Merge) and other.params["weight"] == node.params["weight"]
        densities.append(values_of(other, get_operator("ties").parameters[1], 1)[:, 0])
    found = np.array(weights)
    assert (np.sign(found[:, :3]) == [-1, 1, 1]).all() and abs(np.log(found[:, 1] / 2).std() - 0.2) < 0.04
    assert np.min(densities) > 0 and np.max(densities) < 1


def test_another_operator_keeps_what_both_have() -> None:
    rng = stream(0, 0, 0, "swap")
    node = merged("ties", PARENTS, {"weight": np.array([[0.1], [0.2], [0.3], [0.4]])}, {"normalize": "no"})
    for _ in range(50):
        other = changes.swap_operator(node, SHAPE, rng)
        assert isinstance(other, Merge) and other.op not in ("ties", "slerp")  # slerp takes two
        if "weight" in other.params:
            assert other.params["weight"] == [0.1, 0.2, 0.3, 0.4] and other.options == {"normalize": "no"}


def test_coarser_groups_are_means_and_finer_ones_copies_but_for_a_jitter() -> None:
    rng = stream(0, 0, 0, "groups")
    node = merged("linear", PARENTS, {"weight": np.array([[0.2, 0.4]] * 4)})
    found: dict[int, list[np.ndarray]] = {1: [], 4: []}
    for _ in range(200):
        other = changes.granularity(node, SHAPE, rng)
        assert isinstance(other, Merge)
        values = other.params["weight"]
        assert isinstance(values, list)
        rows = np.array([[row] if isinstance(row, float) else row for row in values])
        found[rows.shape[1]].append(rows)
    assert np.mean(found[1]) == pytest.approx(0.3, rel=0.02)
    assert np.mean(found[4], axis=(0, 1)) == pytest.approx([0.2, 0.2, 0.4, 0.4], rel=0.03)


def test_a_split_takes_layers_below_from_one_and_above_from_the_other() -> None:
    one, other = Genome(recipe=merged("linear", PARENTS)), Genome(recipe=merged("task_arithmetic", PARENTS))
    rng, split = stream(0, 0, 0, "split"), 0
    for _ in range(40):
        child = OPERATORS.cross(one, other, rng).recipe
        if not isinstance(child, Route):
            continue
        split += 1
        taken = [child.inputs[step.input] for step in child.route]
        at = taken.index(other.recipe)
        assert [step.layer for step in child.route] == [0, 1, 2, 3] and 1 <= at <= 3
        assert taken[:at] == [one.recipe] * at and taken[at:] == [other.recipe] * (4 - at)
        assert child.inputs[child.rest] == one.recipe
    assert split > 10


def test_routes_name_equal_inputs_once_and_none_in_vain() -> None:
    steps = [Step(input=3, layer=0), Step(input=1, layer=1, scale=2.0)]
    route = route_over(["a", merged("linear", PARENTS), "b", "a", merged("linear", PARENTS)], steps, 4)
    assert route.inputs == [merged("linear", PARENTS), "a"] and route.rest == 0
    assert [(step.input, step.scale) for step in route.route] == [(1, 1.0), (0, 2.0)]


def test_a_redrawn_field_is_one_of_three_and_half_of_the_draws_change_nothing() -> None:
    rng, space = stream(0, 0, 0, "redraw"), OPERATORS
    start = space.seeds(rng)[0][0]  # linear, ties, round robin
    drawn = [space.redraw(start, rng) for _ in range(300)]
    assert {name for _, name in drawn} == {"continuous", "ensemble", "structured"}
    assert 0.4 < np.mean([genome == start for genome, _ in drawn]) < 0.6
    for genome, name in drawn:
        inner = [own.op for own in nodes(genome.recipe) if isinstance(own, Merge)]
        if genome != start:
            assert (inner == ["ties", "slerp"]) == (name == "continuous")
            assert (inner == ["dare_ties", "linear"]) == (name == "ensemble")
    assert space.redraw(Genome(recipe="a"), rng)[0] == Genome(recipe="a")


def test_the_mean_of_three_stage_recipes_is_a_recipe_without_their_routes() -> None:
    seeds = [genome for genome, _ in OPERATORS.seeds(stream(0, 0, 0, "seeds"))][:3]
    mean = OPERATORS.mean(seeds).recipe
    assert isinstance(mean, Merge) and mean.op == "linear" and depth(mean) == 3
    assert mean.inputs == [genome.recipe.inputs[0] for genome in seeds if isinstance(genome.recipe, Route)]
    again = OPERATORS.mean([Genome(recipe=mean), *seeds[:2]]).recipe
    assert depth(again) == 3


def test_a_vector_is_ties_by_parent_and_group() -> None:
    vector = np.concatenate([np.linspace(-1, 4, 8), np.linspace(-1, 2, 8)])
    recipe = OPERATORS.decode(vector).recipe
    assert isinstance(recipe, Merge) and recipe.op == "ties"
    weights, densities = recipe.params["weight"], recipe.params["density"]
    assert isinstance(weights, list) and isinstance(densities, list)
    assert at_group(weights[0], 0.0) == LOW == -0.5 and at_group(weights[3], 0.9) == HIGH == 3.0  # as in `smooth`
    assert at_group(weights[1], 0.9) == pytest.approx(-1 + 5 * 3 / 7, abs=1e-6)
    assert at_group(densities[0], 0.0) == 0.05 and at_group(densities[3], 0.9) == 1.0


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_random_walks_neither_grow_nor_die(seed: int) -> None:
    rng = stream(seed, 0, 0, "walk")
    genome = OPERATORS.draw(rng)
    for _ in range(60):
        genome, _ = OPERATORS.mutate(genome, rng)
        assert len(list(nodes(genome.recipe))) <= 40
        for own in nodes(genome.recipe):
            if isinstance(own, Route):
                assert 1 <= len(own.route) <= 8


def test_drawn_trees_use_every_operator() -> None:
    rng = stream(0, 0, 0, "draws")
    drawn = [OPERATORS.draw(rng) for _ in range(300)]
    used = {own.op for genome in drawn for own in nodes(genome.recipe) if not isinstance(own, str)}
    assert used == {*operators(), "layers"}
    assert {depth(genome.recipe) for genome in drawn} == {1, 2, 3}
    assert stages.FIRST == ("linear", "slerp")
