"""Evolution strategies on one adapter, from rewards alone: perturbations of its factors, answering at once.

With mirrored pairs, Salimans et al. 2017 (arXiv 1703.03864): Adam takes the steps; its rate falls to zero as the budget
is spent. Moving to the best one instead is random search: a (1+λ)-ES whose parent answers the same new items in every
step. A perturbation of LoRA factors is low-rank in ΔW, as in EGGROLL (Sarkar et al. 2025, arXiv 2511.16652), so a whole
generation of them is one population of the engine.
"""

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from evolora_core.engine import artifacts, commits, rng
from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.errors import Unaffordable
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import answer_items, charge
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.population.mirrored import slope
from evolora_core.lora.population.peft_io import export_peft
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import StackedAdamW
from evolora_core.searches.adapters.rivals.fitting import fitting_items
from evolora_core.searches.adapters.settings.es import EsSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EsResult:
    """An adapter in `folder/adapter` (PEFT format), what it cost, and a row of facts for each step."""

    adapter_folder: Path
    meter: Meter
    steps: list[dict[str, float]]


def train_es(
    host: Host,
    items: Sequence[Item],
    config: EsSettings,
    *,
    budget_flops: int,
    seed: int,
    folder: Path,
    decoding: Decoding,
    progress: Progress = silent,
) -> EsResult:
    """Steps until another could overspend `budget_flops`. A killed run goes on from its last commit in `folder/.work`;
    remove it if you want a fresh run. Raises Unaffordable if the budget pays for no step.
    """
    items, _ = fitting_items(host, items, decoding, "es")
    first = _dearest(host, _asked(items, config, seed, 0), config, decoding)
    if first > budget_flops:
        raise Unaffordable(
            f"es: the budget of {max(0, budget_flops):.3g} FLOPs, the choice of routes apart, does not pay for one "
            f"step of {2 * config.pairs} x {config.items} answers ({first:.3g} FLOPs); raise ecology.generations or "
            "ecology.episodes, or lower es.pairs or es.items"
        )
    base = Population.empty(host, 1, config.rank, scale=config.scale)
    base.init_slot(0, config.rank, rng.stream(seed, 0, 0, "es"))
    optimizer = StackedAdamW(base)
    tried = Population.empty(host, 2 * config.pairs, config.rank, scale=config.scale)
    tried.ranks[:] = config.rank
    work = folder / ".work"
    meter, steps = _resume(base, optimizer, work)
    saved, committed = time.monotonic(), len(steps)
    while meter.total() + _dearest(host, _asked(items, config, seed, len(steps)), config, decoding) <= budget_flops:
        step = len(steps)
        started, before, known = time.perf_counter(), meter.total(), _tokens(meter)
        left = 1 - before / budget_flops
        noise = _noise(base, config, seed, step)
        tried.weights[:] = base.weights + config.sigma * noise
        scores, correct = _scores(host, tried, items, config, decoding, seed, step, meter)
        if config.update == "best":
            base.weights[:] = tried.weights[int(scores.argmax())]  # of equals the first, which is the parent
        elif (ascent := slope(scores, noise[: config.pairs])) is not None:
            optimizer.step(torch.zeros(1, dtype=torch.long), -ascent[None], torch.tensor([config.learning_rate * left]))
        flops = meter.total() - before
        tokens, seconds = _tokens(meter) - known, time.perf_counter() - started
        steps.append({"step": step + 1, "reward": correct, "flops": flops, "tokens": tokens, "seconds": seconds})
        progress(min(meter.total(), budget_flops), budget_flops)
        if time.monotonic() - saved > artifacts.commit_seconds():
            commits.commit(
                work,
                len(steps),
                partial(_save, base, optimizer, meter),
                partial(_append, steps[committed:]),
            )
            saved, committed = time.monotonic(), len(steps)
    export_peft(base.get(0), host, folder / "adapter")
    return EsResult(folder / "adapter", meter, steps)


