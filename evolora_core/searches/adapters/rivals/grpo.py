"""Group relative policy optimisation of one LoRA adapter by TRL's GRPOTrainer within a FLOP budget, from rewards alone.

Shao et al. 2024 (DeepSeekMath, arXiv 2402.03300), with TRL's defaults: advantages in units of the group's own spread,
the loss a mean over the tokens of the batch (DAPO, arXiv 2503.14476), one update for each batch of answers. Reusing a
batch saves nothing here: scoring it anew costs what sampling it did. Without a KL term, groups whose answers have equal
rewards are not scored: their gradient is 0. The prompts, the end of an answer and its grading are those of evaluation.
What a step will cost is not known beforehand, so the learning rate falls to zero with what is left of the budget, as in
rivals.es, and no step begins that could overspend it.
"""

import copy
import functools
import logging
import math
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import GenerationConfig, PreTrainedModel, StoppingCriteriaList
from transformers.trainer_callback import PrinterCallback
from trl import GRPOConfig as TrlConfig
from trl import GRPOTrainer

from evolora_core.engine import rng
from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import reached
from evolora_core.engine.progress import Progress, silent
from evolora_core.engine.strict import config_hash
from evolora_core.errors import Unaffordable
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import encode_unique
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.lora.answering.stopping import endings, stop_at, until
from evolora_core.lora.population.passes import out_of_memory
from evolora_core.searches.adapters.rivals import resume
from evolora_core.searches.adapters.rivals.checkpoints import is_finite
from evolora_core.searches.adapters.rivals.fitting import fitting_items
from evolora_core.searches.adapters.rivals.groups import Groups, group_flops, informative
from evolora_core.searches.adapters.rivals.isolation import isolated
from evolora_core.searches.adapters.rivals.positions import count_positions
from evolora_core.searches.adapters.rivals.training import (
    AdapterOnly,
    RunWatch,
    in_parts,
    keep_to_device,
    lora,
    trainer_settings,
)
from evolora_core.searches.adapters.settings.grpo import GrpoSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GrpoResult:
    """An adapter in `adapter_folder` (PEFT format) and what it cost.

    meter      compute by purpose: `rollout` and `update`; its total is within the budget
    steps      rows of the table `grpo_steps`; tokens are those sampled from and learned, flops those of the step
    left_out   training items whose prompt and token cap do not fit the host's context together
    diverged   loss or weights became NaN or infinite; the adapter is the one that training started from
    """

    adapter_folder: Path
    meter: Meter
    steps: list[dict[str, float]]
    left_out: int
    diverged: bool


@dataclass(frozen=True)
class _Task:
    """What is asked and how it is graded: items that fit the host, with their prompts' tokens `[items]`."""

    host: Host
    items: list[Item]
    lengths: np.ndarray
    decoding: Decoding
    partial_credit: bool

    @property
    def ends(self) -> list[str]:
        """The strings that end an answer."""
        return endings(self.host, self.decoding.stop_strings)

    def rewards(self, numbers: Sequence[int], answers: Sequence[Sequence[int]]) -> tuple[list[float], list[bool]]:
        """Rewards of answers (token ids, with or without their end) to the items of these numbers; which are right."""
        cut = [ids[:-1] if ids and ids[-1] in self.host.eos_ids else ids for ids in answers]
        texts = [until(self.host.decode(list(ids)), self.ends) for ids in cut]
        grades = [grade(self.items[number], text) for number, text in zip(numbers, texts, strict=True)]
        right = [given.correct for given in grades]
        return [given.score for given in grades] if self.partial_credit else [float(r) for r in right], right


