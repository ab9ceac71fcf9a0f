"""Laws that hold are found again, what they say of larger models is right, and intervals hold as often as they say."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from searches.attention.simulated_worlds import PARAMETERS, World, draw_world, study

from evolora_core.engine.rng import stream
from evolora_core.errors import StageError
from evolora_core.searches.attention.scaling.fits import line, paired_curve, power, straight
from evolora_core.searches.attention.scaling.intervals import of_crossed
from evolora_core.searches.attention.scaling.law import Law, fit_law
from evolora_core.searches.attention.scaling.losses import Losses, cells_of, star
from evolora_core.searches.attention.scaling.predict import predict_gain, predict_loss


def exact(floors: list[float], scales: list[float], exponents: list[float], more: float = 1.0) -> Losses:
    """Losses without noise, two seeds; program 0 is the baseline, the others have `more` times its parameters."""
    n = np.vstack([PARAMETERS, *[more * PARAMETERS] * (len(floors) - 1)])
    parts = zip(floors, scales, exponents, n, strict=True)
    values = np.stack([floor + scale * own**-power for floor, scale, power, own in parts])
    names = ["base", *"abcdefgh"[: len(floors) - 1]]
    return Losses(names, list("1234"), [3, 4], n, np.repeat(values[:, :, None], 2, axis=2))


def test_shapes_that_do_not_fit_are_refused() -> None:
    losses = exact([2.0], [4.0], [0.14])
    with pytest.raises(ValueError, match="1 programs, 3 sizes and 2 seeds"):
        replace(losses, sizes=["1", "2", "3"])
    with pytest.raises(StageError, match="program z has no losses; measured are base"):
        straight(losses, "z")


def test_the_straight_line_is_that_of_scipy() -> None:
    losses = draw_world("power", stream(1, 0, 0, "fits"), seeds=3).losses
    cells, found = cells_of(losses, "p0"), straight(losses, "p0")
    other = stats.linregress(cells.x, cells.y)
    assert np.allclose([found.slope, found.intercept], [other.slope, other.intercept])
    assert np.allclose([found.se, found.r2], [other.stderr, other.rvalue**2])


def test_two_cells_say_nothing_of_how_well_a_line_fits() -> None:
    losses = exact([2.0], [4.0], [0.14])
    losses.values[:, 2:] = np.nan
    losses.values[:, :, 1] = np.nan
    found = straight(losses, "base")
    assert np.isfinite(found.slope) and np.isnan(found.se) and np.isnan(found.r2)
    losses.values[:, 1] = np.nan
    with pytest.raises(StageError, match="two sizes"):
        straight(losses, "base")


@pytest.mark.parametrize("span", [0.1, 0.06, 0.04, 0.02, 0.01, 0.0])
def test_programs_of_nearly_one_loss_have_a_law(span: float) -> None:
    """As after few steps, when no size has learned anything yet."""
    losses = exact([4.8, 4.8], [span / 0.4, span / 0.4], [0.14, 0.13])
    law = fit_law(losses, "base", ["a"])
    assert np.isfinite(law.floor) and law.floor < losses.values.min()
    assert np.isfinite(predict_gain(losses, "a", "base", 1e6, law).value)


@pytest.mark.parametrize("fresh", [1, 2, 4])
def test_an_interval_of_what_is_measured_later_holds(fresh: int) -> None:
    """The mean of new trainings scatters around the curve; the interval of the curve alone is too narrow for it."""
    random, noise = stream(fresh, 0, 0, "fits"), 0.01
    losses, law = exact([2.1] * 2, [4.0, 3.9], [0.14, 0.15]), Law(2.1, 0.0, 0.0, ("base", "a"))
    at = star(losses, "base")
    true = np.array([2.1 + 4.0 * at**-0.14, 2.1 + 3.9 * at**-0.15])
    inside = np.zeros((2, 2))  # [of new trainings or of the curve, of the loss or the gain]
    for _ in range(300):
        own = replace(losses, values=losses.values + random.normal(0, noise, losses.values.shape))
        base, a = true + random.normal(0, noise / np.sqrt(fresh), 2)
        for place, trainings in enumerate((fresh, 0)):
            loss = predict_loss(own, "a", at, law, fresh=trainings).estimate
            gain = predict_gain(own, "a", "base", at, law, fresh=trainings).estimate
            inside[place] += [loss.lo < a < loss.hi, gain.lo < base - a < gain.hi]
    assert (abs(inside[0] / 300 - 0.95) < 0.035).all() and (inside[1] < inside[0] - 10).all(), inside


def test_new_texts_add_what_the_measured_ones_did() -> None:
    drawn = draw_world("power", stream(5, 0, 0, "fits"), seeds=3, texts=40).losses
    at, cells = star(drawn, "baseline"), cells_of(drawn, "p0")
    curve = line(cells)
    pull, scatter = curve.pull(at), float((curve.residuals**2).sum()) / (len(cells.x) - 2)
    ours, theirs = (predict_loss(drawn, "p0", at, fresh=fresh).estimate.se ** 2 for fresh in (2, 0))
    assert cells.texts is not None
    assert ours - theirs == pytest.approx(scatter / 2 + (cells.texts @ pull).var(ddof=1) / 40)


def test_a_law_without_noise_is_found_and_extrapolated() -> None:
    losses = exact([2.1] * 3, [4.0, 3.9, 4.3], [0.14, 0.15, 0.13])
    law = fit_law(losses, "base", ["a"])
    assert law.floor == pytest.approx(2.1, abs=2e-3) and law.bend == pytest.approx(0, abs=1e-5)
    curve = power(cells_of(losses, "a"), 2.1)
    assert curve is not None and curve.law == pytest.approx((3.9, 0.15))
    at = star(losses, "base")
    assert at == pytest.approx(3 * PARAMETERS[-1])
    true = 2.1 + 4.3 * at**-0.13
    assert predict_loss(losses, "b", at, law).value == pytest.approx(true, abs=1e-4)
    gain = predict_gain(losses, "b", "base", at, law)
    assert gain.form == "power" and gain.value == pytest.approx(2.1 + 4.0 * at**-0.14 - true, abs=1e-5)


def test_more_parameters_are_no_gain() -> None:
    losses = exact([2.1] * 2, [4.0] * 2, [0.14] * 2, more=1.1)
    assert paired_curve(losses, "a", "base")["4"].value < -0.008  # the larger model is better
    at = star(losses, "base")
    assert abs(predict_gain(losses, "a", "base", at, fit_law(losses, "base", ["a"])).value) < 1e-5
    assert -0.006 < predict_gain(losses, "a", "base", at).value < 0  # the line fits neither and errs to the safe side


def test_where_the_floor_is_not_known_a_loss_has_no_interval_and_a_gain_has_one() -> None:
    """One seed of three sizes fits three numbers exactly, which is no certainty."""
    losses = draw_world("power", stream(10, 0, 0, "fits"), seeds=1).losses
    three = replace(losses, sizes=losses.sizes[1:], n=losses.n[:, 1:], values=losses.values[:, 1:])
    at, law = star(three, "baseline"), fit_law(three, "baseline", [])
    loss = predict_loss(three, "baseline", at, law)
    assert loss.form == "power" and np.isfinite(loss.value) and np.isnan([loss.estimate.lo, loss.estimate.hi]).all()
    gain = predict_gain(three, "p0", "baseline", at, law).estimate
    assert gain.lo < gain.value < gain.hi


def test_a_line_is_taken_for_a_program_below_the_floor() -> None:
    losses = exact([2.1, 0.4], [4.0, 4.0], [0.14, 0.14])
    law = fit_law(losses, "base", [])
    gain = predict_gain(losses, "a", "base", star(losses, "base"), law)
    assert gain.form == "line" and gain.value == pytest.approx(1.7, abs=1e-9)


def test_a_program_that_lacks_some_cells_is_compared_on_the_others() -> None:
    losses = draw_world("offset", stream(2, 0, 0, "fits"), seeds=3).losses
    at, law = star(losses, "baseline"), fit_law(losses, "baseline", ["p1", "p2"])
    less = replace(losses, values=losses.values.copy())
    less.values[1, :, 1] = np.nan
    without = replace(losses, seeds=[0, 2], values=np.delete(losses.values, 1, axis=2))
    found, expected = (predict_gain(own, "p0", "baseline", at, law).estimate for own in (less, without))
    assert found == expected and found.value != predict_gain(losses, "p0", "baseline", at, law).value
    less.values[1] = np.nan
    with pytest.raises(StageError, match="no size and seed in common"):
        predict_gain(less, "p0", "baseline", at, law)


@pytest.mark.parametrize("floor", [None, 2.0])
def test_the_pull_of_a_cell_is_how_the_prediction_moves(floor: float | None) -> None:
    losses = draw_world("power", stream(3, 0, 0, "fits"), seeds=2, noise=1e-4).losses

    def value(own: Losses) -> tuple[float, np.ndarray]:
        cells = cells_of(own, "p0")
        curve = line(cells) if floor is None else power(cells, floor)
        assert curve is not None
        return curve.at(6e5), curve.pull(6e5)

    before, pull = value(losses)
    for cell, (size, seed) in enumerate(np.ndindex(4, 2)):
        moved = replace(losses, values=losses.values.copy())
        moved.values[1, size, seed] += 1e-4
        assert (value(moved)[0] - before) / 1e-4 == pytest.approx(pull[cell], abs=3e-3)


def test_the_paired_curve_has_the_t_interval_of_the_seeds() -> None:
    losses = draw_world("power", stream(4, 0, 0, "fits"), seeds=5).losses
    found = paired_curve(losses, "p3", "baseline")
    assert list(found) == losses.sizes
    other = stats.ttest_1samp(losses.values[4, 2] - losses.values[0, 2], 0).confidence_interval()
    assert np.allclose([found["c"].lo, found["c"].hi], [other.low, other.high])
    one = replace(losses, seeds=[0], values=losses.values[:, :, :1])
    alone = paired_curve(one, "p3", "baseline")["a"]
    assert alone.value == one.values[4, 0, 0] - one.values[0, 0, 0] and np.isnan(alone.lo)


def test_texts_count_once_however_many_seeds() -> None:
    """What texts do is the same for every seed, so more seeds must not narrow it away."""
    rng = stream(6, 0, 0, "fits")
    held = 0
    for _ in range(500):
        values = rng.normal(0, 1, 40) + rng.normal(0, 0.5, (8, 40)) + rng.normal(0, 0.1, (8, 1))
        found = of_crossed(values)
        held += found.lo <= 0 <= found.hi
    assert 0.93 <= held / 500 <= 0.99


@pytest.mark.parametrize(("world", "seeds"), [("power", 1), ("floors", 3), ("placebo", 2)])
def test_intervals_hold_and_the_power_form_errs_less(world: World, seeds: int) -> None:
    found = study(world, seeds, 40, stream(7, 0, 0, "fits", world))
    assert 0.92 <= found["power"]["held"] <= 0.995  # of 640 gains
    assert 0.90 <= found["unbent"]["held"] <= 0.98 and 0.90 <= found["line"]["held"] <= 0.98
    assert found["power"]["error"] < 0.85 * found["line"]["error"]


def test_programs_that_bend_make_the_intervals_of_all_wider() -> None:
    found = study("curved", 8, 25, stream(8, 0, 0, "fits"))
    assert found["unbent"]["held"] < 0.55 and found["power"]["held"] > 0.8


def test_intervals_hold_for_new_texts() -> None:
    found = study("power", 2, 30, stream(9, 0, 0, "fits"), texts=60)
    assert found["power"]["held"] > 0.9 and found["power"]["width"] > 0.1


def test_a_law_needs_three_sizes() -> None:
    losses = exact([2.1] * 2, [4.0] * 2, [0.14] * 2)
    losses.values[:, 2:] = np.nan
    with pytest.raises(StageError, match="three sizes"):
        fit_law(losses, "base", ["a"])
