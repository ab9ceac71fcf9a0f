"""What a run is about: host, items, decoding, prices. Nothing of it changes or depends on how the run evolves."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item, cells_of
from evolora_core.language.families.registry import gold
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.pricing import Prices
from evolora_core.searches.adapters.ecology.ledger import MICRO


@dataclass(frozen=True)
class Task:
    """`items` are practised on; `selection` chooses the routes at the end."""

    host: Host
    items: Sequence[Item]
    selection: Sequence[Item]
    decoding: DecodingConfig
    seed: int
    prices: Prices

    @cached_property
    def flops(self) -> FlopModel:
        """FLOPs of the host and its adapters."""
        return FlopModel.from_model(self.host.model)

    @cached_property
    def cells(self) -> list[tuple[str, str]]:
        """The (family, depth) cells, sorted; their numbers are used everywhere else."""
        return cells_of(self.items)

    @cached_property
    def cell_of(self) -> np.ndarray:
        """Cell number of each item `[items]`."""
        number = {cell: i for i, cell in enumerate(self.cells)}
        return np.array([number[item.family, item.depth] for item in self.items])

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Item numbers of each cell."""
        return [np.flatnonzero(self.cell_of == cell) for cell in range(len(self.cells))]

    def members_of(self, family: str) -> np.ndarray:
        """Item numbers of a family, over all depths."""
        return np.concatenate([self.members[i] for i, (own, _) in enumerate(self.cells) if own == family])

    @cached_property
    def families(self) -> list[str]:
        """The families, sorted."""
        return sorted({family for family, _ in self.cells})

    @cached_property
    def inside(self) -> np.ndarray:
        """Which cells belong to which family: bool `[families, cells]`."""
        return np.array([[own == family for own, _ in self.cells] for family in self.families])

    @cached_property
    def prompts(self) -> list[list[int]]:
        """Token ids of every item's prompt."""
        return self.host.encode_prompts([item.prompt for item in self.items])

    @cached_property
    def gold_tokens(self) -> list[tuple[int, ...]]:
        """Gold answers without EOS."""
        return [tuple(ids[:-1]) for ids in self.host.encode_answers([gold(item) for item in self.items])]

    def fits(self, item: int, answer: Sequence[int]) -> bool:
        """Whether an item with this answer (token ids without EOS) is within the host's context."""
        return len(self.prompts[item]) + len(answer) + 1 <= self.host.max_context

    def host_accuracy(self, error: float) -> np.ndarray:
        """Accuracy of the bare host's samples per cell `[cells]`, from pricing, as a verifier grades them that errs
        with probability `error`.
        """
        accuracy = np.array([self.prices.accuracy[f"{family}/{depth}"] for family, depth in self.cells])
        return accuracy + error * (1 - 2 * accuracy)

    def energy(self, flops: float) -> int:
        """Micro-energy that some FLOPs cost."""
        return round(flops / self.prices.unit_flops * MICRO)
