"""What a generation of an ecology costs: seconds by phase, and how they grow with its size and its host; and what a
commit costs, after few generations and after many.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from tqdm import tqdm

from evolora_core.engine.commits import segment_of
from evolora_core.engine.probes import watch
from evolora_core.language.datasets import build_splits
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.language.tasks.pools import read_pools
from evolora_core.lora.answering.pricing import Prices, price
from evolora_core.report.plots import STYLE
from evolora_core.searches.adapters.ecology import evolve
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.regimes.registry import regime
from evolora_core.searches.adapters.ecology.run import Run
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.estimating import bytes_of
from flows.bench.timing import Row, row

STANDARD = {"population": 16, "episodes": 256, "rank": 8}
GRID = {"population": (4, 16, 64), "episodes": (64, 256, 1024), "rank": (2, 8, 32)}
# A run of many short generations, whose memories are full before the first of them that is looked at.
LONG_RUN = {"population": 4, "episodes": 16, "samples": 1, "ranks": [4]}
MEMORIES = 8
PHASES = ("generate", "grade", "learn", "merge", "record")


@dataclass
class Stopwatch:
    """Seconds of each phase without those of phases inside it."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PHASES, 0.0))
    _inner: list[float] = field(default_factory=list)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside as part of a phase."""
        started = time.perf_counter()
        self._inner.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - started
            self.seconds[name] += whole - self._inner.pop()
            if self._inner:
                self._inner[-1] += whole


@dataclass(frozen=True)
class Commit:
    """What a run has written by a commit: milliseconds that it took, bytes of its state and of the rows since the one
    before.
    """

    generation: int
    milliseconds: float
    state_bytes: int
    row_bytes: int


@dataclass(frozen=True)
class Point:
    """One ecology: its host and sizes, median seconds of a generation, and of each phase over all generations."""

    host: str
    parameters: int
    size: Mapping[str, int]
    seconds: float
    phases: Mapping[str, float]


def measure(
    config: SuiteConfig,
    hosts: Sequence[str],
    generations: int,
    standard: Mapping[str, int] = STANDARD,
    grid: Mapping[str, Sequence[int]] = GRID,
) -> list[Point]:
    """The standard ecology on each host, and on the first also those that differ from it in one size of the grid. The
    first generation does not count.
    """
    torch.set_num_threads(config.threads)
    items = _practised(config)
    sizes = [(host, dict(standard)) for host in hosts]
    sizes += [
        (hosts[0], {**standard, key: own}) for key, values in grid.items() for own in values if own != standard[key]
    ]
    points: list[Point] = []
    loaded: dict[str, tuple[Host, Prices]] = {}
    for word, size in tqdm(sizes, desc="ecologies", unit="run"):
        if word not in loaded:
            host = load_host(word, device=config.device, dtype=config.dtype)
            loaded[word] = host, price(host, items, config.ecology.practice, config.decoding, 0)
        points.append(_point(config, *loaded[word], items, size, generations))
    return points


def _point(
    config: SuiteConfig, host: Host, prices: Prices, items: list[Item], size: Mapping[str, int], generations: int
) -> Point:
    changes: dict[str, object] = {
        "population": size["population"],
        "episodes": size["episodes"],
        "ranks": [size["rank"]],
    }
    clock, seconds = Stopwatch(), []
    with TemporaryDirectory(prefix="evolora-bench-") as folder:
        run = _begun(config, Task(host, items, [], config.decoding, 0, prices), changes, Path(folder))
        evolve.generation(run)
        with watch(clock.phase):
            for _ in range(generations):
                started = time.perf_counter()
                evolve.generation(run)
                evolve.commit(run.state, run.checkpoints)  # a run commits once a minute at most
                seconds.append(time.perf_counter() - started)
    rest = sum(seconds) - sum(clock.seconds.values())
    return Point(host.name, host.identity["parameters"], size, median(seconds), clock.seconds | {"rest": rest})


def _practised(config: SuiteConfig) -> list[Item]:
    pools = read_pools(config.own_families)
    return build_splits(config.data, 0, pools)["train"]


def _begun(config: SuiteConfig, task: Task, changes: dict[str, object], folder: Path) -> Run:
    """An ecology with some settings changed, before its first generation."""
    ecology = EcologyConfig.model_validate(config.ecology.model_dump() | changes)
    return evolve.begin(task, ecology, Horizon(ecology.generations), regime("ecology"), folder)


def measure_commits(config: SuiteConfig, host: Host, at: Sequence[int] = (20, 400), repeats: int = 9) -> list[Commit]:
    """What a commit takes in runs that have committed after each of so many generations. The runs take turns, so that
    whatever else the machine does slows all of them; the times are medians.
    """
    torch.set_num_threads(config.threads)
    items = _practised(config)
    task = Task(host, items, [], config.decoding, 0, price(host, items, config.ecology.practice, config.decoding, 0))
    plasticity = config.ecology.plasticity.model_dump() | {"steps": 1, "batch_rows": 4, "buffer": MEMORIES}
    economy = config.ecology.economy.model_dump() | {"ticket": 0.0}  # so that nobody goes bankrupt
    changes: dict[str, object] = {**LONG_RUN, "plasticity": plasticity, "economy": economy, "trials": []}
    with TemporaryDirectory(prefix="evolora-bench-") as folder:
        runs = {generations: _begun(config, task, changes, Path(folder) / str(generations)) for generations in at}
        taken: dict[int, list[float]] = {generations: [] for generations in at}
        for generations, run in runs.items():
            for _ in tqdm(range(generations - 1), desc="before the commits", unit="generation"):
                _committed(run)
        for _ in range(repeats):
            for generations, run in runs.items():
                taken[generations].append(_committed(run))
        return [
            Commit(
                generations,
                1000 * median(taken[generations]),
                bytes_of(run.checkpoints / f"g{run.state.generation:06d}"),
                bytes_of(segment_of(run.checkpoints, run.state.generation)),
            )
            for generations, run in runs.items()
        ]


def _committed(run: Run) -> float:
    """Seconds of the commit after one more generation."""
    evolve.generation(run)
    started = time.perf_counter()
    evolve.commit(run.state, run.checkpoints)
    return time.perf_counter() - started


def commit_rows(commits: Sequence[Commit], place: str) -> list[Row]:
    """Time and bytes of each commit, beside those of the first; `place` is the host and the settings."""
    first, note = commits[0], f"{place}; beside it after {commits[0].generation} generations"
    rows = []
    for commit in commits:
        name = f"a commit after {commit.generation} generations"
        rows += [
            row(f"{name}: time", commit.milliseconds, first.milliseconds, "ms", note),
            row(f"{name}: state", commit.state_bytes / 1024, first.state_bytes / 1024, "KiB", note),
            row(f"{name}: new rows", commit.row_bytes / 1024, first.row_bytes / 1024, "KiB", note),
        ]
    return rows


def table(points: Sequence[Point], place: str) -> list[Row]:
    """Seconds and shares of the standard ecologies, which are like the first, seconds of the others, and the exponent
    of each growth; `place` is the suite, its settings, the device and the arithmetic.
    """
    rows = []
    for point in points:
        name = f"{point.host}, " + ", ".join(f"{key} {value}" for key, value in point.size.items())
        rows.append(row(f"{name}: a generation", point.seconds, None, "s", place))
        if point.size == points[0].size:
            whole = sum(point.phases.values())
            rows += [
                row(f"{name}: {phase}", own / whole, None, "of its time", place) for phase, own in point.phases.items()
            ]
    for key, line in growth(points).items():
        rows.append(row(f"seconds grow as {key} to the power of", exponent(line), None, "", place))
    return rows


def growth(points: Sequence[Point]) -> dict[str, list[tuple[float, float]]]:
    """For each size that varies, (size, seconds) of the ecologies that are standard otherwise."""
    same = [point for point in points if point.host == points[0].host]
    lines: dict[str, list[tuple[float, float]]] = {
        key: sorted((point.size[key], point.seconds) for point in same if _standard_but(point, points[0], key))
        for key in points[0].size
    }
    hosts: list[tuple[float, float]] = sorted(
        (point.parameters, point.seconds) for point in points if point.size == points[0].size
    )
    return lines | ({"parameters of the host": hosts} if len(hosts) > 1 else {})


def _standard_but(point: Point, standard: Point, key: str) -> bool:
    return all(value == standard.size[other] for other, value in point.size.items() if other != key)


def exponent(line: Sequence[tuple[float, float]]) -> float:
    """Slope of the least-squares line through the logarithms."""
    sizes, seconds = np.log(np.array(line)).T
    return float(np.polyfit(sizes, seconds, 1)[0])


def plot(points: Sequence[Point]) -> Figure:
    """Seconds of a generation by each size, on logarithmic axes, with the fitted power."""
    lines = growth(points)
    with matplotlib.rc_context(fname=STYLE):
        figure = Figure(figsize=(2.4 * len(lines), 2.8), layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(lines), sharey=True))
        for axis, (key, line) in zip(axes, lines.items(), strict=True):
            sizes, seconds = np.array(line).T
            slope = exponent(line)
            middle = np.exp(np.log(seconds).mean() - slope * np.log(sizes).mean())
            axis.loglog(sizes, seconds, "o")
            axis.loglog(sizes, middle * sizes**slope, "-", linewidth=1)
            axis.set(xlabel=key, title=f"power {slope:.2f}")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:g}")
            axis.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
            axis.xaxis.set_minor_locator(NullLocator())
        axes[0].set_ylabel("seconds a generation")
        return figure
