"""The benchmarks of speed, on work so small that only their arithmetic is looked at."""

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evolora_core.errors import ConfigError, StageError
from evolora_core.searches.adapters.experiment import load_suite
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.host.training import TrainSpec
from evolora_core.searches.attention.known.registry import get_known
from flows.bench import attention, baselines, ecology, engine, workload
from flows.bench.workload import Size
from flows.cli import bench as cli


def test_the_engine_is_compared_with_every_other_way() -> None:
    rows: Any = engine.measure("nano", "cpu", "float32", [Size(2, 3, 4, 12, 3, 4)], repeats=1, threads=1, only=[])
    found = {row["measure"].removeprefix("2 × 3 "): row for row in rows}
    compared = [row for row in rows if row["other"] is not None]
    assert len(compared) == 7 and all(
        row["ratio"] == pytest.approx(row["ours"] / row["other"], rel=1e-2) for row in compared
    )
    assert {"training against matmuls", "prefill against matmuls"} <= found.keys()
    shares = [row["ours"] for name, row in found.items() if name.startswith("prefill:")]
    assert len(shares) == 7 and math.isclose(sum(shares), 1, abs_tol=0.05)
    assert found["memory of an organelle"]["ours"] == pytest.approx(3 * 4 * adapter_parameters() * 4 / 2**20, rel=1e-3)


def test_peft_computes_in_the_numbers_of_the_host() -> None:
    for dtype in ("float32", "bfloat16"):
        load = workload.make_workload("nano", "cpu", dtype, Size(2, 1, 2, 12, 3, 4))
        kinds = {own.dtype for name, own in baselines.as_peft(load).named_parameters() if "lora_" in name}
        assert kinds == {load.host.dtype}


def test_prompts_that_do_not_fit_the_host_are_named() -> None:
    with pytest.raises(ConfigError, match="--prompt-tokens 4000: .* more than the context of nano, 2048"):
        engine.measure("nano", "cpu", "float32", [Size(1, 1, 2, 4000, 3, 4)], repeats=1, threads=1, only=[])


def test_an_evaluation_that_is_refused_is_no_measurement(tmp_path: Path) -> None:
    corpus, spec = make_corpus(CorpusSettings(train=64, held_out=8, context=32), 0), TrainSpec(1, 2, 32, 0.004, 0)
    with pytest.raises(StageError, match="bench attention at size xs: the program was refused"):
        attention._evaluate(attention.Here(), "mixer = None", "xs", spec, corpus, tmp_path)
    (folder,) = tmp_path.iterdir()
    attention._evaluate(attention.Here(), get_known("rope").source, "xs", spec, corpus, tmp_path)
    assert {*tmp_path.iterdir()} > {folder}  # each has a folder of its own


def adapter_parameters() -> Any:
    """Of rank 1: in + out features of all adapted layers."""
    from evolora_core.language.flops import FlopModel
    from evolora_core.language.hosts.host import load_host

    return FlopModel.from_model(load_host("nano").model).adapter


def test_an_ecology_is_timed_by_phase_and_size() -> None:
    points = ecology.measure(
        load_suite("configs/suites/tiny.yaml", []),
        ["nano"],
        generations=1,
        standard={"population": 4, "episodes": 8, "rank": 2},
        grid={"population": (2, 4), "episodes": (8, 16), "rank": (2, 4)},
    )
    assert [point.size["population"] for point in points] == [4, 2, 4, 4]
    for point in points:
        assert min(point.phases.values()) > 0
        assert sum(point.phases.values()) == pytest.approx(point.seconds)
    rows: Any = ecology.table(points, "cpu, float32")
    assert {row["note"] for row in rows} == {"cpu, float32"}
    assert sum(row["ours"] for row in rows if row["unit"] == "of its time") == pytest.approx(1, abs=1e-3)
    assert sum(row["measure"].startswith("seconds grow as") for row in rows) == 3
    assert len(ecology.plot(points).axes) == 3


def test_an_ecology_is_measured_where_its_suite_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def load(word: str, **where: Any) -> Any:
        asked.update(where, host=word)
        raise InterruptedError

    monkeypatch.setattr(ecology, "load_host", load)
    with pytest.raises(InterruptedError):
        cli.ecology(suite=Path("configs/suites/tiny.yaml"), settings=["host=nano-nine", "device=cuda:1", "dtype=auto"])
    assert asked == {"host": "nano-nine", "device": "cuda:1", "dtype": "auto"}


def test_commits_are_weighed_early_and_late() -> None:
    from evolora_core.language.hosts.host import load_host

    config = load_suite("configs/suites/tiny.yaml", [])
    early, late = ecology.measure_commits(config, load_host("nano"), at=(3, 12), repeats=2)
    assert (early.generation, late.generation) == (3, 12) and min(early.milliseconds, late.milliseconds) > 0
    assert late.state_bytes < 1.02 * early.state_bytes and late.row_bytes < 1.2 * early.row_bytes
    rows: Any = ecology.commit_rows([early, late], "cpu, float32")
    assert [row["ratio"] for row in rows[:3]] == [1, 1, 1] and {row["unit"] for row in rows} == {"ms", "KiB"}


def test_an_ecology_of_rows_of_one_s_own_is_measured_too() -> None:
    config = load_suite("configs/suites/own-tasks.yaml", [])
    assert {item.family for item in ecology._practised(config)} == {*config.data.train_families}


def test_the_fitted_power_is_that_of_the_line() -> None:
    assert ecology.exponent([(1, 3.0), (10, 300.0), (100, 30000.0)]) == pytest.approx(2)


def test_the_best_of_equal_programs_is_ahead_by_chance() -> None:
    from flows.bench.attention_placebo import expected_best

    values = np.array([0.3, -1.0, 0.0, 2.0])
    assert expected_best(values, 1) == pytest.approx(values.mean())
    pairs = [max(pair) for pair in itertools.product(values, repeat=2)]
    assert expected_best(values, 2) == pytest.approx(np.mean(pairs))
