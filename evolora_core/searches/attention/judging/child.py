"""What runs in a child process of the sandbox: the entries `measure` and `ladder`.

Everything that is needed is imported above, since a confined child can read no more modules. The parent's reading of a
result takes nothing for granted: from the moment that a program is loaded, this process is the program's.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.host.flops import cost_of, cost_of_step, operations_of_forward
from evolora_core.searches.attention.host.model import Decoder, build
from evolora_core.searches.attention.host.training import batch_of, train
from evolora_core.searches.attention.judging.causality import CELLS, check_trained
from evolora_core.searches.attention.judging.forms import check_alone, check_modes
from evolora_core.searches.attention.judging.job import (
    LOGITS,
    PREFIXES,
    RESULT,
    STATE,
    TRAIN,
    LadderJob,
    MeasureJob,
    source_of,
)
from evolora_core.searches.attention.judging.ladder import climb
from evolora_core.searches.attention.judging.loading import failed, load_program
from evolora_core.searches.attention.judging.state import check_unchanged, snapshot
from evolora_core.searches.attention.judging.surroundings import check_untouched, surroundings
from evolora_core.searches.attention.programs.reading import Step
from evolora_core.searches.attention.programs.rejection import Rejected

_BATCH = 256  # prefixes at once, at most
_MORE = 1.05  # times the operations of a forward in training that one with which answers are made may take


def ladder(folder: Path) -> None:
    """Examine the program in the folder. The result holds the steps so far, so that it outlives a kill."""
    _without_shortcuts()
    job, source = LadderJob.read(folder), source_of(folder)

    def report(steps: Sequence[Step]) -> None:
        _write(folder, {"steps": [asdict(step) for step in steps]})

    framework = get_framework(job.framework) if job.framework is not None else None
    climb(source, framework, job.sizes, job.context, job.baseline, job.vocab, report)


def measure(folder: Path) -> None:
    """Train the program in the folder and answer the prefixes."""
    _without_shortcuts()
    try:
        _write(folder, _measured(folder))
    except Rejected as error:
        _write(folder, {"status": "rejected", "stage": error.stage, "reason": error.reason, "place": error.place})


def _without_shortcuts() -> None:
    """Attention layers of torch run as the operations that are counted, in evaluation too."""
    torch.backends.mha.set_fastpath_enabled(False)


def _measured(folder: Path) -> dict[str, Any]:
    job = MeasureJob.read(folder)
    rows, asked = load_file(folder / TRAIN)["train"], load_file(folder / PREFIXES)
    before = surroundings()
    program = load_program(source_of(folder))
    try:
        cost = cost_of_step(program, job.size, job.vocab, job.spec.batch, job.spec.context)
        model = build(program, job.size, job.vocab, job.seed)
    except Exception as error:
        raise failed("build", error, f"at size {job.size.name}") from error
    try:
        attention = torch.nn.ModuleList(model.get_submodule(f"blocks.{n}.attention") for n in range(job.size.layers))
        remembered = snapshot(attention, learned=True)
        steps = len(train(model, rows, job.spec, job.seed, state=folder / STATE))
        check_untouched(before, "train")
        check_unchanged(remembered, attention, "train", f"at size {job.size.name}", learned=True)
        batch = batch_of(rows, job.spec, job.seed, 0)
        trains = check_alone(finite(model), batch[:, :-1])  # as it was trained
        model.eval()
        check_trained(finite(model), rows[:1, :-1].long(), rows[1:2, :-1].long())
        flops = max(cost.flops, flops_of(model, batch))
        check_modes(trains, finite(model)(batch[:, :-1]))
        logits = answers(model, asked["prefixes"].long(), asked["lengths"].long())
    except Exception as error:
        raise failed("train", error, f"at size {job.size.name}") from error
    save_file({"logits": logits.float().contiguous()}, folder / LOGITS)
    return {
        "status": "ok",
        "parameters": cost.parameters,
        "flops_step": flops,
        "steps": steps,
    }


def flops_of(model: Decoder, batch: torch.Tensor) -> int:
    """Operations of a training step of a trained model, whose parameters may have opened what the new one left out.
    Rejected where it does more to answer, of which a third of a step is charged. Leaves it in evaluation mode.
    """
    flops = cost_of(model, batch).flops
    trains, answers = (operations_of_forward(model, batch[:, :-1], training) for training in (True, False))
    if answers > _MORE * trains:
        raise Rejected("cost", f"a forward in evaluation takes {answers / trains:.2f} times that in training")
    return flops


def finite(model: Decoder) -> Callable[[torch.Tensor], torch.Tensor]:
    """The model, which raises Rejected where its output has NaN or infinity."""

    def call(tokens: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = model(tokens)
        if not torch.isfinite(logits).all():
            raise Rejected("train", "the trained model returns NaN or infinity", f"tokens {list(tokens.shape)}")
        return logits

    return call


def answers(model: Decoder, prefixes: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """Logits `[M, vocab]` behind each prefix.

    Prefixes of like lengths go together, cut off behind the longest of them, which saves half the work; of a long
    context fewer at once, as memory allows. Rejected where the answer to one hangs on the others.
    """
    batch = max(1, min(_BATCH, CELLS // prefixes.shape[1] ** 2))
    order = torch.argsort(lengths, stable=True)
    found: list[torch.Tensor] = []
    with torch.no_grad():
        for chosen in order.split(batch):
            ends = lengths[chosen]
            logits = check_alone(model, prefixes[chosen, : int(ends.max())])
            found.append(logits[torch.arange(len(chosen)), ends - 1])
    result = torch.empty_like(together := torch.cat(found))
    result[order] = together
    return result


def _write(folder: Path, result: dict[str, Any]) -> None:
    """Written under another name first: a process that is killed leaves a whole result."""
    (folder / "unfinished.json").write_text(json.dumps(result), encoding="utf-8")
    (folder / "unfinished.json").rename(folder / RESULT)
