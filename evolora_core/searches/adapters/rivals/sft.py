"""Supervised fine-tuning of one LoRA adapter by TRL's SFTTrainer within a FLOP budget.

The tokens are those of evaluation (the host's own template and end token); the loss is on the completion alone; the
schedule is planned from the known budget (rivals.plan) and decays to zero where it ends. Choosing among checkpoints
is charged to the same budget.
"""

import logging
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from datasets import Dataset
from numpy.typing import ArrayLike
from peft import set_peft_model_state_dict
from safetensors.torch import load_file
from torch.utils.data import Sampler
from transformers import PreTrainedModel
from transformers.trainer_callback import PrinterCallback
from trl import SFTConfig as TrlConfig
from trl import SFTTrainer
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling

from evolora_core.engine import rng
from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import reached
from evolora_core.engine.progress import Progress, silent
from evolora_core.engine.strict import config_hash
from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.template import Example
from evolora_core.lora.answering.outcome import Decoding
from evolora_core.searches.adapters.rivals import resume
from evolora_core.searches.adapters.rivals.answer_loss import first_answer, loss_of_answers
from evolora_core.searches.adapters.rivals.checkpoints import (
    Checkpoint,
    choose_checkpoint,
    interleave,
    is_finite,
    question_costs,
)
from evolora_core.searches.adapters.rivals.isolation import isolated
from evolora_core.searches.adapters.rivals.layers import quicken
from evolora_core.searches.adapters.rivals.plan import Plan, make_plan
from evolora_core.searches.adapters.rivals.rows import TrainingRows, tokenise
from evolora_core.searches.adapters.rivals.shown import before
from evolora_core.searches.adapters.rivals.training import (
    AdapterOnly,
    InOrder,
    RunWatch,
    in_parts,
    keep_to_device,
    lora,
    trainer_settings,
)
from evolora_core.searches.adapters.routing.shots import Solved, as_item
from evolora_core.searches.adapters.settings.sft import SftSettings

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SftResult:
    """A trained adapter (PEFT format) and what it cost.

    checkpoints   every kept checkpoint with its selection accuracy; one is chosen
    steps         rows of the table `sft_steps`; tokens and flops are those of the step
    meter         compute by purpose: `update` and `selection`; its total is within the budget
    left_out      training items that do not fit the host's context and were not trained on
    diverged      training ended early on a NaN; the adapter is from before, if need be the one that it started from
    """

    adapter_folder: Path
    checkpoints: list[Checkpoint]
    steps: list[dict[str, float]]
    meter: Meter
    left_out: int
    diverged: bool


class Planned(NamedTuple):
    """The rows to train on, what the budget buys, the examples before each selection item, and what choosing examples
    takes in FLOPs.
    """

    rows: TrainingRows
    plan: Plan
    shown: list[list[Example]]
    choosing: int


def plan_sft(
    host: Host,
    train_items: Sequence[Solved],
    config: SftSettings,
    *,
    budget_flops: int,
    seed: int,
    asked: Sequence[Item],
    decoding: Decoding | None = None,
) -> Planned:
    """What fine-tuning on these items is; `asked` are the selection items in their order, and `decoding` is how they
    are answered. Raises Unaffordable if the budget buys no step, DataError if no item fits the host.
    """
    longest = max((len(ids) for ids in host.encode_answers([item.answer for item in train_items])), default=0)
    own = before(host, [as_item(one) for one in train_items], train_items, config.shots, longest)
    others = before(host, asked, train_items, config.shots, decoding.max_new_tokens if decoding else longest)
    choosing = own.flops + others.flops
    rows = tokenise(host, train_items, own.examples)
    plan = make_plan(
        row_flops(FlopModel.from_model(host.model), rows.lengths, rows.answers, config.rank, config.kl),
        rows.lengths,
        budget_flops=budget_flops - choosing,
        batch_rows=config.batch_rows,
        checkpoints=config.checkpoints,
        seed=seed,
        question_flops=question_costs(host, asked, rank=config.rank, examples=others.examples),
        epochs=config.epochs,
    )
    return Planned(rows, plan, others.examples, choosing)


