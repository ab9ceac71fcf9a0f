"""How far a run has come, and what it can still afford."""

import numpy as np

from evolora_core.searches.adapters.ecology.regime import whole_steps
from evolora_core.searches.adapters.ecology.run import Run

LONGER = 1.1  # what a step of the cooldown, or a contest, may cost at most, relative to those before it
LEFT = 0.8  # the share of its planned cooldown that a run has to be able to pay after one more generation


def limit(run: Run) -> float | None:
    """FLOPs that may be spent until the end of the present family's stay; None without a budget."""
    return run.horizon.limit(run.task.prices.spent, run.state.phase)


def affords(run: Run, more: float) -> bool:
    """Whether `more` FLOPs and most of the cooldown after them are within the budget, if there is one."""
    most = limit(run)
    if most is None:
        return True
    updates = run.state.meter.flops("update") - run.state.phase_updates
    cooling = LEFT * run.cooldown * (updates + learning_flops(run))
    # A cooldown gives way where a generation took more than planned; prompts grow with what is remembered and shown.
    ahead = more if cooling > 0 and not run.config.memory.shown else LONGER * more
    return run.state.meter.total() + ahead + cooling + contest_flops(run) <= most


def contest_flops(run: Run) -> float:
    """What a contest takes, if all its items have to be asked for; the last one, which is held before a cooldown, is
    among all that ever learned.
    """
    config = run.config.contest
    if config.contenders == 1:
        return 0.0
    all_taught = run.contenders(most=len(run.state.organelles))
    rivals = [all_taught[niche] if own[0].lessons else own for niche, own in run.contenders().items()]
    bare_answers = sum(run.task.flops.dearness(one.rank) for own in rivals if len(own) > 1 for one in own)
    return LONGER * config.items * bare_answers * run.task.prices.unit_flops


def longest_answer(run: Run, phase: int) -> float:
    """FLOPs of the longest answers of the bare host to the items of the families of a phase, on the mean."""
    task = run.task
    longest = task.flops.generate_flops([len(ids) for ids in task.prompts], task.decoding.max_new_tokens)
    there = np.array([run.horizon.there(family, phase) for family in task.families]) @ task.inside
    return float(longest[there[task.cell_of]].mean())


def learning_flops(run: Run) -> float:
    """What the learning of a generation takes: the mean of those of the present family's stay, or what is expected."""
    if done := run.state.generation - run.state.phase_start:
        return (run.state.meter.flops("update") - run.state.phase_updates) / done
    config = run.config.plasticity
    return run.task.prices.unit_flops * run.rule.row_cost(config) * config.steps * config.batch_rows


def phase_over(run: Run) -> bool:
    """Whether the present family has had its share of the run, or no organelle of its niche is left. Where all families
    are there all the time, whether the run is over.

    On a budget the share is one of FLOPs, else one of generations: arms of equal FLOPs need not have equal generations
    of a family.
    """
    if not run.awake():
        return True
    most = limit(run)
    if most is None:
        return run.horizon.had_its_share(run.state.generation, run.state.phase)
    if run.state.last_flops == 0:
        return run.state.meter.total() + first_generation(run) > most
    return not affords(run, run.state.last_flops)


def cooldown_steps(run: Run) -> int:
    """Learning steps of the cooldown that is due now: a share of the steps made until now, or what is left of a budget.

    A schedule planned to the end would need to know it. Constant first and then a short decay to zero gets nearly as
    far (Hägele et al. 2024, arXiv 2405.18392), and a run can be extended from before the decay.
    """
    state, most = run.state, limit(run)
    steps = run.steps((state.generation - state.phase_start) * run.cooldown)
    if most is None:  # where nothing was found for some generations, fewer were made than so many have
        return min(steps, whole_steps(run.cooldown * state.steps / run.crowd))
    if not steps or not state.steps:
        return steps
    price = (state.meter.flops("update") - state.phase_updates) / state.steps
    return max(0, int((most - state.meter.total()) / LONGER / price / run.crowd))


def first_generation(run: Run) -> float:
    """FLOPs of a generation, before there was one: its answers cost what the bare host's do."""
    return run.task.prices.unit_flops * run.config.episodes + learning_flops(run) + contest_flops(run)
