"""How near the population engine comes to the bare host, and how far it is ahead of the usual ways, in one run."""

import os
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from evolora_core.language.flops import FlopModel
from evolora_core.lora.population.generate import generate
from evolora_core.lora.population.merge import merge
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.train import StackedAdamW, build_batch, train_step
from flows.bench import baselines
from flows.bench.timing import Row, clocked, row, side_by_side
from flows.bench.workload import Size, Workload, make_workload

MEASURES = ("generate", "transformers", "mixed", "single", "train", "prefill", "merge", "memory")
SINGLES = 16  # prompts that PEFT answers one at a time; its rate does not depend on how many
RATE = 1e-4
SQUARE = 2048  # of the matrices that the machine's own rate is measured with
KINDS = {
    "matmuls of the host": ("aten::addmm", "aten::mm", "aten::linear"),
    "matmuls of the adapters": ("aten::bmm", "aten::baddbmm", "aten::baddbmm_"),
    "attention": ("scaled_dot_product", "flash_attention", "softmax"),
    "norms, activations, rotations": (
        "mul",
        "add",
        "silu",
        "pow",
        "mean",
        "rsqrt",
        "neg",
        "cat",
        "sigmoid",
        "tanh",
        "gelu",
    ),
    "copies": ("copy_", "clone", "index", "contiguous", "embedding", "fill_", "zero_"),
}


def measure(
    host: str, device: str, dtype: str, sizes: Sequence[Size], repeats: int, threads: int, only: Sequence[str]
) -> list[Row]:
    """Rows of every size and measure; `threads` 0 leaves torch's own number."""
    if threads:
        torch.set_num_threads(threads)
    wanted = only or MEASURES
    rows: list[Row] = []
    for size in sizes:
        load = make_workload(host, device, dtype, size)
        name = f"{size.population} × {size.rows}"
        note = (
            f"{host}, {dtype}, {device}, {torch.get_num_threads()} threads, rank {size.rank}, prompts of "
            f"{size.prompt_tokens} ({size.shared_tokens} shared), {size.new_tokens} new tokens, batches of "
            f"{size.batch_rows}; median of {repeats}"
        )
        for measured in _measured(load, repeats, wanted):
            rows.append({**measured, "measure": f"{name} {measured['measure']}", "note": note})
    return rows


def _measured(load: Workload, repeats: int, wanted: Sequence[str]) -> Iterator[Row]:
    yield from _generation(load, repeats, wanted)
    if "train" in wanted:
        yield from _training(load, repeats)
    if "prefill" in wanted:
        yield from _prefill(load, repeats)
    if "merge" in wanted:
        yield from _merging(load, repeats)
    if "memory" in wanted:
        organelle = load.population.weights[0].numel() * load.population.weights.element_size()
        yield row("memory of an organelle", 3 * organelle / 2**20, None, "MiB", "")


def _answer(load: Workload, slots: np.ndarray, new_tokens: int) -> None:
    generate(load.host, load.population, load.prompts, slots, max_new_tokens=new_tokens, batch_rows=load.batch_rows)


def _generation(load: Workload, repeats: int, wanted: Sequence[str]) -> Iterator[Row]:
    """Answers per second with adapters, against each other way."""
    count = len(load.prompts)
    bare = np.full(count, HOST)
    ways: dict[str, Callable[[], object]] = {"ours": lambda: _answer(load, load.slots, load.new_tokens)}
    answers = dict.fromkeys(["ours", "generate", "transformers", "mixed"], count)
    if "generate" in wanted:
        ways["generate"] = lambda: _answer(load, bare, load.new_tokens)
    if "transformers" in wanted:
        ways["transformers"] = lambda: baselines.transformers_generate(load)
    if "mixed" in wanted or "single" in wanted:
        model = baselines.as_peft(load)
        if "mixed" in wanted:
            ways["mixed"] = lambda: baselines.peft_mixed(load, model)
        if "single" in wanted:
            some = list(range(min(count, SINGLES)))
            answers["single"] = len(some)
            ways["single"] = lambda: baselines.peft_one_by_one(load, model, some)
    if len(ways) == 1:
        return
    seconds = side_by_side(ways, repeats, "generate")
    names = {
        "generate": "generation against the engine without adapters",
        "transformers": "generation against transformers without adapters",
        "mixed": "generation against PEFT's mixed batches",
        "single": "generation against PEFT one prompt at a time",
    }
    for way, text in names.items():
        if way in ways:
            yield row(text, count / seconds["ours"], answers[way] / seconds[way], "answers/s", "")


