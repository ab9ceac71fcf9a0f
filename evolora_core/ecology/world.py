"""The constants of a run: host, items and prices. Nothing here changes during a run."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from evolora_core import rng
from evolora_core.archive import Archive
from evolora_core.ecology.calibration import Calibration
from evolora_core.ecology.events import empty_events
from evolora_core.ecology.ledger import MICRO, SUN, Ledger, micro
from evolora_core.ecology.state import Organelle, State, cells_of, slots_needed
from evolora_core.families.base import Item
from evolora_core.families.registry import gold
from evolora_core.flops import FlopModel
from evolora_core.hosts.host import Host
from evolora_core.language.decoding import DecodingConfig
from evolora_core.meter import Meter
from evolora_core.plasticity import RULES, Buffer, Rule
from evolora_core.population.stack import Population
from evolora_core.population.train import StackedAdamW
from evolora_core.searches.adapters.settings.ecology import EcologyConfig

PRIOR = 8  # answers that the bare host's accuracy counts for in a skill
FLOOR = 0.02  # gain in accuracy that everyone is credited with


@dataclass(frozen=True)
class World:
    """The constants of one run. `mode` is `ecology`, or `single`: one organelle, same rule, no bankruptcy."""

    host: Host
    items: list[Item]
    config: EcologyConfig
    decoding: DecodingConfig
    seed: int
    calibration: Calibration
    mode: str
    budget_flops: int | None = None  # what may be spent before routes are chosen, if not on so many generations
    arrivals: tuple[str, ...] = ()  # families in the order in which they come and go; none: all are there all the time

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
    def prompts(self) -> list[list[int]]:
        """Token ids of every item's prompt."""
        return self.host.encode_prompts([item.prompt for item in self.items])

    @cached_property
    def gold_tokens(self) -> list[tuple[int, ...]]:
        """Gold answers without EOS; empty for a rule that may not see them."""
        if not self.rule.sees_gold:
            return [()] * len(self.items)
        return [tuple(ids[:-1]) for ids in self.host.encode_answers([gold(item) for item in self.items])]

    @property
    def rule(self) -> Rule:
        """The plasticity rule."""
        return RULES[self.config.plasticity.rule]

    @property
    def cooldown(self) -> float:
        """Steps after the last generation relative to those before it."""
        return self.config.plasticity.cooldown if self.rule.rehearses else 0.0

    @cached_property
    def host_accuracy(self) -> np.ndarray:
        """Accuracy of the bare host's samples per cell `[cells]`, from calibration, as graded by the run's verifier,
        which may err.
        """
        accuracy = np.array([self.calibration.accuracy[f"{family}/{depth}"] for family, depth in self.cells])
        return accuracy + self.config.verifier_error * (1 - 2 * accuracy)

    @property
    def reward(self) -> int:
        """Micro-energy ρ of a correct answer."""
        return micro(self.config.economy.rho)

    def energy(self, flops: float) -> int:
        """Micro-energy that some FLOPs cost."""
        return round(flops / self.calibration.unit_flops * MICRO)

    def stream(self, generation: int, slot: int, role: str) -> np.random.Generator:
        """A random stream of this run; the two modes have streams of their own."""
        return rng.stream(self.seed, generation, slot, role, self.mode)

    def rate(self, state: State, organelle: Organelle) -> float:
        """Learning rate of an organelle in the present generation, AdamW's or the Hebbian rule's. A family that
        arrives begins at the full rate.
        """
        plasticity = self.config.plasticity
        first = plasticity.hebbian_rate if self.rule.forward_only else plasticity.learning_rate
        age = state.generation - state.phase_start
        value: float = first * organelle.learning_rate * 0.5 ** (age / plasticity.half_life)
        return value

    def present(self, state: State) -> np.ndarray:
        """Which families are there now: bool `[families]`."""
        return np.array([not self.arrivals or family == self.arrivals[state.phase] for family in self.families])

    def awake(self, state: State) -> list[Organelle]:
        """The living organelles whose niche is there. The others sleep: they neither act nor pay."""
        here = {"", *np.array(self.families)[self.present(state)]}
        return [organelle for organelle in state.living if organelle.niche in here]

    def skill(self, state: State) -> np.ndarray:
        """Posterior success `[slots, cells]`: practice, with the bare host's accuracy as prior."""
        answers, correct = state.practice[..., 0], state.practice[..., 1]
        result: np.ndarray = (correct + PRIOR * self.host_accuracy) / (answers + PRIOR)
        return result

    @cached_property
    def families(self) -> list[str]:
        """The families, sorted."""
        return sorted({family for family, _ in self.cells})

    @cached_property
    def inside(self) -> np.ndarray:
        """Which cells belong to which family: bool `[families, cells]`."""
        return np.array([[own == family for own, _ in self.cells] for family in self.families])

    def _same(self, state: State) -> list[int]:
        """Slots of the living whose weights still are the bare host's."""
        moved = state.population.delta_norms().numpy(force=True) > 0
        return [organelle.slot for organelle in state.living if not moved[organelle.slot]]

    def bare(self, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Accuracy of the bare host per cell, and the answers behind it: from calibration, and from organelles that
        still answer like it. `[cells]` each.
        """
        answers, correct = state.practice[self._same(state)].sum(axis=0).T
        answers = answers + self.calibration.per_cell
        return (correct + self.calibration.per_cell * self.host_accuracy) / answers, answers

    def gain(self, state: State) -> np.ndarray:
        """Skill less the bare host's accuracy, by family: `[slots, families]`."""
        result: np.ndarray = (self.skill(state) - self.bare(state)[0]) @ self.inside.T / self.inside.sum(axis=1)
        return result

    def doubt(self, state: State) -> np.ndarray:
        """Standard error of `gain`: `[slots, families]`."""
        skill, (bare, answers) = self.skill(state), self.bare(state)
        variance = skill * (1 - skill) / (state.practice[..., 0] + PRIOR) + bare * (1 - bare) / answers
        result: np.ndarray = np.sqrt(variance @ self.inside.T) / self.inside.sum(axis=1)
        return result

    def promise(self, state: State) -> np.ndarray:
        """Gain that practice may have brought, with one standard error added, and at least FLOOR: `[slots, families]`.

        Learning progress (Oudeyer et al. 2007) over the whole run: over one generation it drowns in noise. Optimism
        keeps a family from starving after a few unlucky answers: its practice fades, and the doubt grows again. A
        learner that is worse than the host beyond doubt has its way back to go, and promises as much as one that is
        better (absolute learning progress, Portelas et al. 2019): with few rows it would stay there.
        """
        hoped = self.gain(state) + self.doubt(state)
        learners = [organelle.slot for organelle in state.living if organelle.lessons]
        hoped[learners] = np.abs(hoped[learners])
        result: np.ndarray = np.maximum(hoped, FLOOR)
        return result

    def interest(self, state: State) -> np.ndarray:
        """The best promise of the living in the family of each cell, 0 where that is not there: `[cells]`."""
        slots = [organelle.slot for organelle in state.living]
        best = np.ones(len(self.families)) if self.uniform else self.promise(state)[slots].max(axis=0)
        result: np.ndarray = (best * self.present(state)) @ self.inside
        return result

    @property
    def uniform(self) -> bool:
        """Whether every organelle gets equally many items and rows, and cells are drawn evenly."""
        return self.config.economy.allocation == "uniform"

    def credit(self, state: State) -> np.ndarray:
        """What each organelle is worth to its niche: its promise there, and at least a little.

        Episodes and training rows are shared out in proportion to it. `[slots]`; 0 for empty slots. An
        organelle whose weights still are the host's has no gain, whatever its luck.
        """
        credit, promise, same = np.zeros(len(state.practice)), self.promise(state), self._same(state)
        for organelle in state.living:
            known = organelle.niche and organelle.slot not in same and not self.uniform
            credit[organelle.slot] = promise[organelle.slot, self.families.index(organelle.niche)] if known else FLOOR
        return credit


def found(world: World) -> State:
    """Generation 0: founders of mixed ranks, each with a niche, endowed by the sun."""
    config, single = world.config, world.mode == "single"
    slots = 1 if single else slots_needed(config)
    families = world.families
    top = max(config.ranks)
    dealt = sorted(config.ranks, reverse=True)
    population = Population.empty(world.host, slots, top, scale=config.scale)
    ranks = sorted(set(config.ranks))  # a cost bin for each: what an answer costs is decided by the rank
    edges = [(world.flops.dearness(lower) + world.flops.dearness(upper)) / 2 for lower, upper in pairwise(ranks)]
    archive = Archive(world.cells, edges)
    ledger = Ledger()
    organelles = []
    for i in range(1 if single else config.population):
        draw = world.stream(0, i, "founder")
        # A turn for each niche: dealt over all founders, with as many ranks as families a niche would have one rank.
        rank = top if single else dealt[i // len(families) % len(dealt)]
        spread = 0.0 if single else config.variation.trait_sigma
        organelles.append(
            Organelle(
                id=i,
                slot=i,
                rank=rank,
                origin="founder",
                born=0,
                niche="" if single else families[i % len(families)],
                learning_rate=float(np.exp(spread * draw.standard_normal())),
                temperature=float(config.temperature * np.exp(spread * draw.standard_normal())),
            )
        )
        population.init_slot(i, rank, draw)
        ledger.post(0, "endowment", SUN, str(i), micro(config.economy.endowment))
    prior = world.host_accuracy
    events, meter = empty_events(), Meter.from_state(world.calibration.meter)
    events["ledger"] += ledger.drain()
    return State(
        generation=0,
        organelles=organelles,
        population=population,
        optimizer=StackedAdamW(population, weight_decay=config.plasticity.weight_decay),
        elites=Population.empty(world.host, archive.size, top, scale=config.scale),
        archive=archive,
        ledger=ledger,
        buffers={organelle.id: Buffer() for organelle in organelles},
        practice=np.zeros((slots, len(world.cells), 2)),
        curriculum=np.stack([prior, prior], axis=1),
        baselines=world.inside @ prior / world.inside.sum(axis=1),
        meter=meter,
        events=events,
        phase_updates=meter.flops("update"),
    )
