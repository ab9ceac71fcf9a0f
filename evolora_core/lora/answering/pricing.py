"""Prices: what an answer costs, what the bare host can do, and with both the exchange rate ρ.

One unit of energy is the mean FLOPs of a bare answer; a correct answer pays ρ units, so that the bare host breaks
even at the stated accuracy: ρ = 1 / break_even_accuracy. Fails early when there is nothing to select on. Batches as
large as those of a run are tried here too, and what of them fits into memory is the plan of the run.
"""

import json
import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from evolora_core.engine import rng
from evolora_core.engine.meter import Meter
from evolora_core.errors import StageError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item, cells_of
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import TOO_LONG, answer_items, charge
from evolora_core.lora.answering.outcome import Manner, Outcome
from evolora_core.lora.answering.practice import Practice
from evolora_core.lora.population.passes import pass_tokens
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import build_batch, gradients_of

log = logging.getLogger(__name__)

LONGER = 1.05  # answers of adapters may be longer than the host's


@dataclass(frozen=True)
class Prices:
    """Measured on the training set, asked as in practice: greedily under the rule `search`, else sampled."""

    unit_flops: float  # FLOPs of a mean answer of the bare host = one unit of energy
    rho: float  # units paid for a correct answer, unless an arm has an economy of its own
    accuracy: dict[str, float]  # "family/depth" -> share of the host's answers that are right
    per_cell: dict[str, int]  # "family/depth" -> answers behind its accuracy
    answers_per_second: float
    batch_rows: int  # the micro-batch plan: answers decoded together,
    pass_share: float  # tokens of a pass, relative to what it usually takes,
    recompute: bool  # whether activations are computed twice,
    paged: bool  # and whether adapters and optimizer states lie in CPU memory
    meter: dict[str, Any] = field(default_factory=dict)  # compute of the pricing itself, which the run starts from

    def save(self, path: Path) -> None:
        """Write as JSON."""
        path.write_text(json.dumps(asdict(self), indent=2), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Prices":
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    @property
    def spent(self) -> int:
        """FLOPs of the pricing itself."""
        return Meter.from_state(self.meter).total()

    def routing_reserve(
        self,
        model: FlopModel,
        items: int,
        ranks: Sequence[int],
        shown: Sequence[float] = (),
        *,
        specialists: bool = False,
    ) -> int:
        """FLOPs to set aside for choosing routes: the host and adapters of these ranks answer every item, and again
        for every number of examples that they show. `shown` are the FLOPs of the host's answer after so many.

        What answers every item shows its examples twice, with the family told and untold. Of `specialists`, all ranks
        but the last, each shows them once, to its family, and one in one way is asked twice about every item; the last
        rank is of their sum, which shows nothing.

        Answers without examples at the mean cost, dearer by the adapters' own arithmetic, and a little more for longer
        answers. An arm does not spend what is set aside and not needed.
        """
        dear = [model.dearness(rank) for rank in ranks]
        if specialists:
            showing = sum(dear[:-1]) * sum(shown) + 2 * dear[0] * max(shown, default=0.0)
        else:
            showing = 2 * sum(dear) * sum(shown)
        return round(LONGER * items * (self.unit_flops * (1 + sum(dear)) + showing))

    def plan(self, host: Host) -> None:
        """Set the host's batch sizes to those that fitted into memory."""
        plan = host.memory_plan
        plan.rows, plan.share = self.batch_rows, self.pass_share
        plan.recompute, plan.paged = self.recompute, self.paged

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table `calibration`."""
        rows = [
            {"key": "unit_flops", "value": self.unit_flops, "note": "FLOPs of a mean answer of the bare host"},
            {"key": "rho", "value": self.rho, "note": "units of energy paid for a correct answer"},
            {"key": "answers_per_second", "value": self.answers_per_second, "note": "bare host, this machine"},
            {"key": "batch_rows", "value": float(self.batch_rows), "note": "answers decoded together"},
            {"key": "pass_share", "value": self.pass_share, "note": "tokens of a pass, relative to the usual"},
            {"key": "recompute", "value": float(self.recompute), "note": "1: activations computed twice in training"},
            {"key": "paged", "value": float(self.paged), "note": "1: adapters and optimizer states in CPU memory"},
        ]
        return rows + [
            {"key": f"accuracy {cell}", "value": value, "note": "answers of the bare host, asked as in practice"}
            for cell, value in self.accuracy.items()
        ]


def answers_per_cell(items: Sequence[Item], practice: Practice) -> dict[tuple[str, str], int]:
    """Answers to items of each (family, depth) cell that are priced. A greedy answer is the same every time, so that
    no item is asked twice.
    """
    wanted = max(1, practice.answers // len(cells_of(items)))
    sizes = Counter((item.family, item.depth) for item in items)
    return {cell: wanted if practice.temperature else min(wanted, size) for cell, size in sorted(sizes.items())}


def price(host: Host, items: Sequence[Item], practice: Practice, decoding: DecodingConfig, seed: int) -> Prices:
    """Let the bare host answer a sample of the training set. Raises StageError when rewards cannot vary: of sampled
    answers none is right, or of any answers all (where greedy answers are all wrong, a search may find right ones); and
    when no prompt of a family fits the host's context.
    """
    counts = answers_per_cell(items, practice)
    draw = rng.stream(seed, 0, 0, "calibrate")
    chosen: list[Item] = []
    for cell, count in counts.items():
        members = [item for item in items if (item.family, item.depth) == cell]
        chosen += [members[i] for i in draw.choice(len(members), size=count, replace=len(members) < count)]
    started = time.perf_counter()
    outcomes = answer_items(
        host,
        None,
        chosen,
        np.full(len(chosen), HOST),
        Manner(
            temperatures=practice.temperature,
            keys=rng.row_keys(rng.key(seed, 0, 0, "calibrate"), len(chosen)),
        ),
        decoding=decoding,
    )
    seconds = time.perf_counter() - started
    unasked = sum(outcome.grade == TOO_LONG for outcome in outcomes)
    if unfit := _unfit(host, items, outcomes, decoding):  # its practice would cost nothing, and never end
        raise StageError(
            f"calibrate: of the prompts of {', '.join(unfit)} none fits the host's {host.max_context} tokens with an "
            f"answer of {decoding.max_new_tokens}; lower decoding.max_new_tokens, or leave such families out of "
            "data.train_families"
        )
    if unasked:
        log.warning(
            "calibrate: %d of %d prompts with an answer of %d tokens do not fit the host's %d tokens and count as "
            "wrong; lower decoding.max_new_tokens", unasked, len(outcomes), decoding.max_new_tokens, host.max_context,
        )  # fmt: skip
    right = np.array([outcome.grade.correct for outcome in outcomes])
    if not right.any():
        none = f"calibrate: the host answered none of {len(chosen)} training items correctly"
        mend = "choose easier families or depths, or a stronger host"
        if practice.temperature:
            raise StageError(f"{none}, so rewards cannot vary; {mend}")
        log.warning("%s; where a search finds no right answer either, %s", none, mend)
    if right.all():
        raise StageError(
            f"calibrate: the host answered all of {len(chosen)} training items correctly, so nothing can be learned; "
            "choose harder families or depths"
        )
    flops = np.array([outcome.flops for outcome in outcomes], dtype=np.float64)
    meter = Meter()
    charge(meter, "calibration", outcomes, seconds)
    _try_training(host, items, practice, decoding, meter)
    names, sizes = [f"{family}/{depth}" for family, depth in counts], np.array([*counts.values()])
    by_cell = np.split(right, np.cumsum(sizes)[:-1])
    return Prices(
        unit_flops=float(np.average(flops, weights=np.repeat(sizes.max() / sizes, sizes))),  # all cells count alike
        rho=1 / practice.break_even_accuracy,
        accuracy={name: float(own.mean()) for name, own in zip(names, by_cell, strict=True)},
        per_cell=dict(zip(names, sizes.tolist(), strict=True)),
        answers_per_second=len(outcomes) / seconds,
        batch_rows=min(decoding.batch_rows, host.memory_plan.rows),
        pass_share=host.memory_plan.share,
        recompute=host.memory_plan.recompute,
        paged=host.memory_plan.paged,
        meter=meter.state(),
    )


def _unfit(host: Host, items: Sequence[Item], outcomes: Sequence[Outcome], decoding: DecodingConfig) -> list[str]:
    """The families of which no prompt fits, by name; all of them where no sampled one does."""
    known = {outcome.item.family for outcome in outcomes if outcome.grade != TOO_LONG}
    others = [item for item in items if item.family not in known]
    fit: set[str] = set()
    if known:
        prompts, room = (
            host.encode_prompts([item.prompt for item in others]),
            host.max_context - decoding.max_new_tokens,
        )
        fit = {item.family for item, ids in zip(others, prompts, strict=True) if len(ids) <= room}
    return sorted({item.family for item in others} - fit)


def _crowded(host: Host, practice: Practice) -> bool:
    """Whether a whole population with gradients, both moments and as many elites would take more than half of what an
    accelerator has free.
    """
    device = host.model.device
    if device.type != "cuda":
        return False
    row = Population.empty(host, 0, practice.rank).weights
    wanted = 5 * practice.slots * row.shape[1] * row.element_size()
    return wanted > torch.cuda.mem_get_info(device)[0] / 2


def _try_training(
    host: Host, items: Sequence[Item], practice: Practice, decoding: DecodingConfig, meter: Meter
) -> None:
    """A training pass as large as a run's, over the longest items and with a whole population. A pass that does not fit
    is made smaller, and the host keeps that size. (Answers were tried before: those of the bare host.)
    """
    host.memory_plan.paged = _crowded(host, practice)
    population = Population.empty(host, practice.population, practice.rank, scale=practice.scale)
    for slot in range(practice.population):
        population.init_slot(slot, population.max_rank, rng.stream(0, 0, slot, "try training"))
    started = time.perf_counter()
    prompts = sorted(host.encode_prompts([item.prompt for item in items]), key=len)
    prompts = [ids for ids in prompts if len(ids) + decoding.max_new_tokens <= host.max_context]
    rows = min(practice.batch_rows, pass_tokens(host) // len(prompts[-1]) + 1)
    own = prompts[-rows:]
    answers = [[host.pad_id] * decoding.max_new_tokens for _ in own]
    slots = np.arange(len(own)) % practice.population
    gradients_of(host, population, build_batch(host, own, answers, slots, np.ones(len(own))))
    new = np.full(len(own), decoding.max_new_tokens)
    lengths = new + [len(prompt) for prompt in own]
    spent = FlopModel.from_model(host.model).train_flops(lengths, new, np.full(len(own), population.max_rank))
    seconds = time.perf_counter() - started
    meter.add("calibration", flops=round(spent.sum()), tokens=int(lengths.sum()), seconds=seconds)
