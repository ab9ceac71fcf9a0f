"""What the rivals that a Trainer trains have in common."""

import logging
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from peft import LoraConfig
from torch.utils.data import Sampler
from transformers import TrainerCallback

from evolora_core.engine import artifacts
from evolora_core.engine.meter import Meter
from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.passes import out_of_memory
from evolora_core.searches.adapters.rivals import resume

log = logging.getLogger(__name__)

Fitted = TypeVar("Fitted")


def lora(rank: int, scale: float) -> LoraConfig:
    """An adapter on every linear layer, ΔW = scale · B A."""
    return LoraConfig(
        r=rank,
        lora_alpha=scale * rank,  # type: ignore[arg-type]  # PEFT divides: any number will do
        lora_dropout=0.0,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


class Optimizer(Protocol):
    """What the settings of a rival say of AdamW."""

    @property
    def learning_rate(self) -> float: ...
    @property
    def betas(self) -> tuple[float, float]: ...
    @property
    def max_grad_norm(self) -> float: ...


def trainer_settings(host: Host, config: Optimizer, work: Path, seed: int) -> dict[str, Any]:
    """Arguments that any Trainer here gets: the optimizer of `config`, the host's own arithmetic, and no reports."""
    on_cpu = torch.device(host.device).type == "cpu"
    return {
        "output_dir": str(work),
        "learning_rate": config.learning_rate,
        "adam_beta1": config.betas[0],
        "adam_beta2": config.betas[1],
        "max_grad_norm": config.max_grad_norm,
        "bf16": False,  # the host's own dtype, without autocast; TRL would turn bf16 on, on CPU too
        "activation_checkpointing": False,  # recomputation is TRL's default and would cost a forward per step
        "use_cpu": on_cpu,
        "dataloader_pin_memory": not on_cpu,
        "seed": seed % 2**31,
        "logging_strategy": "steps",
        "logging_steps": 1,
        "logging_nan_inf_filter": False,
        "save_strategy": "no",  # a callback asks for checkpoints
        "save_total_limit": 2,
        "report_to": "none",
        "disable_tqdm": True,
    }


def keep_to_device(host: Host, arguments: Any) -> None:
    """Let a Trainer take the host's device alone: it takes every CUDA device that it sees, with a batch for each."""
    device = torch.device(host.device)
    if device.type == "cuda":
        _ = arguments.n_gpu  # transformers settles its devices once, when first asked
        device = torch.device("cuda", device.index or 0)
        arguments._n_gpu, vars(arguments)["_setup_devices"] = 1, device
        torch.cuda.set_device(device)  # accelerate's `cuda` is the current one


def in_parts(fit: Callable[[int], Fitted], parts: int, rows: int) -> Fitted:
    """What `fit(parts)` gives, for which a batch of so many rows is cut into equal parts; more of them, from the last
    commit on, whenever memory runs out.
    """
    while True:
        try:
            return fit(parts)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error) or parts == rows:
                raise
            parts = next(more for more in range(parts + 1, rows + 1) if rows % more == 0)
            log.warning("out of memory: going on with batches in %d parts", parts)


class InOrder(Sampler[int]):
    """Row numbers exactly as planned."""

    def __init__(self, order: np.ndarray) -> None:
        self.rows = order.reshape(-1).tolist()

    def __iter__(self) -> Iterator[int]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class AdapterOnly:
    """Mixed into a TRL trainer: saves adapters and nothing else, and reports to no service."""

    model: Any
    args: Any

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """The adapter alone: no tokenizer, no pickled arguments, and no look on the hub for a changed vocabulary."""
        self.model.save_pretrained(output_dir or self.args.output_dir, save_embedding_layers=False)

    def create_model_card(self, *arguments: Any, **options: Any) -> None:
        """None: checkpoints are for resuming only."""

    def _send_telemetry(self) -> None:
        """None is sent."""


class RunWatch(TrainerCallback):
    """Times the steps of a run and says when a checkpoint is due; a checkpoint keeps what was spent until then."""

    def __init__(self, run: str, meter: Meter, work: Path) -> None:
        self.run, self.meter, self.work = run, meter, work
        self.ticked = self.saved = time.perf_counter()

    def tick(self) -> float:
        """Seconds of the step that ends now."""
        before, self.ticked = self.ticked, time.perf_counter()
        return self.ticked - before

    @property
    def due(self) -> bool:
        """Whether the last checkpoint was long ago when the step ended."""
        return self.ticked - self.saved > artifacts.commit_seconds()

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.ticked = self.saved = time.perf_counter()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        resume.mark(self.work, state.global_step, self.run, self.meter)
        self.saved = time.perf_counter()
