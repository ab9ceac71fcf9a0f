"""What `evaluate` says of sizes before it measures them: at which numbers of parameters, and with which intervals."""

import numpy as np
import pytest

from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.scaling.law import Law
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.evaluate import Evaluation, prediction_rows

N = {"xs": 6592, "s": 25472, "m": 84912}
LARGER = {"l": 199936, "xl": 448000}
FLOOR, SCALE, EXPONENT = 1.5, 6.0, 0.2
SEEDS = [1, 2]
LAW = Law(FLOOR, 0.0, 0.0, ("mha", "rope"))


def asked(fresh: int) -> Evaluation:
    """Two sizes are predicted from three."""
    return Evaluation(
        condition="composite",
        trusted=True,
        measured=list(N),
        predicted=list(LARGER),
        selection_seeds=SEEDS,
        fresh_seeds=list(range(100, 100 + fresh)),
        training=Training(),
        bounds=Bounds(),
    )


def loss_at(n: float) -> float:
    """The loss of every program with so many parameters."""
    return float(FLOOR + SCALE * n**-EXPONENT)


def curve(more: float, noise: float = 0.0) -> Curve:
    """A program with `more` times the baseline's parameters, whose only advantage they are."""
    made, random = Curve(), np.random.default_rng(0)
    for size, n in N.items():
        made.n[size], made.flops[size] = round(more * n), 1
        for seed in SEEDS:
            made.texts[size, seed] = loss_at(made.n[size]) + random.normal(0, noise, 30).astype(np.float32)
    return made


def test_a_loss_is_predicted_at_the_program_s_own_parameters_and_a_gain_at_equal_ones() -> None:
    for own in prediction_rows(asked(2), curve(1.1), curve(1.0), LAW, LARGER):
        n = LARGER[own["size"]]
        assert own["parameters"] == pytest.approx(1.1 * n, rel=1e-4)
        assert own["loss"] == pytest.approx(loss_at(1.1 * n), abs=1e-4) and loss_at(n) - own["loss"] > 4e-3
        assert own["gain"] == pytest.approx(0, abs=1e-4)


def test_the_mean_of_fewer_fresh_trainings_is_known_less_well() -> None:
    widths = []
    for fresh in (1, 2, 16):
        rows = prediction_rows(asked(fresh), curve(1.0, 0.05), curve(1.0), LAW, LARGER)
        widths.append([rows[0]["loss_hi"] - rows[0]["loss_lo"], rows[0]["gain_hi"] - rows[0]["gain_lo"]])
    assert (np.diff(widths, axis=0) < 0).all()
