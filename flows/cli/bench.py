"""`evolora bench …`."""

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter, validators

from evolora_core.engine.home import home_path, prepare_home
from evolora_core.errors import ConfigError
from flows.cli._app import AnyId, AtLeastOne, FromZero, Json, Settings, show

Measure = Literal["generate", "transformers", "mixed", "single", "train", "prefill", "merge", "memory"]
AtLeastTwo = Parameter(validator=validators.Number(gte=2, lte=1000))
MergeOperator = Literal["linear", "task_arithmetic", "ties", "dare_ties", "model_stock"]
MergePlace = Literal["disk", "memory"]
MergeDtype = Literal["float32", "bfloat16", "float16"]
Suite = Annotated[Path, Parameter(help="The suite to run.")]


def register(app: App) -> None:
    """Add the commands."""
    bench = App(
        name="bench", help="Benchmarks: a table, kept in the store (`evolora sql 'from benchmarks'`).", help_epilogue=""
    )
    app.command(bench)
    bench.command(engine, help_epilogue="Example: `evolora bench engine --host nano --population 16 --population 64`")
    bench.command(merge, help_epilogue="Example: `evolora bench merge --layers 30 --vocabulary 49152`")
    bench.command(placebo, help_epilogue="Example: `evolora bench placebo --runs 100`")
    bench.command(attention, help_epilogue="Example: `evolora bench attention --size xs --size m`")
    bench.command(attention_placebo, help_epilogue="Example: `evolora bench attention-placebo --runs 100`")
    bench.command(ecology, help_epilogue="Example: `evolora bench ecology --host nano`")
    bench.command(orchestration, help_epilogue="Example: `evolora bench orchestration --set 'seeds=[0]'`")
    bench.command(faults, help_epilogue="Example: `evolora bench faults --kills 5`")
    bench.command(history, help_epilogue="Example: `evolora bench history engine --last 5`")


def engine(
    *,
    host: Annotated[str, Parameter(help="Host: a name, a hub id or a folder.")] = "nano",
    population: Annotated[list[int], Parameter(help="Organelles; may be repeated."), AtLeastOne] = [16],  # noqa: B006
    rows: Annotated[int, Parameter(help="Prompts of each organelle."), AtLeastOne] = 16,
    rank: Annotated[int, Parameter(help="Rank of every adapter."), AtLeastOne] = 8,
    prompt_tokens: Annotated[int, Parameter(help="Mean length of the prompts."), AtLeastOne] = 64,
    shared_tokens: Annotated[int, Parameter(help="Tokens that all prompts begin with, like a template."), FromZero] = 0,
    new_tokens: Annotated[int, Parameter(help="Length of the answers."), AtLeastOne] = 16,
    batch_rows: Annotated[int, Parameter(help="Prompts answered together, at most."), AtLeastOne] = 256,
    repeats: Annotated[int, Parameter(help="Runs of each way; the medians are compared."), AtLeastOne] = 3,
    threads: Annotated[int, Parameter(help="Torch threads; 0 = all cores."), FromZero] = 0,
    device: Annotated[str, Parameter(help="cpu, cuda, cuda:1, ...")] = "cpu",
    dtype: Annotated[str, Parameter(help="float32, bfloat16, float16, or auto: as measured.")] = "float32",
    only: Annotated[list[Measure] | None, Parameter(help="What to measure; may be repeated; all by default.")] = None,
    json: Json = False,
) -> None:
    """Generation and training of a whole population against the bare host, transformers and PEFT."""
    from flows.bench.engine import measure
    from flows.bench.workload import Size

    sizes = [Size(count, rows, rank, prompt_tokens, new_tokens, batch_rows, shared_tokens) for count in population]
    _keep("engine", measure(host, device, dtype, sizes, repeats, threads, only or []), json)