def _training(load: Workload, repeats: int) -> Iterator[Row]:
    """A step of all organelles at once against a step of one after the other, and against the machine's own matmuls."""
    model = baselines.as_peft(load)
    optimizer = StackedAdamW(load.population)
    rates = torch.full((load.population.capacity,), RATE)
    weights = np.ones(len(load.prompts))
    batch = build_batch(load.host, load.prompts, load.answers, load.slots, weights)
    ranks = load.population.ranks_of(batch.slots.numpy(force=True))
    flops = FlopModel.from_model(load.host.model).train_flops(batch.lengths, batch.answer_lengths, ranks).sum()

    def step() -> None:
        batch = build_batch(load.host, load.prompts, load.answers, load.slots, weights)
        train_step(load.host, load.population, batch, optimizer, rates, 1.0)

    ways, matmul_rate = with_matmul(load, {"ours": step, "peft": lambda: baselines.peft_steps(load, model, RATE)})
    seconds = side_by_side(ways, repeats, "train")
    count = len(load.prompts)
    yield row("training against PEFT one by one", count / seconds["ours"], count / seconds["peft"], "rows/s", "")
    yield row("training against matmuls", flops / seconds["ours"] / 1e9, matmul_rate(seconds), "GFLOP/s", "")


def with_matmul(
    load: Workload, ways: dict[str, Callable[[], object]]
) -> tuple[dict[str, Callable[[], object]], Callable[[dict[str, float]], float]]:
    """The ways and one more, a matmul of large squares; and what gives its GFLOP/s from the seconds of all."""
    square = torch.randn(SQUARE, SQUARE, device=load.host.device, dtype=load.host.dtype)
    return ways | {"matmul": lambda: square @ square}, lambda seconds: 2 * SQUARE**3 / seconds["matmul"] / 1e9


def _prefill(load: Workload, repeats: int) -> Iterator[Row]:
    """FLOP/s of the bare host's prefill against the machine's own matmuls, and what its time goes to."""
    bare = np.full(len(load.prompts), HOST)
    flops = FlopModel.from_model(load.host.model).generate_flops([len(prompt) for prompt in load.prompts], 1).sum()
    ways, matmul_rate = with_matmul(load, {"ours": lambda: _answer(load, bare, 1)})
    seconds = side_by_side(ways, repeats, "prefill")
    yield row("prefill against matmuls", flops / seconds["ours"] / 1e9, matmul_rate(seconds), "GFLOP/s", "")
    on_gpu = load.host.model.device.type == "cuda"
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as found:
        wall = clocked(ways["ours"])
    shares = dict.fromkeys([*KINDS, "other operations"], 0.0)
    for event in found.key_averages():
        if event.device_type.name != "CPU":  # a kernel, whose time its operator has, by the name of KINDS
            continue
        own = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        kind = next(
            (kind for kind, parts in KINDS.items() if any(part in event.key for part in parts)), "other operations"
        )
        shares[kind] += own / 1e6 / wall
    for kind, share in [*shares.items(), ("between operations", max(0.0, 1 - sum(shares.values())))]:
        yield row(f"prefill: {kind}", share, None, "of its time", "")


def _merging(load: Workload, repeats: int) -> Iterator[Row]:
    """Seconds of merging all organelles in pairs, and into one."""
    adapters = [load.population.get(slot) for slot in range(load.population.capacity)]
    if len(adapters) < 2:
        return
    rank, half = adapters[0].rank, len(adapters) // 2
    pairs = list(zip(adapters[:half], adapters[half:], strict=False))

    def merge_pairs() -> None:
        for pair in pairs:
            merge(pair, [0.5, 0.5], rank)

    every = [1 / len(adapters)] * len(adapters)
    for name, way in (
        (f"merging {half} pairs", merge_pairs),
        (f"merging {len(adapters)} into one", lambda: merge(adapters, every, rank)),
    ):
        way()
        yield row(name, median(clocked(way) for _ in range(repeats)), None, "s", "")
