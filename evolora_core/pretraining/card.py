"""Measures a pretrained host on reserved prompts and writes its model card."""

from pathlib import Path

from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import get, grade
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.pretrain_config import PretrainConfig
from evolora_core.lora.population.generate import generate
from evolora_core.pretraining.data import Mixture
from evolora_core.pretraining.results import CellAccuracy, PretrainReport


def measure(host: Host, config: PretrainConfig, mixture: Mixture, items: list[Item]) -> tuple[CellAccuracy, ...]:
    """Greedy accuracy on each cell of the given items, in the order of its first item."""
    prompts = host.encode_prompts([item.prompt for item in items])
    new_tokens = config.measurement.max_new_tokens
    answers = generate(host, None, prompts, [-1] * len(items), max_new_tokens=new_tokens)
    asked: dict[tuple[str, str], int] = {}
    correct: dict[tuple[str, str], int] = {}
    for item, answer in zip(items, answers, strict=True):
        cell = (item.family, item.depth)
        asked[cell] = asked.get(cell, 0) + 1
        correct[cell] = correct.get(cell, 0) + grade(item, host.decode(answer.tokens)).correct
    share = dict(zip(mixture.cells, mixture.probability.tolist(), strict=True))
    return tuple(
        CellAccuracy(
            *cell, n=asked[cell], correct=correct[cell], chance=get(cell[0]).chance, share=share.get(cell, 0.0)
        )
        for cell in asked
    )


def write_card(path: Path, config: PretrainConfig, report: PretrainReport) -> None:
    """The model card, in Markdown, with the numbers of this very training."""
    path.write_text(_CARD.format(**_facts(config, report)) + _tables(report), encoding="utf-8")


def _facts(config: PretrainConfig, report: PretrainReport) -> dict[str, object]:
    shape, schedule = config.architecture, config.schedule
    return {
        "name": report.folder.name,
        "parameters": f"{report.parameters:,}",
        "shape": f"hidden {shape.hidden_size}, {shape.layers} layers, MLP {shape.intermediate_size}, "
        f"{shape.heads} heads of {shape.head_dim} ({shape.kv_heads} for keys and values), tied embeddings",
        "context": shape.context,
        "steps": f"{report.steps:,}",
        "rows": f"{report.rows:,}",
        "batch": schedule.rows,
        "muon": f"{schedule.muon_learning_rate:g}",
        "adamw": f"{schedule.adamw_learning_rate:g}",
        "decay": f"{schedule.decay_steps or schedule.steps:,}",
        "tokens": f"{report.tokens:,}",
        "flops": f"{report.flops:.2e}",
        "minutes": f"{report.seconds / 60:.1f}",
        "threads": config.threads,
        "seed": config.seed,
        "sha": report.weights_sha256,
        "n": config.measurement.items_per_cell,
    }


_CARD = """---
license: apache-2.0
library_name: transformers
pipeline_tag: text-generation
---
# {name}

A very small language model to experiment on: {parameters} parameters, Qwen3 architecture
({shape}),
context {context} tokens, a character tokenizer with byte fallback. It answers the task families of Evolora, some well
and some badly, on purpose: families that it half knows leave room to adapt, families that it knows show what adapting
destroys. It was never shown the families with 0.0% of the rows below, knows nothing else and is no assistant.
Written by `evolora host pretrain`, this page included.

```python
from transformers import AutoModelForCausalLM, AutoTokenizer

model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
```

| | |
|---|---|
| data | (prompt, gold answer) pairs of the families, weights in `pretrain.json`; no reserved prompt (a tenth) |
| loss | next token of the answer and its end, nothing else |
| steps | {steps} of {batch} rows ({rows} rows), Muon at {muon} and AdamW at {adamw}, cosine decay over {decay} |
| tokens | {tokens} without padding |
| FLOPs | {flops} (forward and backward, head at answer positions only) |
| time | {minutes} minutes, CPU threads: {threads} |
| seed | {seed} |
| SHA-256 of `model.safetensors` | `{sha}` |

Accuracy on reserved prompts, greedy decoding, exact grading, up to {n} a cell.
*Corrected* for chance: (accuracy − chance) / (1 − chance); below zero: not even in the form asked for.
"""


def _tables(report: PretrainReport) -> str:
    families: dict[str, list[CellAccuracy]] = {}
    for cell in report.accuracy:
        families.setdefault(cell.family, []).append(cell)
    lines = ["", "| family | rows seen | n | accuracy | corrected |", "|---|---|---|---|---|"]
    for family, cells in families.items():
        whole = pooled(cells)
        lines.append(f"| {family} | {whole.share:.1%} | {whole.n} | {whole.accuracy:.1%} | {whole.corrected:.1%} |")
    lines += ["", "| family | depth | rows seen | n | accuracy | corrected |", "|---|---|---|---|---|---|"]
    for cell in report.accuracy:
        figures = f"{cell.share:.1%} | {cell.n} | {cell.accuracy:.1%} | {cell.corrected:.1%}"
        lines.append(f"| {cell.family} | {cell.depth} | {figures} |")
    return "\n".join(lines) + "\n"


def pooled(cells: list[CellAccuracy]) -> CellAccuracy:
    """One family's cells as one, items counted alike."""
    return CellAccuracy(
        family=cells[0].family,
        depth="all",
        n=sum(cell.n for cell in cells),
        correct=sum(cell.correct for cell in cells),
        chance=cells[0].chance,
        share=sum(cell.share for cell in cells),
    )
