"""How long a run lasts, and what it can still afford."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evolora_core.searches.adapters.ecology.run import Run

LONGER = 1.1  # rows of a cooldown may be longer than those before it


@dataclass(frozen=True)
class Horizon:
    """So many `generations`, or, if `budget_flops` are given, as many as they pay for. With `arrivals`, families come
    and go in that order, each for an equal share of the generations or of the budget.
    """

    generations: int | None
    budget_flops: int | None = None  # with the pricing, and, until `without`, with the choice of routes
    arrivals: tuple[str, ...] = ()  # none: all families are there all the time

    def without(self, reserve: int) -> "Horizon":
        """The same with so many FLOPs set aside."""
        return self if self.budget_flops is None else replace(self, budget_flops=self.budget_flops - reserve)

    @property
    def phases(self) -> int:
        """How many families come and go; 1 if they are there all the time."""
        return max(len(self.arrivals), 1)

    def there(self, family: str, phase: int) -> bool:
        """Whether a family is there in a phase."""
        return not self.arrivals or family == self.arrivals[phase]

    def limit(self, spent: int, phase: int) -> float | None:
        """FLOPs until the end of a phase, of which `spent` came before the first; None without a budget."""
        if self.budget_flops is None:
            return None
        return spent + (self.budget_flops - spent) * (phase + 1) / self.phases

    def had_its_share(self, generation: int, phase: int) -> bool:
        """Whether a phase has had its generations."""
        assert self.generations is not None, "neither generations nor a budget"
        return generation * self.phases >= self.generations * (phase + 1)


def limit(run: "Run") -> float | None:
    """FLOPs that may be spent until the end of the present family's stay; None without a budget."""
    return run.horizon.limit(run.task.prices.spent, run.state.phase)


def affords(run: "Run", more: float) -> bool:
    """Whether `more` FLOPs and the cooldown after them are within the budget, if there is one."""
    most = limit(run)
    if most is None:
        return True
    updates = run.state.meter.flops("update") - run.state.phase_updates
    cooling = LONGER * run.cooldown * (updates + more)
    ahead = more if run.cooldown else LONGER * more  # a cooldown gives way where a generation took more than planned
    return run.state.meter.total() + ahead + cooling <= most


def phase_over(run: "Run") -> bool:
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


def cooldown_steps(run: "Run") -> int:
    """Learning steps of the cooldown that is due now: a share of the steps made until now, or what is left of a budget.

    A schedule planned to the end would need to know it. Constant first and then a short decay to zero gets nearly as
    far (Hägele et al. 2024, arXiv 2405.18392), and a run can be extended from before the decay.
    """
    state, most = run.state, limit(run)
    steps = run.regime.steps(run.config.plasticity, (state.generation - state.phase_start) * run.cooldown)
    if most is None or not steps or not state.steps:
        return steps
    price = (state.meter.flops("update") - state.phase_updates) / state.steps
    return max(0, int((most - state.meter.total()) / LONGER / price))


def first_generation(run: "Run") -> float:
    """FLOPs of a generation, before there was one: its answers cost what the bare host's do."""
    config = run.config.plasticity
    rows = run.rule.row_cost(config) * config.steps * config.batch_rows
    return run.task.prices.unit_flops * (run.config.episodes + rows)