def merge(
    *,
    hidden: Annotated[int, Parameter(help="Width of the models."), AtLeastOne] = 576,
    layers: Annotated[int, Parameter(help="Their layers; SmolLM2-135M has 30."), AtLeastOne] = 12,
    vocabulary: Annotated[int, Parameter(help="Their tokens; SmolLM2-135M has 49152."), AtLeastOne] = 16384,
    models: Annotated[int, Parameter(help="Models to merge, beside the base."), AtLeastTwo] = 4,
    folder: Annotated[
        list[str] | None,
        Parameter(help="Model of your own, from disk alone; repeat it, the base first, then those that came from it."),
    ] = None,
    where: Annotated[
        list[MergePlace] | None,
        Parameter(help="disk: from folders to a folder; memory: operators alone; may be repeated; both by default."),
    ] = None,
    dtype: Annotated[MergeDtype, Parameter(help="Of the random models' folders, and of what is written.")] = "float32",
    repeats: Annotated[int, Parameter(help="Runs of each way; the medians are compared."), AtLeastOne] = 3,
    threads: Annotated[int, Parameter(help="Torch threads; 0 = all cores."), FromZero] = 0,
    only: Annotated[
        list[MergeOperator] | None, Parameter(help="Operators to measure; may be repeated; all by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Merging models with our operators and with mergekit, which it needs: from disk to disk, with peak memory, and in
    memory. Random models of the shape of SmolLM2 are made for it.
    """
    from flows.bench.merge_disk import measure as measure_disk

    if folder and (len(folder) < 3 or "memory" in (where or [])):
        raise ConfigError("bench merge: --folder takes a base and two models or more, and goes with --where disk")
    rows: list[dict[str, Any]] = []
    if "disk" in (where or ["disk"]):  # first: a process that is started counts our own memory as its
        shape = {"hidden": hidden, "layers": layers, "vocabulary": vocabulary, "models": models}
        rows += measure_disk(shape, folder or [], dtype, repeats, threads, only or [])
    if not folder and "memory" in (where or ["memory"]):
        from flows.bench.merge import measure

        rows += measure(hidden, layers, vocabulary, models, repeats, threads, only or [])
    _keep("merge", rows, json)


def placebo(
    *,
    runs: Annotated[int, Parameter(help="Whole comparisons of each kind."), AtLeastOne] = 100,
    seeds: Annotated[int, Parameter(help="Seeds of each; seven can decide three comparisons."), AtLeastOne] = 7,
    processes: Annotated[int, Parameter(help="Runs at a time."), AtLeastOne] = 2,
    json: Json = False,
) -> None:
    """Merge parents that are all the same model, and count the comparisons that (rightly) see no difference."""
    from flows.bench.placebo import measure

    _keep("placebo", measure(runs, seeds, processes), json)


def attention(
    *,
    program: Annotated[str, Parameter(help="A known mechanism.")] = "mha",
    size: Annotated[list[str], Parameter(help="Size; may be repeated.")] = ["xs", "s", "m", "l"],  # noqa: B006
    steps: Annotated[int, Parameter(help="Training steps."), AtLeastOne] = 300,
    batch: Annotated[int, Parameter(help="Rows of a step."), AtLeastOne] = 16,
    texts: Annotated[int, Parameter(help="Held-out texts."), AtLeastOne] = 2048,
    repeats: Annotated[int, Parameter(help="Runs of each way; the medians are compared."), AtLeastOne] = 3,
    json: Json = False,
) -> None:
    """Evaluations of an attention program per hour, and what the sandbox adds to the same work without it."""
    from evolora_core.searches.attention.host.sizes import SIZES

    for name in size:
        if name not in SIZES:
            raise ConfigError(f"bench attention: --size {name[:40]!r} is none of {', '.join(SIZES)}")
    from flows.bench.attention import measure_all

    _keep("attention", measure_all(program, size, steps, batch, texts, repeats), json)


def attention_placebo(
    *,
    mechanism: Annotated[list[str], Parameter(help="A known mechanism; may be repeated.")] = ["mha", "rope"],  # noqa: B006
    runs: Annotated[int, Parameter(help="Whole comparisons of each."), AtLeastOne] = 100,
    seeds: Annotated[int, Parameter(help="Pairs of seeds of each."), AtLeastOne] = 8,
    processes: Annotated[int, Parameter(help="Runs at a time."), AtLeastOne] = 2,
    json: Json = False,
) -> None:
    """Compare a mechanism with itself under other seeds, and count the comparisons that (rightly) see no difference."""
    from evolora_core.searches.attention.known.registry import get_known
    from flows.bench.attention_placebo import measure

    for name in mechanism:
        get_known(name)
    _keep("attention-placebo", measure(mechanism, runs, seeds, processes), json)


def ecology(
    *,
    suite: Suite = Path("configs/suites/quickstart.yaml"),
    settings: Settings = None,
    host: Annotated[
        list[str] | None,
        Parameter(help="Host; may be repeated; sizes vary on the first. By default the suite's."),
    ] = None,
    generations: Annotated[int, Parameter(help="Generations of each; the medians are compared."), AtLeastOne] = 3,
    json: Json = False,
) -> None:
    """Seconds per generation by phase, and how they grow with population, episodes, rank and host; and time and bytes
    of a commit, early and late in a long run.
    """
    from evolora_core.language.hosts.host import load_host
    from evolora_core.report.plots import save
    from evolora_core.searches.adapters.experiment import load_suite
    from flows.bench.ecology import commit_rows, measure, measure_commits, plot, table

    config = load_suite(suite, settings or [])
    words, place = host or [config.host], ", ".join([config.name, *(settings or []), config.device, config.dtype])
    points = measure(config, words, generations)
    commits = measure_commits(config, load_host(words[0], device=config.device, dtype=config.dtype))
    kept = _keep("ecology", table(points, place) + commit_rows(commits, f"{words[0]}, {place}"), json)
    print(f"plot: {save(plot(points), kept.parent, kept.stem)}", file=sys.stderr)


def orchestration(
    *,
    suite: Suite = Path("configs/suites/quickstart.yaml"),
    settings: Settings = None,
    repeats: Annotated[int, Parameter(help="Runs of each; the medians are compared."), AtLeastOne] = 1,
    json: Json = False,
) -> None:
    """Run a suite through Prefect, and its stage functions in a plain loop."""
    from evolora_core.searches.adapters.experiment import load_suite
    from flows.bench.orchestration import measure

    _keep("orchestration", measure(load_suite(suite, settings or []), repeats), json)


def faults(
    *,
    suite: Suite = Path("configs/suites/tiny.yaml"),
    settings: Settings = None,
    kills: Annotated[int, Parameter(help="Random moments at which each kind of process is killed."), AtLeastOne] = 10,
    seed: Annotated[int, Parameter(help="Seed of the random moments."), AnyId] = 0,
    only: Annotated[
        list[str] | None, Parameter(help="Part of the names of the faults to try; may be repeated.")
    ] = None,
    json: Json = False,
) -> None:
    """Do to a suite what a night can do to it; afterwards its tables must be those of an undisturbed run."""
    from evolora_core.searches.adapters.experiment import load_suite
    from flows.bench.faults import measure

    prepare_home()  # whose Prefect the victims share
    _keep("faults", measure(load_suite(suite, settings or []), kills, seed, only or []), json)


def history(
    bench: Annotated[str, Parameter(help="One benchmark; by default all.")] = "",
    /,
    *,
    last: Annotated[int, Parameter(help="Measurements of each ratio, the latest ones."), AtLeastOne] = 10,
    json: Json = False,
) -> None:
    """Ratios over time, each of two sides that were compared in one run: seconds of other hours or machines cannot be
    compared. `before` is the ratio of the same measure with the same settings the time before.
    """
    from evolora_core.report.benchmarks import history_rows

    rows = history_rows(home_path(), bench, last)
    if bench and not rows:
        raise ConfigError(f"bench history: nothing is recorded of {bench[:60]!r}; `evolora bench` lists the benchmarks")
    if not rows and not json:
        print("nothing was measured yet; `evolora bench` lists the benchmarks", file=sys.stderr)
    _show(rows, json)


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Print rows. A note that they share is said once, before them."""
    groups = [(note, list(found)) for note, found in groupby(rows, lambda row: row["note"])]
    if as_json or len(groups) > max(1, len(rows) // 2):
        show(rows, as_json)
        return
    for note, found in groups:
        print(note)
        show([{key: value for key, value in row.items() if key != "note"} for row in found], as_json)


def _keep(bench: str, rows: list[dict[str, Any]], as_json: bool) -> Path:
    """Print the rows and write them to a file and the store; returns the file."""
    from evolora_core.store import record_benchmark
    from flows.bench.machine import machine_facts

    if not rows:
        raise ConfigError(f"bench {bench}: nothing is measured with these options; ask for more, or for another --only")
    _show(rows, as_json)
    return record_benchmark(prepare_home(), bench, rows, machine_facts())