def train_grpo(
    host: Host,
    items: Sequence[Item],
    config: GrpoSettings,
    *,
    budget_flops: int,
    seed: int,
    folder: Path,
    decoding: Decoding,
    progress: Progress = silent,
) -> GrpoResult:
    """Steps until another could overspend `budget_flops`; the adapter of the last is the result.

    A killed run resumes from `folder/.work` and ends bit for bit as an undisturbed one. A finished run goes on from its
    last commit. Remove that folder if you want a fresh run. Raises Unaffordable if the budget pays for no step,
    DataError if no item fits.
    """
    folder, budget_flops = Path(folder), int(budget_flops)
    task = _Task(host, *fitting_items(host, items, decoding, "grpo"), decoding, config.partial_credit)
    work = folder / ".work"
    work.mkdir(parents=True, exist_ok=True)
    steps, diverged, meter = in_parts(
        lambda parts: _fit(task, config, budget_flops, parts, seed, work, progress), 1, config.groups * config.samples
    )
    if diverged:
        log.warning(
            "grpo: training diverged at learning rate %g; the adapter is the bare host "
            "(lower grpo.learning_rate, or that of grpo.trials)",
            config.learning_rate,
        )
    shutil.rmtree(folder / "adapter", ignore_errors=True)
    shutil.copytree(resume.adapter_folder(work, 0 if diverged else len(steps)), folder / "adapter")
    return GrpoResult(folder / "adapter", meter, steps, len(items) - len(task.items), diverged)


