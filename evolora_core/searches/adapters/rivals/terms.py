"""What every rival is given, whatever it does with it: the same items, prices and choice of routes, and a budget."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from evolora_core.engine.progress import Progress
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.answering.pricing import Prices
from evolora_core.searches.adapters.routing.shots import foretold_flops

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """The terms on which rivals compete. `routings` are the routers for which routes are chosen on `selection`."""

    host: Host
    items: Sequence[Item]
    selection: Sequence[Item]
    prices: Prices
    decoding: Decoding
    routings: Sequence[str]
    seed: int
    budget_flops: int
    progress: Progress

    def for_training(self, ranks: Sequence[int], shown: Sequence[int] = (), *, specialists: bool = False) -> int:
        """FLOPs of the budget that choosing routes leaves, if adapters of these ranks are candidates, and show so many
        examples; of `specialists` the last rank is of what answers everything.
        """
        model, cap = FlopModel.from_model(self.host.model), self.decoding.max_new_tokens
        dearer = foretold_flops(self.host, self.selection, self.items, shown, cap)
        reserve: int = self.prices.routing_reserve(model, len(self.selection), ranks, dearer, specialists=specialists)
        return self.budget_flops - reserve

    def tell_overspent(self, spent: int) -> None:
        """Warn where a rival spent more than the budget: its answers may be longer than those set aside for routes."""
        if spent > self.budget_flops:
            share = 100 * (spent / self.budget_flops - 1)
            log.warning("choosing routes took more than was set aside: %.2g %% above the budget", share)
