"""Supervised fine-tuning that stays near its host."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_runs import CONFIG, train
from torch.utils.flop_counter import FlopCounterMode
from trl import SFTTrainer

from evolora_core.language.families.base import Item
from evolora_core.language.flops import FlopModel
from evolora_core.lora.population.lora import attached
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.labels import solved
from evolora_core.searches.adapters.rivals import answer_loss, sft
from evolora_core.searches.adapters.rivals.answer_loss import divergence
from evolora_core.searches.adapters.rivals.rows import tokenise
from evolora_core.searches.adapters.rivals.sft import row_flops


def weights(result: Any) -> Any:
    return load_file(result.adapter_folder / "adapter_model.safetensors")


def moved(host: Any, items: Any, result: Any) -> Any:
    """Mean KL(host ‖ adapter) at the answer tokens of the items, by the engine and not by PEFT."""
    rows = tokenise(host, solved(items))
    population = Population.empty(host, 1, CONFIG.rank, scale=CONFIG.scale)
    population.put(0, import_peft(result.adapter_folder, host))
    total, count = 0.0, 0
    for prompt, answer in zip(rows.prompts, rows.completions, strict=True):
        ids = torch.tensor([prompt + answer])
        with torch.no_grad(), attached(host.model, population) as adapters:
            adapters.rows(np.array([-1]))
            bare = host.model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
            adapters.rows(np.array([0]))
            own = host.model(input_ids=ids).logits[0, len(prompt) - 1 : -1]
        total, count = total + divergence(bare, own).sum().item(), count + len(answer)
    return total / count


def test_the_divergence_is_that_of_the_host_from_the_adapter() -> None:
    host, own = torch.tensor([[0.5, 0.25, 0.25]]), torch.tensor([[0.25, 0.25, 0.5]])
    expected = 0.5 * math.log(2) + 0.25 * math.log(0.5)
    assert divergence((host * 7).log(), own.log()).item() == pytest.approx(expected, rel=1e-5)
    assert divergence(host.log(), host.log()).item() == pytest.approx(0, abs=1e-6)


def test_without_a_weight_the_host_is_not_asked(
    host: Any, train_items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answer_loss, "divergence", None)  # called, it would fail
    result = train(host, train_items, tmp_path, steps=3.5)
    plain = FlopModel.from_model(host.model)
    rows = tokenise(host, solved(train_items))
    same = row_flops(plain, rows.lengths, rows.answers, CONFIG.rank, 0.0)
    assert (same == plain.train_flops(rows.lengths, rows.answers, CONFIG.rank)).all()
    assert len(result.steps) == 3


@pytest.mark.parametrize("kl", [0.0, 1e-12])
def test_the_loss_without_the_divergence_is_trl_s(
    host: Any, train_items: list[Item], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kl: float
) -> None:
    """Without a weight, or with one that weighs nothing: the same losses and weights as by TRL's own loss."""
    own = train(host, train_items, tmp_path / "own", steps=6.5, kl=kl)
    monkeypatch.setattr(sft._PlannedTrainer, "compute_loss", SFTTrainer.compute_loss)
    trls = train(host, train_items, tmp_path / "trl", steps=6.5)
    assert [row["loss"] for row in own.steps] == pytest.approx([row["loss"] for row in trls.steps], rel=1e-4)
    theirs = weights(trls)
    for name, tensor in weights(own).items():
        assert torch.allclose(tensor, theirs[name], atol=1e-4)


def test_a_large_weight_keeps_the_adapter_near_the_host(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    far, near = (
        moved(host, train_items, train(host, train_items, tmp_path / str(kl), steps=25.5, kl=kl))
        for kl in (0.0, 1000.0)
    )
    assert far > 5e-3  # little in nats: the host's random weights give nearly even odds, and so does any adapter
    assert near < far / 10


def test_what_the_host_reads_is_planned_and_counted(host: Any, train_items: list[Item], tmp_path: Path) -> None:
    result = train(host, train_items, tmp_path, steps=6.5, kl=0.1)
    bare = train(host, train_items, tmp_path / "bare", steps=6.5)
    update = result.meter.rows()[0]
    assert update["purpose"] == "update"
    assert update["flops"] == sum(row["flops"] for row in result.steps) == result.checkpoints[-1].flops
    assert len(result.steps) == len(bare.steps) and update["tokens"] == bare.meter.rows()[0]["tokens"]
    model, rows = FlopModel.from_model(host.model), tokenise(host, solved(train_items))
    extra = (result.meter.total() - bare.meter.total()) / (CONFIG.batch_rows * len(result.steps))
    assert model.score_flops(rows.lengths, rows.answers).min() <= extra
    assert extra <= model.score_flops(rows.lengths, rows.answers).max()
    assert result.steps[-1]["learning_rate"] < result.steps[1]["learning_rate"] / 4  # decayed where the budget ends


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_executed_flops_are_what_the_counter_counts(
    host: Any, train_items: list[Item], tmp_path: Path, kl: float
) -> None:
    host.model.set_attn_implementation("eager")  # whose matmuls are counted
    try:
        with FlopCounterMode(display=False) as counter:
            result = train(host, train_items, tmp_path, steps=2.5, kl=kl)
    finally:
        host.model.set_attn_implementation("sdpa")
    assert result.meter.rows()[0]["executed_flops"] == pytest.approx(counter.get_total_flops(), rel=0.03)
