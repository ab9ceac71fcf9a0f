"""Pretraining of our own small hosts: completion-only next-token loss on what the task families make.

Muon for the layers' matrices (Jordan et al. 2024; here it needs about half of AdamW's tokens), AdamW for embeddings and
norms, linear warm-up, cosine decay, gradient clipping. Each batch is drawn from a stream of (seed, step) and holds no
reserved prompt; the mixture's weights leave some families half learned, so that adapting the host is worth something.
Same config, machine and libraries: same weights, bit for bit.
"""

import json
import math
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from evolora_core.engine.artifacts import sha256
from evolora_core.engine.progress import Progress, silent
from evolora_core.engine.rng import stream
from evolora_core.errors import ConfigError
from evolora_core.language.hosts.pretrain_config import Architecture, PretrainConfig, Schedule
from evolora_core.language.hosts.progress import bars_on_terminals_only
from evolora_core.language.hosts.tokenizer import VOCABULARY, build_tokenizer
from evolora_core.pretraining.data import (
    Mixture,
    draw_measured,
    draw_rows,
    encode_rows,
    micro_batches,
    read_mixture,
    that_fit,
)
from evolora_core.pretraining.results import PretrainReport

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM


def pretrain(config: PretrainConfig, folder: Path, progress: Progress = silent) -> PretrainReport:
    """Train a host from nothing and write it, with its tokenizer and model card, into `folder`.

    `progress` hears of each step its mean negative log-likelihood of an answer token, in nats. The folder is made if
    missing; files of the same names are replaced once all is done. ConfigError for a mixture that the families cannot
    serve, and at the first step whose loss is not finite.
    """
    import torch

    from evolora_core.language.hosts.host import load_host
    from evolora_core.pretraining.card import measure, write_card

    _refuse_unwritable(folder)  # before training, so that a place that cannot be written costs none
    mixture = read_mixture(config)
    tokenizer = build_tokenizer(config.architecture.context)
    # Before training, so that a family that cannot serve costs no compute.
    reserved_items = that_fit(tokenizer, draw_measured(config), config)
    threads = torch.get_num_threads()
    torch.set_num_threads(config.threads)
    try:
        model = build_model(config.architecture, config.seed)
        tokens, flops, seconds = _train(model, tokenizer, config, mixture, progress)
    finally:
        torch.set_num_threads(threads)

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as name:
        made = Path(name)
        with bars_on_terminals_only():
            model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        report = PretrainReport(
            folder=folder,
            weights_sha256=sha256(made / "model.safetensors"),
            parameters=model.num_parameters(),
            steps=config.schedule.steps,
            rows=config.schedule.steps * config.schedule.rows,
            tokens=tokens,
            flops=flops,
            seconds=seconds,
            accuracy=measure(load_host(str(made)), config, mixture, reserved_items),
        )
        (made / "pretrain.json").write_text(
            json.dumps(config.model_dump(mode="json"), indent=2) + "\n", encoding="utf-8"
        )
        write_card(made / "README.md", config, report)
        folder.mkdir(exist_ok=True)
        # config.json last: where it is, all is there. That of a host which is replaced goes first.
        (folder / "config.json").unlink(missing_ok=True)
        for path in sorted(made.iterdir(), key=lambda path: path.name == "config.json"):
            path.chmod(0o644)  # safetensors writes for its owner alone
            os.replace(path, folder / path.name)
    return report


def _refuse_unwritable(folder: Path) -> None:
    """ConfigError where a host cannot be made beside `folder` and moved into it; nothing is left there."""
    for wanted in (folder.parent, folder):
        place = wanted.absolute()
        while not place.exists():
            place = place.parent
        try:
            with tempfile.TemporaryFile(dir=place):
                pass
        except OSError as error:
            raise ConfigError(f"{folder}: cannot be made ({error.strerror}); name a new folder") from error


