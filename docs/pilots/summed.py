"""One adapter for everything, out of a few that learned apart: do weights that are searched for beat the plain sum?

After `evolora run docs/pilots/summed.yaml`, for each of its seeds:

    python docs/pilots/summed.py RUN SHARE ...    # RUN: summed.founders; SHARE: of the run's FLOPs, as 0.1

Every way may spend that share of what the run spent. It chooses on the selection items or learns from what the founders
found; the holdout's answers are printed. A weight belongs to a founder, a layer, and its attention or its MLP.
"""

import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import cma
import numpy as np
import pandas as pd
import torch

from evolora_core.engine.home import home_path
from evolora_core.engine.rng import stream
from evolora_core.language.datasets import read_items
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import add_up
from evolora_core.lora.population.saved import load_population
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import Batch, StackedAdamW, build_batch, gradients_of, train_step
from evolora_core.searches.adapters import finished
from evolora_core.searches.adapters.routing.routes import read_routes

SEEDS = (1600, 1601, 1602)
SUM, SPREAD = 0.85, 0.3  # the weight of the plain sum, where the searches begin, and how far they look at first
ITEMS, ROWS = 96, 32  # selection items that a candidate of a search answers; rows of a learning step
host = load_host("nano")
flops = FlopModel.from_model(host.model)
decoding = DecodingConfig()


@dataclass
class Founders:
    """What a run left: the adapters, the right answers that they found, and the items of its splits."""

    adapters: list[Adapter]
    routes: dict[str, int]  # family -> founder, or the host
    found: list[tuple[int, tuple[int, ...]]]  # item, tokens
    train: list[Item]
    selection: list[Item]
    holdout: list[Item]
    spent: int

    @cached_property
    def prompts(self) -> list[list[int]]:
        """Token ids of the items that were practised."""
        return host.encode_prompts([item.prompt for item in self.train])

    def rows(self, rng: np.random.Generator) -> Batch:
        """A batch of found answers, each as likely as any other, for slot 0."""
        drawn = [self.found[number] for number in rng.integers(len(self.found), size=ROWS)]
        answers = [[*tokens, host.template.end] for _, tokens in drawn]
        return build_batch(host, [self.prompts[item] for item, _ in drawn], answers, [0] * ROWS, np.ones(ROWS))


def read(run: str, seed: int) -> Founders:
    """The founders of a seed."""
    home = home_path()
    entry, _ = finished.find(home, f"{run}.s{seed}")
    folder, data = home / entry.folder, finished.datasets_of(home, entry)
    population, organelles = load_population(host, folder)
    last = max((folder / "checkpoints").glob("g*"))
    buffers = json.loads((last / "state.json").read_text(encoding="utf-8"))["buffers"]
    found = {(item, tuple(tokens)) for own in buffers.values() for item, tokens, _ in own}
    train, selection, holdout = (read_items(data / f"{name}.jsonl") for name in ("train", "selection", "holdout_id"))
    used = pd.read_parquet(folder / "compute.parquet")["flops"].sum()
    apart = {row["slot"] for row in organelles if row["niche"]}  # the run's own sum has all niches
    routes = read_routes(folder, "family").table
    order = sorted(apart & {*routes.values()})
    own = {family: order.index(slot) if slot in apart else HOST for family, slot in routes.items()}
    adapters = [population.get(slot) for slot in order]
    return Founders(adapters, own, sorted(found), train, selection, holdout, int(used))


def held(adapters: Sequence[Adapter]) -> Population:
    """A population of these."""
    population = Population.empty(host, len(adapters), max(adapter.rank for adapter in adapters))
    for slot, adapter in enumerate(adapters):
        population.put(slot, adapter)
    return population


