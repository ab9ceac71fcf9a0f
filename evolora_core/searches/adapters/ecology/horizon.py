"""How long a run lasts."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Horizon:
    """So many `generations`, or, if `budget_flops` are given, as many as they pay for. With `arrivals`, families come
    and go in that order, each for an equal share of the generations, or for its share of the budget.
    """

    generations: int | None
    budget_flops: int | None = None  # with the pricing, and, until `without`, with the choice of routes
    arrivals: tuple[str, ...] = ()  # none: all families are there all the time
    shares: tuple[float, ...] = ()  # of the budget, one for each arrival; none: equal ones

    def without(self, reserve: int) -> "Horizon":
        """The same with so many FLOPs set aside."""
        return self if self.budget_flops is None else replace(self, budget_flops=self.budget_flops - reserve)

    def leaving(self, share: float) -> "Horizon":
        """The same horizon with a part of its budget set aside: `share` of what is left to spend."""
        if self.budget_flops is None or not share:
            return self
        return replace(self, budget_flops=int(self.budget_flops / (1 + share)))

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
        share = sum(self.shares[: phase + 1]) if self.shares else (phase + 1) / self.phases
        return spent + (self.budget_flops - spent) * share

    def had_its_share(self, generation: int, phase: int) -> bool:
        """Whether a phase has had its generations."""
        assert self.generations is not None, "neither generations nor a budget"
        return generation * self.phases >= self.generations * (phase + 1)