def train_sft(
    host: Host,
    train_items: Sequence[Solved],
    config: SftSettings,
    *,
    budget_flops: int,
    seed: int,
    folder: Path,
    selection_items: Sequence[Item] = (),
    decoding: Decoding | None = None,
    start: Path | None = None,
    section: str = "sft",
    progress: Progress = silent,
) -> SftResult:
    """Train one adapter until `budget_flops` are spent, selection answers included; it ends in `folder/adapter`.

    It starts from a fresh adapter, or from the one (PEFT format, same rank) in the folder `start`. With
    `selection_items` (and their `decoding`) the best of `config.checkpoints` checkpoints is kept, else the last.
    A run that was killed goes on from `folder/.work` and ends bit for bit as if it had not been; one that has ended
    trains nothing anew. Whoever needs neither removes that folder. Warnings name the key `section` of the suite. Raises
    Unaffordable if the budget buys no step, DataError if no item fits the host.
    """
    folder, budget_flops = Path(folder), int(budget_flops)
    asked = interleave(selection_items, seed) if decoding is not None else []
    planned = plan_sft(host, train_items, config, budget_flops=budget_flops, seed=seed, asked=asked, decoding=decoding)
    rows, plan = planned.rows, planned.plan
    work = folder / ".work"
    work.mkdir(parents=True, exist_ok=True)
    steps, diverged_at, meter = in_parts(
        lambda parts: _fit(host, rows, config, plan, parts, seed, work, start, progress),
        micro_batches(config.batch_rows),
        config.batch_rows,
    )
    meter.add("update", planned.choosing, 0, 0.0)

    # The loss of a step is that of the weights after the step before: those are no checkpoint either.
    sound = [step for step in plan.keep if diverged_at is None or step < diverged_at - 1]
    folders = {step: resume.adapter_folder(work, step) for step in sound}
    kept = {step: own for step, own in folders.items() if is_finite(own)} or {0: resume.adapter_folder(work, 0)}
    if diverged_at is not None:
        log.warning(
            "%s: training diverged at learning rate %g; an adapter of before is kept (lower %s.learning_rate, or that "
            "of %s.trials)",
            section,
            config.learning_rate,
            section,
            section,
        )
    checkpoints = choose_checkpoint(
        host,
        kept,
        asked[: plan.questions],
        decoding=decoding,
        allowance=budget_flops - meter.total(),
        spent={step: int(plan.flops[:step].sum()) for step in kept},
        meter=meter,
        examples=planned.shown[: plan.questions],
    )
    chosen = next(checkpoint.step for checkpoint in checkpoints if checkpoint.chosen)
    shutil.rmtree(folder / "adapter", ignore_errors=True)
    shutil.copytree(kept[chosen], folder / "adapter")
    return SftResult(folder / "adapter", checkpoints, steps, meter, rows.left_out, diverged_at is not None)


def row_flops(model: FlopModel, tokens: ArrayLike, answers: ArrayLike, rank: int, kl: float) -> Any:
    """Budget FLOPs of training on rows of so many tokens, `answers` of them learned; the host reads along if `kl` is
    not 0.
    """
    reading = model.score_flops(tokens, answers) if kl else 0
    return model.train_flops(tokens, answers, rank) + reading