def ask(adapters: Sequence[Adapter], items: Sequence[Item]) -> tuple[np.ndarray, int]:
    """Whether each adapter answers each item rightly `[adapters, items]`, and the FLOPs."""
    slots = np.repeat(range(len(adapters)), len(items))
    outcomes = answer_items(host, held(adapters), list(items) * len(adapters), slots, decoding=decoding)
    right = np.array([outcome.grade.correct for outcome in outcomes]).reshape(len(adapters), len(items))
    return right, sum(outcome.flops for outcome in outcomes)


def places(names: Iterable[str]) -> dict[str, int]:
    """Number of the group of each module: its layer, attention or MLP."""
    groups = {name: name.rsplit(".", 1)[0] for name in names}
    return {name: list(dict.fromkeys(groups.values())).index(group) for name, group in groups.items()}


def weighted(adapters: Sequence[Adapter], weights: np.ndarray) -> Adapter:
    """Σ wᵢg ΔWᵢ of modules of group g, `weights` `[adapters, groups]`, exactly: its rank is the sum of the ranks."""
    group = places(adapters[0].A)
    scale = adapters[0].scale
    return Adapter(
        sum(adapter.rank for adapter in adapters),
        scale,
        {name: torch.cat([adapter.A[name] for adapter in adapters]) for name in group},
        {
            name: torch.cat([a.B[name] * float(w) for a, w in zip(adapters, weights[:, g], strict=True)], dim=1)
            for name, g in group.items()
        },
    )


def shape(founders: Founders) -> tuple[int, int]:
    """Founders and groups."""
    return len(founders.adapters), max(places(founders.adapters[0].A).values()) + 1


def line(founders: Founders, budget: float, rng: np.random.Generator) -> Adapter:
    """One weight for all: the best of eight on as many selection items as the budget allows."""
    options = [np.full(shape(founders), w) for w in np.linspace(0.3, 1.0, 8)]
    candidates = [weighted(founders.adapters, weights) for weights in options]
    price = ask(candidates[:1], founders.selection[:ITEMS])[1] / ITEMS
    count = max(16, min(len(founders.selection), int(budget / price / 8)))
    items = [founders.selection[i] for i in rng.permutation(len(founders.selection))[:count]]
    return candidates[int(ask(candidates, items)[0].mean(axis=1).argmax())]


def by_cma(founders: Founders, budget: float, rng: np.random.Generator) -> Adapter:
    """pycma; it ends at the mean of its distribution."""
    size = math.prod(shape(founders))
    options = {"seed": int(rng.integers(2**31)), "verbose": -9, "CMA_diagonal": True}
    search = cma.CMAEvolutionStrategy([SUM] * size, SPREAD, options)
    while budget > 0:
        asked = search.ask()
        items = [founders.selection[i] for i in rng.permutation(len(founders.selection))[:ITEMS]]
        right, used = ask([weighted(founders.adapters, x.reshape(shape(founders))) for x in asked], items)
        search.tell(asked, (-right.mean(axis=1)).tolist())
        budget -= used
    return weighted(founders.adapters, search.mean.reshape(shape(founders)))


def by_chance(founders: Founders, budget: float, rng: np.random.Generator) -> Adapter:
    """Random search around the plain sum, all on the same items."""
    items = [founders.selection[i] for i in rng.permutation(len(founders.selection))[:ITEMS]]
    best, most = SUM * np.ones(shape(founders)), -1.0
    while budget > 0:
        asked = [SUM + SPREAD * rng.standard_normal(shape(founders)) for _ in range(12)]
        right, used = ask([weighted(founders.adapters, weights) for weights in asked], items)
        if right.mean(axis=1).max() > most:
            best, most = asked[int(right.mean(axis=1).argmax())], float(right.mean(axis=1).max())
        budget -= used
    return weighted(founders.adapters, best)