def _tokens(meter: Meter) -> int:
    return sum(account.tokens for account in meter.accounts.values())


def _noise(base: Population, config: EsSettings, seed: int, step: int) -> Tensor:
    """Standard normal perturbations of every element, `[2 pairs, D]`.

    The second half mirrors the first for a gradient; for the best one all are independent, and the first is none.
    """
    gradient = config.update == "gradient"
    rows = config.pairs if gradient else 2 * config.pairs
    drawn = rng.stream(seed, step, 0, "es noise").standard_normal((rows, base.weights.shape[1]), np.float32)
    noise = np.concatenate([drawn, -drawn]) if gradient else drawn
    if not gradient:
        noise[0] = 0.0
    return torch.from_numpy(noise).to(base.weights)


def _asked(items: Sequence[Item], config: EsSettings, seed: int, step: int) -> list[Item]:
    """The items of one step."""
    draw = rng.stream(seed, step, 0, "es items")
    return [items[i] for i in draw.choice(len(items), size=config.items, replace=config.items > len(items))]


def _dearest(host: Host, asked: Sequence[Item], config: EsSettings, decoding: Decoding) -> int:
    """FLOPs of a step over these items if every answer is as long as it may be."""
    lengths = [len(ids) for ids in host.encode_prompts([item.prompt for item in asked])]
    flops = FlopModel.from_model(host.model).generate_flops(lengths, decoding.max_new_tokens, config.rank)
    return 2 * config.pairs * int(flops.sum())


def _scores(
    host: Host,
    tried: Population,
    items: Sequence[Item],
    config: EsSettings,
    decoding: Decoding,
    seed: int,
    step: int,
    meter: Meter,
) -> tuple[np.ndarray, float]:
    """Mean reward of every perturbation on the same items `[2 pairs]`, and the share of right answers over all."""
    started = time.perf_counter()
    chosen = _asked(items, config, seed, step)
    slots = np.repeat(np.arange(tried.capacity), len(chosen))
    outcomes = answer_items(host, tried, chosen * tried.capacity, slots, decoding=decoding)
    charge(meter, "rollout", outcomes, time.perf_counter() - started)
    correct = np.array([outcome.grade.correct for outcome in outcomes], dtype=np.float32)
    credit = [outcome.grade.score for outcome in outcomes] if config.partial_credit else correct
    scores = np.asarray(credit, dtype=np.float32).reshape(tried.capacity, -1).mean(axis=1)
    return scores, float(correct.mean())


def _save(base: Population, optimizer: StackedAdamW, meter: Meter, folder: Path) -> None:
    """Write what the next step needs."""
    tensors = base.state_dict() | {f"optimizer.{name}": value for name, value in optimizer.state_dict().items()}
    save_file(tensors, folder / "state.safetensors")
    (folder / "meter.json").write_text(json.dumps(meter.state()), encoding="utf-8")


def _append(steps: list[dict[str, float]], folder: Path) -> None:
    """Write the rows of the steps since the last commit."""
    (folder / "steps.json").write_text(json.dumps(steps), encoding="utf-8")


def _resume(base: Population, optimizer: StackedAdamW, work: Path) -> tuple[Meter, list[dict[str, float]]]:
    """Load the last whole commit, if there is one; what it had spent, and the rows of its steps."""
    found = commits.latest(work)
    if found is None:
        return Meter(), []
    tensors = load_file(found.folder / "state.safetensors")
    prefix = "optimizer."
    optimizer.load_state_dict({k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)})
    base.load_state_dict({k: v for k, v in tensors.items() if not k.startswith(prefix)})
    log.info("resumed at step %d", found.number)
    parts = [json.loads((segment / "steps.json").read_text(encoding="utf-8")) for segment in found.segments]
    meter = json.loads((found.folder / "meter.json").read_text(encoding="utf-8"))
    return Meter.from_state(meter), [row for part in parts for row in part]