def _fit(
    task: _Task,
    config: GrpoSettings,
    budget: int,
    parts: int,
    seed: int,
    work: Path,
    progress: Progress,
) -> tuple[list[dict[str, float]], bool, Meter]:
    """Run (or go on with) the Trainer and keep its last adapter. Returns the rows of `grpo_steps`, whether it diverged,
    and what it cost.
    """
    meter = Meter()
    host, cap = task.host, task.decoding.max_new_tokens
    model = FlopModel.from_model(host.model)
    price = functools.partial(group_flops, model, samples=config.samples, rank=config.rank, reference=config.beta > 0)
    dearest = price(task.lengths, cap)
    cheapest = config.groups * config.samples * int(model.generate_flops(task.lengths.min(), 1, config.rank))
    groups = Groups(
        len(task.items),
        groups=config.groups,
        samples=config.samples,
        parts=parts,
        steps=max(1, budget // cheapest),  # more than there will be
        seed=seed,
    )
    first = int(dearest[groups.chosen(0)].sum())
    if first > budget:
        raise Unaffordable(
            f"grpo: the budget of {max(0, budget):.3g} FLOPs, the choice of routes apart, does not pay for one step of "
            f"{config.groups} groups of {config.samples} answers ({first:.3g} FLOPs); raise ecology.generations or "
            "ecology.episodes, or lower grpo.groups or grpo.samples"
        )
    with isolated(host) as copied:
        count_positions(copied.base_model)
        trainer = _BudgetedTrainer(task, config, groups, budget, meter, copied, _arguments(task, config, groups, work))
        trainer.remove_callback(PrinterCallback)
        run = f"{config_hash(config)} {budget} {seed} {_fingerprint(task)}"
        watch = _Watch(trainer, groups, dearest, budget, run, meter, work, progress)
        trainer.add_callback(watch)
        resume.train(trainer, work, run, meter)
        resume.keep_adapter(trainer, work, trainer.state.global_step)
    diverged = watch.diverged or not is_finite(resume.adapter_folder(work, trainer.state.global_step))
    steps = [
        {
            "step": int(entry["step"]),
            "reward": entry["right"],
            "informative": 1 - entry["frac_reward_zero_std"],
            "entropy": entry["entropy"],
            "learning_rate": entry["learning_rate"],
            "flops": entry["flops"],
            "tokens": entry["tokens"],
            "seconds": entry["seconds"],
        }
        for entry in trainer.state.log_history
        if "loss" in entry
    ]
    return steps, diverged, meter


def _fingerprint(task: _Task) -> str:
    """What the items and the decoding of a run are, for a resumed run to have the same."""
    named = [*(item.task_id for item in task.items), task.decoding.max_new_tokens, *task.decoding.stop_strings]
    return f"{rng.key(0, 0, 0, 'grpo run', *map(str, named)):016x}"


def _arguments(task: _Task, config: GrpoSettings, groups: Groups, work: Path) -> TrlConfig:
    """The Trainer's settings; the learning-rate schedule is `_BudgetedTrainer`'s own."""
    arguments = TrlConfig(
        max_steps=groups.steps,
        num_generations=config.samples,
        per_device_train_batch_size=config.groups * config.samples // groups.parts,
        gradient_accumulation_steps=groups.parts,
        max_completion_length=task.decoding.max_new_tokens,
        temperature=config.temperature,
        generation_kwargs={"remove_invalid_values": True},  # who diverges ends by its loss, not in CUDA
        beta=config.beta,
        weight_decay=0.0,
        disable_dropout=True,
        **trainer_settings(task.host, config, work, rng.key(groups.seed, 0, 0, "grpo")),
    )
    keep_to_device(task.host, arguments)
    return arguments


class _BudgetedTrainer(AdapterOnly, GRPOTrainer):
    """GRPOTrainer that asks and grades as evaluation does, draws from its own streams, and charges every pass."""

    def __init__(
        self,
        task: _Task,
        config: GrpoSettings,
        groups: Groups,
        budget: int,
        meter: Meter,
        model: PreTrainedModel,
        arguments: TrlConfig,
    ) -> None:
        self._task, self._groups, self._rank, self._budget, self.meter = task, groups, config.rank, budget, meter
        self._costs = FlopModel.from_model(model)  # before PEFT wraps its layers
        self._stop = stop_at(task.host, task.ends)
        self.facts: dict[str, float] = {}  # of the running step; `log` writes them down
        self._together = config.groups * config.samples  # answers that are sampled at once
        tokenizer = copy.deepcopy(task.host.tokenizer)  # TRL may give it a padding token
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.convert_ids_to_tokens(task.host.pad_id)
        if tokenizer.eos_token_id is None:  # what ends an answer may stand in the host's generation config alone
            tokenizer.eos_token = tokenizer.convert_ids_to_tokens(task.host.template.end)
        copied: Any = model  # TRL reads its ends of an answer here; a host's filters of tokens are not evaluation's
        copied.generation_config = GenerationConfig(eos_token_id=[*task.host.eos_ids])
        if (stop := self._stop) is not None:
            stopping = StoppingCriteriaList([lambda ids, *_, **__: stop(ids[:, self._asked :])])
            copied.generate = functools.partial(copied.generate, stopping_criteria=stopping)
        super().__init__(
            model=model,
            reward_funcs=self._reward,
            args=arguments,
            train_dataset=Dataset.from_dict(
                {"prompt": [item.prompt for item in task.items], "number": list(range(len(task.items)))}
            ),
            processing_class=tokenizer,
            peft_config=lora(config.rank, config.scale),
        )

    def _get_train_sampler(self, dataset: Any = None) -> Sampler[int]:
        return self._groups

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """The rate of a step is in proportion to the budget that is left before it."""

        def factor(step: int) -> float:
            return max(0.0, 1 - self.meter.total() / self._budget)

        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, factor)  # type: ignore[arg-type]
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def _tokenize_prompts(self, prompts: list[str]) -> tuple[list[list[int]], None, dict[str, Any]]:
        """The very tokens that evaluation asks with."""
        return encode_unique(self._task.host, prompts), None, {}

    def _generate_single_turn(self, prompt_ids: list[list[int]], *arguments: Any, **options: Any) -> tuple[Any, Any]:
        """TRL's sampling, from the step's own stream, in parts where memory asks for it; each answer is charged."""
        reached("prompts", ids=prompt_ids)
        started = time.perf_counter()
        answers: list[list[int]] = []
        while (at := len(answers)) < len(prompt_ids):
            torch.manual_seed(rng.key(self._groups.seed, self.state.global_step, at, "grpo answers") % 2**63)
            asked = prompt_ids[at : at + self._together]
            self._asked = max(map(len, asked))  # columns before the answers
            try:
                found, logprobs = super()._generate_single_turn(asked, *arguments, **options)  # type: ignore[no-untyped-call]
                answers += found
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error) or self._together == 1:
                    raise
                self._together //= 2
                log.warning("out of memory: going on with %d answers together", self._together)
        made, answers = max(map(len, answers)), self._ended(answers)  # padded rows are as long as the longest
        prompts, new = np.array([*map(len, prompt_ids)]), np.array([*map(len, answers)])
        self._charge(
            "rollout",
            flops=int(self._costs.generate_flops(prompts, new, self._rank).sum()),
            tokens=int(prompts.sum() + new.sum()),
            executed=len(prompts) * int(self._costs.generate_flops(prompts.max(), made, self._rank)),
            seconds=time.perf_counter() - started,
        )
        return answers, logprobs

    def _ended(self, answers: list[list[int]]) -> list[list[int]]:
        """Answers without the padding that follows a stop string; TRL cuts after end tokens alone."""
        if self._stop is None:
            return answers
        width = max(map(len, answers))
        tokens = torch.tensor([[*row, *[self._task.host.pad_id] * (width - len(row))] for row in answers])
        over = torch.stack([self._stop(tokens[:, : i + 1]) for i in range(width)], dim=1)  # at or before position i
        ends = torch.where(over.any(dim=1), over.int().argmax(dim=1) + 1, width).tolist()
        return [row[:end] for row, end in zip(answers, ends, strict=True)]

    def _generate_and_score_completions(self, inputs: Any) -> dict[str, Any]:
        """TRL's batch without the answers that teach nothing. The loss stays as it is: its normaliser counts all."""
        batch: dict[str, Any] = super()._generate_and_score_completions(inputs)  # type: ignore[no-untyped-call]
        return batch if self.beta else informative(batch, self.args.steps_per_generation or 1)

    def _get_per_token_logps_and_entropies(
        self, model: Any, input_ids: Any, attention_mask: Any, logits_to_keep: int, *arguments: Any, **options: Any
    ) -> Any:
        """TRL's scoring of answers, counted: with gradients it is the update, without the host's reading for the KL."""
        lengths = attention_mask.sum(dim=1).numpy(force=True)
        answers = attention_mask[:, -logits_to_keep:].sum(dim=1).numpy(force=True)
        rows, width = input_ids.shape
        learning = torch.is_grad_enabled()
        cost = functools.partial(self._costs.train_flops, rank=self._rank) if learning else self._costs.score_flops
        self._charge(
            "update",
            flops=int(cost(lengths, answers).sum()),
            tokens=int(lengths.sum()) if learning else 0,
            # With padding, and with the LM head at every position but the last, which is how TRL scores on a CPU.
            executed=rows * int(cost(width, width - 1)),
        )
        return super()._get_per_token_logps_and_entropies(
            model, input_ids, attention_mask, logits_to_keep, *arguments, **options
        )

    def _charge(self, purpose: str, *, flops: int, tokens: int, executed: int, seconds: float = 0.0) -> None:
        self.meter.add(purpose, flops=flops, tokens=tokens, seconds=seconds, executed_flops=executed)
        for name, amount in (("flops", flops), ("tokens", tokens), (f"{purpose} seconds", seconds)):
            self.facts[name] = self.facts.get(name, 0) + amount

    def _reward(self, completion_ids: list[list[int]], number: list[int], **others: Any) -> Any:
        reached("answers", ids=completion_ids)
        rewards, right = self._task.rewards(number, completion_ids)
        self.facts["right"] = float(np.mean(right))
        return rewards

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """None beside what is charged where it is spent."""
        return 0

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Put what the step cost into the Trainer's own history, which its checkpoints keep."""
        if "loss" in logs:
            logs.update(self.facts)
            self.facts = {}
        super().log(logs, start_time)


class _Watch(RunWatch):
    """Stops before a step that could overspend, or at divergence, and asks for checkpoints."""

    def __init__(
        self,
        trainer: _BudgetedTrainer,
        groups: Groups,
        dearest: np.ndarray,
        budget: int,
        run: str,
        meter: Meter,
        work: Path,
        progress: Progress,
    ) -> None:
        super().__init__(run, meter, work)
        self.trainer, self.groups, self.dearest = trainer, groups, dearest
        self.budget, self.progress = budget, progress
        self.diverged = False

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        facts, seconds = self.trainer.facts, self.tick()
        self.meter.add("update", flops=0, tokens=0, seconds=seconds - facts["rollout seconds"])
        facts["seconds"] = seconds
        spent = self.meter.total()
        if spent + int(self.dearest[self.groups.chosen(state.global_step)].sum()) > self.budget:
            control.should_training_stop = True
        elif self.due:
            control.should_save = True  # never after the last step: who goes on from a checkpoint makes another
        self.progress(spent, self.budget)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs and not all(math.isfinite(logs.get(name, 0.0)) for name in ("loss", "grad_norm")):
            self.diverged = control.should_training_stop = True
            control.should_save = False
