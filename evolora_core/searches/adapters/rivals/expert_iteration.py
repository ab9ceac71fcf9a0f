"""Expert iteration with one LoRA adapter within a FLOP budget: it samples answers, the verifier keeps the right ones,
TRL's SFTTrainer learns them, and so on.

Anthony et al. 2017 (arXiv 1705.08439); with language models STaR (Zelikman et al. 2022, arXiv 2203.14465) and ReST-EM
(Singh et al. 2023, arXiv 2312.06585). Those two begin each round from the host again; here the adapter goes on, so that
no FLOPs are spent on learning the same thing twice. Every item has one right answer at most in a round, so that easy
items do not outweigh the others.
"""

import json
import logging
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from evolora_core.engine import rng
from evolora_core.engine.artifacts import write_json
from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, part_of, silent
from evolora_core.errors import DataError, Unaffordable
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import answer_items, charge
from evolora_core.lora.answering.outcome import Decoding, Manner
from evolora_core.lora.population.peft_io import export_peft, import_peft
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.labels import Given, labelled, solved
from evolora_core.searches.adapters.rivals.fitting import fitting_items
from evolora_core.searches.adapters.rivals.sft import SftResult, train_sft
from evolora_core.searches.adapters.routing.shots import Solved
from evolora_core.searches.adapters.settings.expert_iteration import ExpertIterationSettings
from evolora_core.searches.adapters.settings.sft import SftSettings

log = logging.getLogger(__name__)

FOUND = "found.json"  # what a round found and spent on it: a killed run does not ask again


@dataclass(frozen=True)
class Round:
    """A round: items that were asked, answers to them, items of which one was right, and the FLOPs of the round."""

    number: int
    items: int
    answers: int
    solved: int
    flops: int


@dataclass(frozen=True)
class ExpertIterationResult:
    """An adapter in `folder/adapter` (PEFT format) and what it cost.

    meter     compute by purpose: `rollout` and `update`; its total is within the budget
    steps     rows of the table `sft_steps`, with the round as the adapter
    rounds    what each round found
    diverged  loss or weights became NaN or infinite; the adapter is of before, and no round followed
    """

    adapter_folder: Path
    meter: Meter
    steps: list[dict[str, float | str]]
    rounds: list[Round]
    diverged: bool


@dataclass(frozen=True)
class _Task:
    """What is asked, and how: items that fit the host, the tokens of their prompts, and gold answers."""

    host: Host
    items: list[Item]
    lengths: np.ndarray
    gold: list[Solved]
    decoding: Decoding
    config: ExpertIterationSettings
    seed: int


