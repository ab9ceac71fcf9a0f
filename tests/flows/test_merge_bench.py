"""The benchmark of merges, on models so small that only its arithmetic is looked at."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny_merges import family_folders

from evolora_core.errors import StageError
from evolora_core.searches.merging.check import check_models
from flows.bench import merge, merge_disk, merge_process
from flows.cli import main

SHAPE = {"hidden": 48, "layers": 2, "vocabulary": 96, "models": 2}


def settings(**changes: Any) -> dict[str, Any]:
    return {**SHAPE, "folders": [], "dtype": "bfloat16", "only": []} | changes


@pytest.mark.parametrize("hidden", [48, 32])
def test_models_are_made_that_can_be_merged(tmp_path: Path, hidden: int) -> None:
    about = merge_process.prepare(tmp_path, settings(hidden=hidden))
    words = [str(tmp_path / "large" / f"model-{number}") for number in range(3)]
    report = check_models(words[1:], words[0])
    assert report.mergeable and not report.warnings and len(about["operators"]) == 5
    assert about["weights"] == report.rows[0]["parameters"] and about["models"] == 2
    assert report.rows[0]["drift"] == pytest.approx(merge.STEP / merge.SPREAD, rel=0.1)
    assert abs(report.rows[0]["cosine to model-2"]) < 0.1


@pytest.mark.filterwarnings("ignore")  # of mergekit and what it uses
@pytest.mark.parametrize("operator", ["linear", "task_arithmetic", "ties", "model_stock"])
def test_both_ways_do_the_same_work(tmp_path: Path, operator: str) -> None:
    merge_process.prepare(tmp_path, settings(only=[operator], dtype="float32"))
    found = []
    for way, make in merge_process.WAYS.items():
        make(tmp_path / "large" / operator, tmp_path / way)
        files = sorted((tmp_path / way).glob("*.safetensors"))
        found.append({name: own for file in files for name, own in load_file(file).items()})
    ours, mergekits = found
    assert ours.keys() == mergekits.keys()
    assert all(torch.allclose(ours[name], mergekits[name], atol=1e-6) for name in ours)


@pytest.mark.slow
def test_from_disk_to_disk_in_processes() -> None:
    rows: Any = merge_disk.measure(SHAPE, [], "bfloat16", repeats=1, threads=1, only=["dare_ties"])
    speed, peak = rows
    assert (speed["measure"], peak["measure"]) == ("dare_ties, disk to disk", "dare_ties, peak memory")
    assert speed["ratio"] == pytest.approx(speed["ours"] / speed["other"], rel=1e-2) and speed["ours"] > 0
    assert min(peak["ours"], peak["other"]) > 50 and "2 models of 0.1 M weights" in speed["note"]


@pytest.mark.slow
def test_own_folders_by_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = family_folders(tmp_path, "llama")
    folders = [word for name in ("base", "a", "b") for word in ("--folder", words[name])]
    with pytest.raises(SystemExit) as end:
        main(["bench", "merge", *folders, "--only", "linear", "--repeats", "1", "--threads", "1", "--json"])
    assert not end.value.code
    rows = json.loads(capsys.readouterr().out)
    assert [row["measure"] for row in rows] == ["linear, disk to disk", "linear, peak memory"]


def test_what_goes_wrong_in_a_process_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(StageError, match="bench merge: prepare: .*no-such-model") as error:
        merge_disk.measure(SHAPE, ["nano", "no-such-model", "nano"], "float32", 1, 1, ["linear"])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("more", [["--folder", "nano"], [*["--folder", "nano"] * 3, "--where", "memory"]])
def test_too_few_folders(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["bench", "merge", *more])
    assert end.value.code == 1 and "--folder takes a base and two models" in capsys.readouterr().err


def test_in_memory() -> None:
    rows: Any = merge.measure(48, 2, 96, 2, 1, 0, ["linear", "ties"])
    assert [row["measure"] for row in rows] == ["linear", "ties"] and all(row["ratio"] > 0 for row in rows)