def micro_batches(batch_rows: int) -> int:
    """Into how many equal parts a batch is cut; its rows are sorted by length, so each part pads only to its own
    longest.

    The loss is summed over the tokens of the whole batch, so the gradient is the same as in one piece. Twice as fast
    on a CPU.
    """
    return next(parts for parts in (4, 2, 1) if batch_rows % parts == 0 and (parts == 1 or batch_rows // parts >= 8))


def _fit(
    host: Host,
    rows: TrainingRows,
    config: SftSettings,
    plan: Plan,
    parts: int,
    seed: int,
    work: Path,
    start: Path | None,
    progress: Progress,
) -> tuple[list[dict[str, float]], int | None, Meter]:
    """Run (or go on with) the Trainer through the plan. Returns the rows of `sft_steps`, where it diverged, and what
    the training alone cost: checkpoints keep it, and its limit is the plan's.
    """
    meter = Meter()
    with isolated(host) as model:
        trainer = _PlannedTrainer(
            plan=plan,
            model=model,
            args=_arguments(host, config, plan, parts, seed, work),
            train_dataset=Dataset.from_dict({"input_ids": rows.input_ids, "completion_mask": rows.completion_mask}),
            processing_class=host.tokenizer,
            data_collator=DataCollatorForLanguageModeling(pad_token_id=host.pad_id),
            peft_config=lora(config.rank, config.scale),
            kl=config.kl,
        )
        quicken(trainer.model)
        if start is not None:
            set_peft_model_state_dict(trainer.model, load_file(start / "adapter_model.safetensors"))
        _check_rows(trainer.train_dataset, rows)
        trainer.remove_callback(PrinterCallback)
        run = f"{plan.fingerprint} {config_hash(config)} {seed}"
        watch = _Watch(trainer, plan, run, meter, work, progress)
        trainer.add_callback(watch)
        resume.train(trainer, work, run, meter)
    steps = [
        {
            "step": int(entry["step"]),
            "loss": float(entry["loss"]),
            "learning_rate": float(entry["learning_rate"]),
            "tokens": int(plan.tokens[int(entry["step"]) - 1]),
            "flops": int(plan.flops[int(entry["step"]) - 1]),
        }
        for entry in trainer.state.log_history
        if "loss" in entry
    ]
    return steps, watch.diverged_at, meter


def _arguments(host: Host, config: SftSettings, plan: Plan, parts: int, seed: int, work: Path) -> TrlConfig:
    """The Trainer's settings; the learning-rate schedule is `_PlannedTrainer`'s own."""
    arguments = TrlConfig(
        max_steps=plan.steps,
        per_device_train_batch_size=config.batch_rows // parts,
        gradient_accumulation_steps=parts,
        warmup_steps=min(math.ceil(config.warmup_fraction * plan.steps), plan.steps - 1),
        weight_decay=config.weight_decay,
        completion_only_loss=True,
        max_length=None,  # nothing may be cut: rows that do not fit were left out, and counted
        **trainer_settings(host, config, work, rng.key(seed, 0, 0, "sft")),
    )
    keep_to_device(host, arguments)
    return arguments


def _check_rows(prepared: Any, rows: TrainingRows) -> None:
    """TRL must train on exactly our rows: none dropped, none cut, the loss on the completions alone."""
    expected = [[-100] * len(p) + c for p, c in zip(rows.prompts, rows.completions, strict=True)]
    if list(prepared["input_ids"]) != rows.input_ids or list(prepared["labels"]) != expected:
        raise RuntimeError("TRL changed the training rows: some were dropped, cut or masked otherwise")


class _PlannedTrainer(AdapterOnly, SFTTrainer):
    """SFTTrainer that follows a plan, keeps near the host if asked to, and counts FLOPs as the rest of the project."""

    def __init__(self, *, plan: Plan, model: PreTrainedModel, peft_config: Any, kl: float, **arguments: Any) -> None:
        self._plan, self._kl, self._own_loss = plan, kl, bool(kl) or model.device.type == "cpu"
        self._rank = peft_config.r
        self._costs = FlopModel.from_model(model)  # before PEFT wraps its layers
        self.step_flops = self.step_tokens = self.step_executed = 0  # of the running step; _Watch sets them back
        super().__init__(model=model, peft_config=peft_config, **arguments)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        return InOrder(self._plan.order)

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Linear warm-up, then linear decay to zero after the last planned step; no step is wasted at rate 0."""
        warmup = self.args.warmup_steps

        def factor(step: int) -> float:
            if step < warmup:
                return float((step + 1) / (warmup + 1))
            return float(max(0, num_training_steps - step) / (num_training_steps - warmup))

        self.lr_scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer or self.optimizer, factor)  # type: ignore[arg-type]
        self._created_lr_scheduler = True
        return self.lr_scheduler

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        """TRL's loss; ours where the divergence from the host is part of it, and on a CPU, where TRL makes the prompts'
        logits too: with a vocabulary of 49 thousand they take two fifths of a step.
        """
        reached("examples", rows=len(inputs["input_ids"]), inputs=inputs)
        if self._own_loss:
            return loss_of_answers(model, inputs, self._kl, num_items_in_batch)
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)  # type: ignore[no-untyped-call]

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Budget FLOPs of a micro-batch; Trainer calls this once after each forward and backward."""
        lengths = inputs["attention_mask"].sum(dim=1).numpy(force=True)
        answers = (inputs["labels"] != -100).sum(dim=1).numpy(force=True)
        rows, width = inputs["attention_mask"].shape
        flops = int(row_flops(self._costs, lengths, answers, self._rank, self._kl).sum())
        self.step_flops += flops
        self.step_tokens += int(lengths.sum())
        # With padding, and with the LM head from before the first answer token of the rows on, as our loss makes it.
        # TRL's own makes it for the answer tokens alone.
        heads = width - first_answer(inputs["labels"]) if self._own_loss else answers
        executed = row_flops(self._costs, np.full(rows, width), heads, self._rank, self._kl)
        self.step_executed += int(executed.sum())
        return flops


class _Watch(RunWatch):
    """Charges every step to the meter, stops at the budget or at divergence, keeps adapters, asks for checkpoints."""

    def __init__(
        self,
        trainer: _PlannedTrainer,
        plan: Plan,
        run: str,
        meter: Meter,
        work: Path,
        progress: Progress,
    ) -> None:
        super().__init__(run, meter, work)
        self.trainer, self.plan, self.progress = trainer, plan, progress
        self.diverged_at: int | None = None
        self.limit = int(plan.flops.sum())

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        trainer, step = self.trainer, state.global_step
        self.meter.add(
            "update",
            flops=trainer.step_flops,
            tokens=trainer.step_tokens,
            seconds=self.tick(),
            executed_flops=trainer.step_executed,
        )
        trainer.step_flops = trainer.step_tokens = trainer.step_executed = 0
        if self.meter.total() >= self.limit:
            control.should_training_stop = True
        if step in self.plan.keep:
            resume.keep_adapter(trainer, self.work, step)
        if step in self.plan.keep or self.due:
            control.should_save = True

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any) -> None:
        if logs is None or "loss" not in logs:
            return
        if not all(math.isfinite(logs.get(name, 0.0)) for name in ("loss", "grad_norm")):
            self.diverged_at = state.global_step
            control.should_training_stop = True
            control.should_save = False
        self.progress(state.global_step, self.plan.steps)
