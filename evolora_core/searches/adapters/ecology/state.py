"""The state of an ecology between two generations, and every way in which it changes.

All of it is committed, so that a resumed run is the same run. Random streams need no state (rng.py derives them), and
wall-clock time is not part of it. Who lives, learns and remembers changes by the methods here alone. The engine's
learning steps write the weights of `population` in place; charges and rows of tables are entered where they arise, in
`ledger`, `meter` and `events`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from evolora_core.engine.archive import Archive, Elite
from evolora_core.engine.meter import Meter
from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import resize
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import StackedAdamW
from evolora_core.searches.adapters.ecology.events import Events, Row
from evolora_core.searches.adapters.ecology.ledger import SINK, Ledger
from evolora_core.searches.adapters.ecology.memories import Buffer, Memory
from evolora_core.searches.adapters.ecology.organelle import Birth, Organelle


@dataclass
class State:
    """One ecology."""

    generation: int
    organelles: list[Organelle]  # by id, the dead too
    population: Population
    optimizer: StackedAdamW
    elites: Population
    archive: Archive
    ledger: Ledger
    buffers: dict[int, Buffer]  # of the living
    practice: np.ndarray  # [slots, cells, 3] answers and right ones, which fade; answers of its own since its birth
    curriculum: np.ndarray  # [cells, 2] fast and slow success averages
    baselines: np.ndarray  # [families] running mean reward, which the rule `hebbian` compares with
    meter: Meter
    events: Events = field(default_factory=Events)
    extinct: bool = False
    phase: int = 0  # how many families have come and gone, if they arrive one after another
    phase_start: int = 0  # generation in which the phase began
    phase_updates: int = 0  # FLOPs of updates before it
    departures: list[int] = field(default_factory=list)  # FLOPs of the run when each family that has gone went
    steps: int = 0  # of the learners since it began, of each where several of a niche learn
    # FLOPs of the last generation without tests of pairs, which are made only if the budget pays for them
    last_flops: int = 0

    # Who lives

    @property
    def living(self) -> list[Organelle]:
        """Organelles that are alive, by id."""
        return [organelle for organelle in self.organelles if organelle.alive]

    def free_slots(self) -> list[int]:
        """Slots of the population that no living organelle uses, in order."""
        used = {organelle.slot for organelle in self.living}
        return [slot for slot in range(len(self.practice)) if slot not in used]

    def moved(self) -> np.ndarray:
        """Which slots hold weights that are not the bare host's any more: bool `[slots]`."""
        moved: np.ndarray = self.population.delta_norms().numpy(force=True) > 0
        return moved

    def seat(self, adapter: Adapter) -> int:
        """Put an adapter into a free slot as a candidate to be born; returns the slot."""
        slot = self.free_slots()[0]
        self.population.put(slot, adapter)
        return slot

    def vacate(self, slot: int) -> None:
        """Empty the slot of an adapter that is not born."""
        self.population.clear(slot)

    def bear(self, slot: int, birth: Birth, memories: int) -> Organelle:
        """Enter the adapter that stands in `slot` as a new organelle: endowed by its payers, heir of its parents'
        memories, `memories` of them at most.
        """
        parents = [parent for parent, _ in birth.parents]
        child = Organelle(
            id=len(self.organelles),
            slot=slot,
            rank=int(self.population.ranks[slot]),
            origin=birth.origin,
            born=self.generation,
            niche=parents[0].niche,
            learning_rate=birth.traits.learning_rate,
            temperature=birth.traits.temperature,
            parents=tuple(parent.id for parent in parents),
        )
        self.organelles.append(child)
        payers = [str(payer.id) for payer in birth.payers]
        self.ledger.split(self.generation, "birth", payers, str(child.id), birth.endowment)
        inherited = Buffer()
        for parent in parents:
            inherited = inherited.merged(self.buffers.get(parent.id, Buffer()), memories)
        self.buffers[child.id] = inherited
        # A child's skill is not known yet: it starts from half the evidence of its living parents.
        living = [self.practice[parent.slot] for parent in parents if self.organelles[parent.id].alive]
        self.practice[slot] = 0.0
        if living:
            self.practice[slot, :, :2] = 0.5 * np.mean(living, axis=0)[:, :2]
        self.optimizer.reset(slot)
        self._descend(child, [("parent", parent, weight) for parent, weight in birth.parents])
        self._descend(child, [("sponsor", payer, 0.0) for payer in birth.payers if payer.id not in child.parents])
        return child

    def add_sum(self, host: Host, adapter: Adapter, parents: Sequence[Organelle], weight: float) -> Organelle:
        """Enter an adapter that was made of `parents` after the last generation, whatever its rank, in a slot of its
        own at the end of the population. It has all niches, and no account.
        """
        self.population = self.population.joined_by(host, adapter)
        child = Organelle(
            id=len(self.organelles),
            slot=self.population.capacity - 1,
            rank=adapter.rank,
            origin="merge",
            born=self.generation,
            niche="",
            learning_rate=parents[0].learning_rate,
            temperature=parents[0].temperature,
            parents=tuple(parent.id for parent in parents),
        )
        self.organelles.append(child)
        self._descend(child, [("parent", parent, weight) for parent in parents])
        return child

    def adopt(
        self, heir: Organelle, adapter: Adapter, parents: Sequence[tuple[Organelle, float]], *, seed: int
    ) -> None:
        """Give an organelle that has learned nothing yet the weights of an adapter, in its own rank. `parents` are
        (organelle, weight in the adapter's ΔW); `seed` is of rows that a larger rank brings.
        """
        self.population.put(heir.slot, resize(adapter, heir.rank, seed=seed))
        self.optimizer.reset(heir.slot)
        self._descend(heir, [("donor", parent, weight) for parent, weight in parents])

    def retire(self, organelle: Organelle, cause: str) -> None:
        """End an organelle. The sink takes what is left on its account, or pays what is missing."""
        name = str(organelle.id)
        left = self.ledger.balance(name)
        if left > 0:
            self.ledger.post(self.generation, "estate", name, SINK, left)
        elif left < 0:
            self.ledger.post(self.generation, "default", SINK, name, -left)
        dead = self._change(organelle, died=self.generation, cause=cause)
        self.events.add("dead", [dead.row()])
        self.buffers.pop(organelle.id, None)
        self.population.clear(organelle.slot)
        self.practice[organelle.slot] = 0

    def drop_broken(self) -> None:
        """Retire every organelle whose weights are not finite."""
        norms = self.population.delta_norms()
        for organelle in self.living:
            if not torch.isfinite(norms[organelle.slot]):
                self.retire(organelle, "not finite")

    # What becomes of them

    def admit(self, organelle: Organelle, ticket: int) -> Organelle:
        """Let an organelle take part in the generation: it pays, and its strikes are forgotten."""
        self.ledger.post(self.generation, "ticket", str(organelle.id), SINK, ticket)
        return self._change(organelle, strikes=0)

    def strike(self, organelle: Organelle, most: int) -> None:
        """Note that an organelle could not pay for its ticket; with `most` strikes in a row it retires."""
        if organelle.strikes + 1 >= most:
            self.retire(organelle, "bankrupt")
        else:
            self._change(organelle, strikes=organelle.strikes + 1)

    def teach(self, organelle: Organelle) -> Organelle:
        """Record that an organelle takes learning steps in this generation."""
        return self._change(organelle, learned=self.generation, lessons=organelle.lessons + 1)

    def succeed(self, child: Organelle, elders: Sequence[Organelle]) -> Organelle:
        """Let a child take the place of the elder of its parents that learns for its niche."""
        return self._change(child, learned=self.generation, lessons=max(elder.lessons for elder in elders))

    def inherit_place(self, child: Organelle, winner: Organelle) -> Organelle:
        """Let a copy take the winner's place as a learner, with its optimizer's moments and its count of lessons."""
        self.optimizer.copy(winner.slot, child.slot)
        return self.succeed(child, [winner])

    def forget(self, organelle: Organelle) -> Organelle:
        """Take away the memories and the evidence of skill that an organelle was born with."""
        self.buffers[organelle.id] = Buffer()
        self.practice[organelle.slot] = 0.0
        return organelle

    def elect(self, cell: int, cost: float, organelle: Organelle, objective: float) -> None:
        """Enter an organelle in the archive if it is the best of its (family, depth) cell among those whose answers
        cost about as much, relative to the bare host's; with its weights, if children may be made of them.
        """
        index = self.archive.index(cell, cost)
        if self.archive.add(index, Elite(organelle.id, objective)) and self.elites.capacity:
            self.elites.weights[index] = self.population.weights[organelle.slot]
            self.elites.ranks[index] = self.population.ranks[organelle.slot]

    # What they remember

    def remember(self, organelle: Organelle, memory: Memory, limit: int) -> None:
        """Let an organelle remember an answer; it forgets the oldest beyond `limit`."""
        self.buffers[organelle.id].add(memory, limit)

    def sell(
        self, seller: Organelle, memory: Memory, price: int, limit: int, living: Sequence[Organelle], *, kept: int
    ) -> None:
        """Sell a memory to every living organelle in the seller's niche that lacks it, and that has `kept` left when it
        has paid.
        """
        for buyer in living:
            wanted = buyer.niche == seller.niche and buyer.id != seller.id and memory not in self.buffers[buyer.id]
            if wanted and self.ledger.balance(buyer.id) >= price + kept:
                self.ledger.post(self.generation, "sale", str(buyer.id), str(seller.id), price)
                self.remember(buyer, memory, limit)

    # What is observed of them

    def fade(self, cells: np.ndarray, share: float) -> None:
        """Let the evidence of skill in some cells (bool `[cells]`) lose a share of its weight."""
        self.practice[:, cells, :2] *= 1 - share

    def observe(self, organelle: Organelle, cell: int, correct: Sequence[bool]) -> None:
        """Count answers of an organelle as evidence of its skill."""
        self.practice[organelle.slot, cell] += (len(correct), sum(correct), len(correct))

    def follow(self, success: Mapping[int, Sequence[bool]], fast: float) -> None:
        """Move the success averages of cells towards a generation's answers there, the slow one by a quarter."""
        step = np.array([fast, fast / 4])
        for cell, results in success.items():
            self.curriculum[cell] += step * (np.mean(results) - self.curriculum[cell])

    def expect(self, asked: np.ndarray, means: np.ndarray, step: float) -> None:
        """Move the running mean rewards of the families in `asked` (bool `[families]`) towards `means` `[asked]`."""
        self.baselines[asked] += step * (means - self.baselines[asked])

    def settle(self) -> list[Row]:
        """Enter the postings since the last call in the table `ledger`; returns them."""
        postings = self.ledger.drain()
        self.events.add("ledger", postings)
        return postings

    # How time passes

    def arrive(self) -> None:
        """Begin the phase of the next family, and drop all memories of the one before: nothing is replayed."""
        self.departures.append(self.meter.total())
        self.phase += 1
        self.phase_start, self.phase_updates, self.steps = self.generation, self.meter.flops("update"), 0
        self.buffers = {number: Buffer() for number in self.buffers}

    def foresee(self, dearer: float) -> None:
        """Expect the next generation to cost so many times what the last one did."""
        self.last_flops = round(self.last_flops * dearer)

    def count_step(self, crowd: int = 1) -> None:
        """Count one step of all learners as `crowd` steps, one for each learner of a niche."""
        self.steps += crowd

    def close(self) -> None:
        """Mark the run as extinct if its cooldown left no organelle with finite weights."""
        self.extinct = not self.living

    def pass_generation(self, flops: int) -> None:
        """End a generation that cost so much without its tests of pairs."""
        self.last_flops = flops
        self.extinct = not self.living
        self.generation += 1

    def _change(self, organelle: Organelle, **changes: object) -> Organelle:
        """Replace fields of one organelle."""
        changed = replace(organelle, **changes)  # type: ignore[arg-type]
        self.organelles[organelle.id] = changed
        return changed

    def _descend(self, child: Organelle, roles: Sequence[tuple[str, Organelle, float]]) -> None:
        """Log where a child comes from: (role, who, weight in its ΔW)."""
        self.events.add(
            "lineage",
            [
                {"child": child.id, "parent": other.id, "role": role, "generation": self.generation, "weight": weight}
                for role, other, weight in roles
            ],
        )
