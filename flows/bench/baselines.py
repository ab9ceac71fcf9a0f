"""How others do the engine's work: transformers' own `generate`, and PEFT one adapter at a time or mixed in a batch."""

import copy
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor

from evolora_core.lora.population.peft_io import export_peft
from flows.bench.workload import Workload


def generate(load: Workload, model: torch.nn.Module, rows: Sequence[int], **options: object) -> Tensor:
    """Greedy answers of a fixed length to rows that are padded to one batch."""
    width = max(len(load.prompts[row]) for row in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        prompt = load.prompts[row]
        ids[number, width - len(prompt) :] = torch.tensor(prompt)
        mask[number, width - len(prompt) :] = 1
    with torch.inference_mode():
        result: Tensor = model.generate(  # type: ignore[operator]
            input_ids=ids.to(load.host.device),
            attention_mask=mask.to(load.host.device),
            max_new_tokens=load.new_tokens,
            min_new_tokens=load.new_tokens,
            do_sample=False,
            pad_token_id=load.host.pad_id,
            **options,
        )
        return result


def batches(load: Workload) -> list[list[int]]:
    """All rows by length, in batches as large as the engine's."""
    order = sorted(range(len(load.prompts)), key=lambda row: len(load.prompts[row]))
    return [order[start : start + load.batch_rows] for start in range(0, len(order), load.batch_rows)]


def transformers_generate(load: Workload) -> None:
    """Answer all rows without adapters."""
    for rows in batches(load):
        generate(load, load.host.model, rows)


def as_peft(load: Workload) -> PeftModel:
    """A copy of the host with every organelle's adapter loaded, named by its slot, in the host's number format: PEFT
    would keep float32 beside a host in bfloat16, which is more work than ours.
    """
    with tempfile.TemporaryDirectory(prefix="evolora-bench-") as folder:
        model: PeftModel | None = None
        for slot in range(load.population.capacity):
            place = Path(folder) / str(slot)
            export_peft(load.population.get(slot), load.host, place)
            if model is None:
                own = copy.deepcopy(load.host.model)
                model = PeftModel.from_pretrained(own, place, adapter_name=str(slot), is_trainable=True)
            else:
                model.load_adapter(place, adapter_name=str(slot), is_trainable=True)
    assert model is not None
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = parameter.data.to(load.host.model.dtype)
    return model.eval()


def peft_mixed(load: Workload, model: PeftModel) -> None:
    """Answer all rows in mixed batches: PEFT's `adapter_names`."""
    for rows in batches(load):
        generate(load, model, rows, adapter_names=[str(load.slots[row]) for row in rows])


def peft_one_by_one(load: Workload, model: PeftModel, rows: Sequence[int]) -> None:
    """Answer some rows, each alone with its adapter switched on."""
    for row in rows:
        model.set_adapter(str(load.slots[row]))
        generate(load, model, [row])


def peft_steps(load: Workload, model: PeftModel, rate: float) -> None:
    """A step of AdamW for one organelle after the other, each over a batch of its rows."""
    for slot in range(load.population.capacity):
        model.set_adapter(str(slot))
        own = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(own, lr=rate, weight_decay=0.0)
        texts = [load.prompts[row] + load.answers[row] for row in load.of(slot)]
        width = max(map(len, texts))
        ids = torch.tensor([text + [load.host.pad_id] * (width - len(text)) for text in texts])
        real = torch.tensor([[1] * len(text) + [0] * (width - len(text)) for text in texts])
        answer = real.cumsum(dim=1) > torch.tensor([len(load.prompts[row]) for row in load.of(slot)])[:, None]
        labels = torch.where(answer & (real > 0), ids, -100)
        device = load.host.device
        loss = model(input_ids=ids.to(device), attention_mask=real.to(device), labels=labels.to(device)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(own, 1.0)
        optimizer.step()
