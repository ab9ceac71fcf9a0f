"""Numbers in recipes: by parent and layer group, rounded, changed on the scale that suits them."""

from typing import Any

import numpy as np

from evolora_core.searches.merging.operators.base import Parameter
from evolora_core.searches.merging.recipe import Groups, at_group

DIGITS = 6  # of a number in a recipe: finer than any score can tell, and short to read
SPREAD = 0.2  # standard deviation of a logarithm's change
LOGIT_SPREAD = 0.5  # standard deviation of a logit's change
EDGE = 0.02  # a share is changed within [EDGE, 1 - EDGE] of its range: at 0 or 1 its logit is infinite
GREATEST = 3.0  # weights and scales beyond it only leave the parents behind


def tidy(values: Any) -> np.ndarray:
    """Rounded, as floats; never -0."""
    return np.round(np.asarray(values, dtype=float), DIGITS) + 0.0


def as_groups(row: np.ndarray) -> Groups:
    """Values `[groups]` as a recipe has them: a number where there is one group."""
    return float(row[0]) if len(row) == 1 else [float(value) for value in row]


def grid(values: Any, inputs: int, groups: int) -> np.ndarray:
    """A parameter of each input as an array `[inputs, groups]`, whatever groups it has in the recipe."""
    rows = values if isinstance(values, list) else [values] * inputs
    return np.array([[at_group(row, (place + 0.5) / groups) for place in range(groups)] for row in rows])


def is_share(parameter: Parameter) -> bool:
    """Whether a parameter lies within [0, 1], as densities do; others are factors."""
    return parameter.low >= 0 and parameter.high <= 1


def _span(parameter: Parameter) -> float:
    return min(parameter.high, parameter.most) - parameter.low


def jittered(parameter: Parameter, values: np.ndarray, rng: np.random.Generator, factor: float = 1.0) -> np.ndarray:
    """Values of a parameter, each changed: a share logit-normally over its range, a factor log-normally, its sign kept.

    Factors that are 0 begin anew near 0, since no factor moves them.
    """
    noise = rng.standard_normal(values.shape) * factor
    if is_share(parameter):
        span = _span(parameter)
        share = np.clip((values - parameter.low) / span, EDGE, 1 - EDGE)
        changed = 1 / (1 + np.exp(-(np.log(share / (1 - share)) + LOGIT_SPREAD * noise)))
        return tidy(parameter.low + span * np.clip(changed, EDGE, 1 - EDGE))
    changed = np.where(values == 0, 0.1 * noise, values * np.exp(SPREAD * noise))
    return tidy(np.clip(changed, max(parameter.low, -GREATEST), min(parameter.high, GREATEST)))


def drawn(parameter: Parameter, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Values of a parameter at random: shares uniform over their range, factors log-normal around their default."""
    if is_share(parameter):
        span = _span(parameter)
        return tidy(parameter.low + span * rng.uniform(EDGE, 1 - EDGE, size=shape))
    return tidy(parameter.default * np.exp(2 * SPREAD * rng.standard_normal(shape)))
