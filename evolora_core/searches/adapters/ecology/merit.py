"""What organelles are worth: what they can do more than the bare host, how sure that is, and what it earns them."""

from dataclasses import dataclass

import numpy as np

from evolora_core.searches.adapters.ecology.run import Run

PRIOR = 8  # answers that the bare host's accuracy counts for in a skill
FLOOR = 0.02  # gain in accuracy that everyone is credited with


@dataclass(frozen=True)
class Merit:
    """What the organelles are worth, as the state was when asked.

    gain      [slots, families] posterior success less the bare host's accuracy
    doubt     [slots, families] standard error of the gain
    interest  [cells] the best promise (`promise_of`) of the living in the family of each cell, 0 where that is not
              there
    credit    [slots] what each organelle is worth to its niche, in proportion to which episodes and training rows are
              shared out; 0 for empty slots
    """

    gain: np.ndarray
    doubt: np.ndarray
    interest: np.ndarray
    credit: np.ndarray


def appraise(run: Run) -> Merit:
    """The merit of everybody now. It reads all weights once: ask once where nothing changes in between."""
    moved = run.state.moved()
    skill = skill_of(run)
    bare, answers = bare_host(run, moved)
    gain, doubt = gain_of(run, skill, bare), doubt_of(run, skill, bare, answers)
    promise = promise_of(run, gain, doubt)
    return Merit(gain, doubt, interest_of(run, promise), credit_of(run, promise, moved))


def skill_of(run: Run) -> np.ndarray:
    """Posterior success `[slots, cells]`: practice, with the bare host's accuracy as prior."""
    answers, correct = run.state.practice[..., 0], run.state.practice[..., 1]
    result: np.ndarray = (correct + PRIOR * run.host_accuracy) / (answers + PRIOR)
    return result


def bare_host(run: Run, moved: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy of the bare host per cell, and the answers behind it: from pricing, and from organelles that still
    answer like it (`moved`: which slots do not). `[cells]` each.
    """
    same = [organelle.slot for organelle in run.state.living if not moved[organelle.slot]]
    priced = np.array([run.task.prices.per_cell[f"{family}/{depth}"] for family, depth in run.task.cells])
    answers, correct = run.state.practice[same, :, :2].sum(axis=0).T
    answers = answers + priced
    return (correct + priced * run.host_accuracy) / answers, answers


def gain_of(run: Run, skill: np.ndarray, bare: np.ndarray) -> np.ndarray:
    """Skill less the bare host's accuracy, by family: `[slots, families]`."""
    inside = run.task.inside
    result: np.ndarray = (skill - bare) @ inside.T / inside.sum(axis=1)
    return result


def doubt_of(run: Run, skill: np.ndarray, bare: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Standard error of the gain: `[slots, families]`."""
    inside = run.task.inside
    variance = skill * (1 - skill) / (run.state.practice[..., 0] + PRIOR) + bare * (1 - bare) / answers
    result: np.ndarray = np.sqrt(variance @ inside.T) / inside.sum(axis=1)
    return result


def promise_of(run: Run, gain: np.ndarray, doubt: np.ndarray) -> np.ndarray:
    """Gain that practice may have brought, with one standard error added, and at least FLOOR: `[slots, families]`.

    Learning progress (Oudeyer et al. 2007) over the whole run: over one generation it drowns in noise. Optimism
    keeps a family from starving after a few unlucky answers: its practice fades, and the doubt grows again. A
    learner that is worse than the host beyond doubt has its way back to go, and promises as much as one that is
    better (absolute learning progress, Portelas et al. 2019): with few rows it would stay there.
    """
    hoped = gain + doubt
    learners = [organelle.slot for organelle in run.state.living if organelle.lessons]
    hoped[learners] = np.abs(hoped[learners])
    result: np.ndarray = np.maximum(hoped, FLOOR)
    return result


def interest_of(run: Run, promise: np.ndarray) -> np.ndarray:
    """The best promise of the living in the family of each cell, 0 where that is not there: `[cells]`."""
    slots = [organelle.slot for organelle in run.state.living]
    best = np.ones(len(run.task.families)) if run.uniform else promise[slots].max(axis=0, initial=0.0)
    result: np.ndarray = (best * run.present) @ run.task.inside
    return result


def credit_of(run: Run, promise: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """What each organelle is worth to its niche: its promise there, and at least a little: `[slots]`.

    An organelle whose weights still are the host's has no gain, whatever its luck.
    """
    credit = np.zeros(len(run.state.practice))
    for organelle in run.state.living:
        known = organelle.niche and moved[organelle.slot] and not run.uniform
        credit[organelle.slot] = promise[organelle.slot, run.task.families.index(organelle.niche)] if known else FLOOR
    return credit


def cell_chances(run: Run, merit: Merit, niche: str) -> np.ndarray:
    """Probability `[cells]` that an organelle of a niche practises each cell.

    Within the niche, and within the rest, a share is uniform; the remainder follows learning progress (the gap
    between a fast and a slow success average, as in Oudeyer et al. 2007) plus the variance p(1-p) of the reward,
    without which a sample teaches nothing.
    """
    config = run.config.curriculum
    fast, slow = run.state.curriculum[:, 0], run.state.curriculum[:, 1]
    progress = 1.0 if run.uniform else np.abs(fast - slow) + fast * (1 - fast) + 1e-6
    interest = progress * merit.interest
    there = run.present_cells
    inside = np.array([family == niche for family, _ in run.task.cells]) & there
    outside = ~inside & there
    chances = np.zeros(len(run.task.cells))
    for part, share in ((inside, config.focus), (outside, 1 - config.focus)):
        if part.any():
            share = share if inside.any() and outside.any() else 1.0
            mixed = config.uniform * part / part.sum() + (1 - config.uniform) * part * interest / interest[part].sum()
            chances += share * mixed
    result: np.ndarray = chances / chances.sum()
    return result