def train_expert_iteration(
    host: Host,
    items: Sequence[Item],
    config: ExpertIterationSettings,
    *,
    budget_flops: int,
    seed: int,
    folder: Path,
    decoding: Decoding,
    progress: Progress = silent,
) -> ExpertIterationResult:
    """Sample and learn until the rounds are over. A killed run goes on from `folder/.work` and ends as an undisturbed
    one. Raises Unaffordable, before anything is asked, if a round might not pay for an answer and a learning step,
    DataError if no item fits.
    """
    task = _task(host, items, config, decoding, seed)
    _check_affordable(task, budget_flops // config.rounds)
    meter, steps, rounds = Meter(), list[dict[str, float | str]](), list[Round]()
    work = folder / ".work"
    adapter, diverged = _fresh(task, work / "round-0"), False
    for number in range(1, config.rounds + 1):
        own, report = work / f"round-{number}", part_of(progress, number - 1, 1, config.rounds)
        spent = meter.total()
        allowance = (budget_flops - spent) // (config.rounds - number + 1)
        found, asked = _sample(task, adapter, number, int(config.sampling * allowance), own, meter, report)
        given = {(one.family, one.prompt) for one in task.gold}  # learned by their gold answers, once in a round
        rows = [*task.gold, *(one for one in found if (one.family, one.prompt) not in given)]
        left = allowance - (meter.total() - spent)
        try:
            result = _learn(task, rows, adapter, number, left, own, report) if rows else None
        except (Unaffordable, DataError):
            result = None  # answers are in more tokens as text than they were sampled in; gold answers may be longer
        if result is not None:
            adapter, diverged = result.adapter_folder, result.diverged
            meter.merge(result.meter)
            before = len(steps)
            steps += [{**row, "adapter": f"round-{number}", "step": before + row["step"]} for row in result.steps]
        rounds.append(Round(number, asked, asked * config.samples, len(found), meter.total() - spent))
        if diverged:
            break
    shutil.rmtree(folder / "adapter", ignore_errors=True)
    shutil.copytree(adapter, folder / "adapter")
    return ExpertIterationResult(folder / "adapter", meter, steps, rounds, diverged)


def _task(host: Host, items: Sequence[Item], config: ExpertIterationSettings, decoding: Decoding, seed: int) -> _Task:
    fitting, lengths = fitting_items(host, items, decoding, "expert_iteration")
    gold = solved(labelled(items, Given(config.labels), seed)) if config.labels else []
    return _Task(host, fitting, lengths, gold, decoding, config, seed)


def _check_affordable(task: _Task, allowance: int) -> None:
    """Raise Unaffordable unless a round of so many FLOPs pays for answers to the longest item, and, all its answers
    apart, for a step of the longest rows. No round has less than the first, and what is found decides nothing.
    """
    host, config, cap = task.host, task.config, task.decoding.max_new_tokens
    model, sampling = FlopModel.from_model(host.model), int(config.sampling * allowance)
    asked = config.samples * int(model.generate_flops(task.lengths.max(), cap, config.rank))
    mend = "raise ecology.generations or ecology.episodes, or lower expert_iteration.rounds or expert_iteration."
    if asked > sampling:
        raise Unaffordable(
            f"expert_iteration: {max(0, sampling):.3g} FLOPs, the share of a round's answers, do not pay for "
            f"{config.samples} answers to the longest item ({asked:.3g} FLOPs); {mend}samples"
        )
    # A found answer may be as long as the cap, and has an end token; gold answers may be longer.
    answers = np.array([cap + 1, *map(len, host.encode_answers([one.answer for one in task.gold]))])
    prompts = np.array([task.lengths.max(), *map(len, host.encode_prompts([one.prompt for one in task.gold]))])
    tokens = np.minimum(prompts + answers, host.max_context)
    step = config.batch_rows * int(model.train_flops(tokens, answers, config.rank).max())
    if step > allowance - sampling:
        raise Unaffordable(
            f"expert_iteration: the {max(0, allowance - sampling):.3g} FLOPs that a round leaves for learning do not "
            f"pay for a step of {config.batch_rows} of the longest rows ({step:.3g} FLOPs); {mend}batch_rows"
        )


def _learning(config: ExpertIterationSettings) -> SftSettings:
    """The fine-tuning of a round: its last adapter goes on, whatever the selection split says."""
    shared = {key: getattr(config, key) for key in ("rank", "scale", "learning_rate", "batch_rows", "epochs")}
    return SftSettings(**shared, checkpoints=1)


def _learn(
    task: _Task, rows: Sequence[Solved], adapter: Path, number: int, left: int, folder: Path, report: Progress
) -> SftResult:
    """Fine-tune the adapter on the rows of a round, with what is `left` of its FLOPs."""
    config = task.config
    return train_sft(
        task.host,
        rows,
        _learning(config),
        budget_flops=left,
        seed=rng.key(task.seed, number, 0, "expert iteration"),
        folder=folder,
        start=adapter,
        section="expert_iteration",
        progress=part_of(report, config.sampling, 1 - config.sampling, 1),
    )


def _fresh(task: _Task, folder: Path) -> Path:
    """An adapter that changes nothing yet."""
    population = Population.empty(task.host, 1, task.config.rank, scale=task.config.scale)
    population.init_slot(0, task.config.rank, rng.stream(task.seed, 0, 0, "expert iteration"))
    export_peft(population.get(0), task.host, folder / "adapter")
    return folder / "adapter"


def _sample(
    task: _Task, adapter: Path, number: int, allowance: int, folder: Path, meter: Meter, report: Progress
) -> tuple[list[Solved], int]:
    """The first right answer to each item that has one, and how many items were asked: as many as `allowance` FLOPs
    pay for, whatever the length of the answers, and none twice.
    """
    path, own = folder / FOUND, Meter()
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        meter.merge(Meter.from_state(kept["meter"]))
        return [Solved(**one) for one in kept["found"]], kept["asked"]
    host, config, cap = task.host, task.config, task.decoding.max_new_tokens
    population = Population.empty(host, 1, config.rank, scale=config.scale)
    population.put(0, import_peft(adapter, host))
    order = rng.stream(task.seed, number, 0, "expert iteration items").permutation(len(task.items))
    price = FlopModel.from_model(host.model).generate_flops(task.lengths[order], cap, config.rank)
    dearest = config.samples * np.cumsum(price)
    found: list[Solved] = []
    asked = 0
    while asked < len(order):
        before = int(dearest[asked - 1]) if asked else 0
        until = int(np.searchsorted(dearest, before + allowance - own.total(), side="right"))
        if until == asked:
            break
        batch = [task.items[place] for place in order[asked:until] for _ in range(config.samples)]
        key = rng.key(task.seed, number, 0, "expert iteration answers", asked)
        started, used = time.perf_counter(), own.total() / allowance
        outcomes = answer_items(
            host,
            population,
            batch,
            np.zeros(len(batch), dtype=np.int64),
            Manner(temperatures=config.temperature, keys=rng.row_keys(key, len(batch))),
            decoding=task.decoding,
            progress=part_of(report, config.sampling * used, config.sampling * (1 - used), 1),
        )
        charge(own, "rollout", outcomes, time.perf_counter() - started)
        for start in range(0, len(outcomes), config.samples):
            right = [one for one in outcomes[start : start + config.samples] if one.grade.correct]
            # A plain template puts its own space before an answer that is learned.
            found += [Solved(one.item.family, one.item.prompt, one.answer.strip()) for one in right[:1]]
        asked = until
    if not found:
        log.warning("expert iteration: none of %d items of round %d was answered rightly", asked, number)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, {"asked": asked, "found": [asdict(one) for one in found], "meter": own.state()})
    meter.merge(own)
    return found, asked