def build_model(shape: Architecture, seed: int) -> "Qwen3ForCausalLM":
    """A Qwen3 causal LM with tied embeddings; matrices are drawn from N(0, 1 / inputs), embeddings from N(0, 0.02²).

    Each matrix has a stream of its own, named after it. Those that write into the residual stream start smaller by
    1/sqrt(2 · layers), as in GPT-2.
    """
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    config = Qwen3Config(
        vocab_size=len(VOCABULARY),
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        intermediate_size=shape.intermediate_size,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        pad_token_id=VOCABULARY.index("<|pad|>"),
        eos_token_id=VOCABULARY.index("<|end|>"),
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # its own initial values, all replaced, come from the global state
        model: Qwen3ForCausalLM = Qwen3ForCausalLM(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() < 2:
                continue  # norm weights stay at one
            deviation = 0.02 if "embed" in name else parameter.shape[1] ** -0.5
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                deviation /= math.sqrt(2 * shape.layers)
            values = stream(seed, 0, 0, "pretrain-init", name).standard_normal(tuple(parameter.shape)) * deviation
            parameter.copy_(torch.from_numpy(values))
    return model


def pace_at(step: int, schedule: Schedule) -> float:
    """Learning rates at a step (from 0), as a fraction of their peaks: linear warm-up, then cosine decay, and from its
    end on the last rate.
    """
    if step < schedule.warmup_steps:
        return (step + 1) / schedule.warmup_steps
    end = schedule.decay_steps or schedule.steps
    done = min(1.0, (step - schedule.warmup_steps) / max(1, end - schedule.warmup_steps))
    return schedule.final_fraction + (1 - schedule.final_fraction) * 0.5 * (1 + math.cos(math.pi * done))


def _train(
    model: "Qwen3ForCausalLM",
    tokenizer: "PreTrainedTokenizerBase",
    config: PretrainConfig,
    mixture: Mixture,
    progress: Progress,
) -> tuple[int, int, float]:
    """All optimizer steps; returns (tokens, FLOPs, seconds)."""
    import torch

    schedule, context = config.schedule, config.architecture.context
    optimizers = _optimizers(model, schedule)
    tokens, flops, started = 0, 0, time.monotonic()
    model.train()
    for step in range(schedule.steps):
        pace = pace_at(step, schedule)
        for optimizer, peak in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = peak * pace
        rows = encode_rows(tokenizer, draw_rows(config, mixture, step), context)
        answered = sum(len(answer) for _, answer in rows)
        loss = 0.0
        for ids, positions, targets in micro_batches(rows, schedule.micro_batches, tokenizer.pad_token_id):
            hidden = model.model(input_ids=torch.from_numpy(ids), use_cache=False).last_hidden_state
            scores = model.lm_head(hidden.flatten(0, 1)[torch.from_numpy(positions)])
            part = torch.nn.functional.cross_entropy(scores, torch.from_numpy(targets), reduction="sum") / answered
            part.backward()
            loss += part.item()
        if not math.isfinite(loss):
            raise ConfigError(f"pretrain.schedule: the loss is not finite at step {step + 1}; lower its learning rates")
        torch.nn.utils.clip_grad_norm_(model.parameters(), schedule.clip)
        for optimizer, _ in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tokens += sum(len(prompt) + len(answer) for prompt, answer in rows)
        flops += sum(_row_flops(config.architecture, len(prompt) + len(answer), len(answer)) for prompt, answer in rows)
        progress(step + 1, schedule.steps, f"loss {loss:.3f}")
    return tokens, flops, time.monotonic() - started


def _optimizers(model: "torch.nn.Module", schedule: Schedule) -> list[tuple["torch.optim.Optimizer", float]]:
    """Both optimizers, each with its peak learning rate."""
    import torch

    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.dim() != 2 or "embed" in name]
    muon, adamw = schedule.muon_learning_rate, schedule.adamw_learning_rate
    return [
        (torch.optim.Muon(matrices, lr=muon, weight_decay=schedule.weight_decay), muon),
        (torch.optim.AdamW(others, lr=adamw, betas=schedule.betas, weight_decay=0.0), adamw),
    ]


def _row_flops(shape: Architecture, length: int, answered: int) -> int:
    """FLOPs of one row, forward and backward (three forwards): 2 a matrix weight and token, causal attention, the
    head at answer positions only."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    weights = shape.hidden_size * (2 * queries + 2 * keys + 3 * shape.intermediate_size)
    attention = 4 * queries * length * (length + 1) // 2
    forward = shape.layers * (2 * weights * length + attention) + 2 * shape.hidden_size * len(VOCABULARY) * answered
    return 3 * forward