def by_gradient(founders: Founders, budget: float, rng: np.random.Generator) -> Adapter:
    """Adam on the same weights, on found answers."""
    weights = torch.full(shape(founders), SUM, requires_grad=True)
    optimizer = torch.optim.Adam([weights], lr=0.02)
    group = places(founders.adapters[0].A)
    ends = np.cumsum([adapter.rank for adapter in founders.adapters])
    while budget > 0:
        batch = founders.rows(rng)
        one = held([weighted(founders.adapters, weights.detach().numpy())])
        gradients = gradients_of(host, one, batch)[2]
        slopes = torch.zeros(shape(founders))
        for name, (_, B) in one.factors(gradients).items():
            for number, (adapter, end) in enumerate(zip(founders.adapters, ends, strict=True)):
                slopes[number, group[name]] += (B[0, :, end - adapter.rank : end] * adapter.B[name]).sum()
        weights.grad = slopes
        optimizer.step()
        budget -= flops.train_flops(batch.lengths, batch.answer_lengths, int(ends[-1])).sum()
    return weighted(founders.adapters, weights.detach().numpy())


def rehearse(founders: Founders, budget: float, rng: np.random.Generator, start: Adapter, rate: float) -> Adapter:
    """One adapter goes on from `start` on all found answers, the rate falling to zero."""
    one = held([start])
    optimizer = StackedAdamW(one)
    whole = budget
    while budget > 0:
        batch = founders.rows(rng)
        train_step(host, one, batch, optimizer, torch.tensor([rate * budget / whole]), 1.0)
        budget -= flops.train_flops(batch.lengths, batch.answer_lengths, start.rank).sum()
    return one.get(0)


def fresh(rank: int, rng: np.random.Generator) -> Adapter:
    """An adapter that changes nothing yet."""
    population = Population.empty(host, 1, rank)
    population.init_slot(0, rank, rng)
    return population.get(0)


def rehearse_from_sum(founders: Founders, budget: float, rng: np.random.Generator, rate: float) -> Adapter:
    """One adapter goes on from the plain sum."""
    return rehearse(founders, budget, rng, add_up(founders.adapters, SUM), rate)


def rehearse_from_host(founders: Founders, budget: float, rng: np.random.Generator, rate: float) -> Adapter:
    """One adapter begins anew, with the rank of the plain sum."""
    return rehearse(founders, budget, rng, fresh(add_up(founders.adapters, SUM).rank, rng), rate)


WAYS: dict[str, Callable[[Founders, float, np.random.Generator], Adapter]] = {
    "one weight": line,
    "random": by_chance,
    "cma": by_cma,
    "gradient": by_gradient,
}
for learned in (0.0005, 0.001, 0.002):
    WAYS[f"rehearse from the sum, {learned}"] = partial(rehearse_from_sum, rate=learned)
    WAYS[f"rehearse from the host, {learned}"] = partial(rehearse_from_host, rate=learned)


def answers_by_family(founders: Founders, own: np.ndarray) -> np.ndarray:
    """Whether the founder of each item's family, or the host, answers it rightly; `own` `[founders, items]`."""
    asked = founders.holdout
    host_right = [o.grade.correct for o in answer_items(host, None, asked, [HOST] * len(asked), decoding=decoding)]
    slots = [founders.routes[item.family] for item in asked]
    return np.array([host_right[i] if slot == HOST else own[slot, i] for i, slot in enumerate(slots)])


def main(run: str, *shares: str) -> None:
    """Print a table."""
    rows = []
    for seed in SEEDS:
        founders = read(run, seed)
        made = {("sum", ""): add_up(founders.adapters, SUM)}
        for share in shares:
            for name, way in WAYS.items():
                made[name, share] = way(founders, float(share) * founders.spent, stream(seed, 0, 0, name))
        right = ask([*made.values(), *founders.adapters], founders.holdout)[0]
        rows.append((seed, "a founder a family", "", answers_by_family(founders, right[len(made) :]).mean()))
        rows += [(seed, name, share, row.mean()) for (name, share), row in zip(made, right, strict=False)]
    table = pd.DataFrame(rows, columns=["seed", "way", "share", "right"])
    print(table.pivot(index=["way", "share"], columns="seed", values="right").mul(100).round(1).to_string())


if __name__ == "__main__":
    main(*sys.argv[1:])
