"""How fast recipes become model folders, and with how much memory, beside mergekit with the same recipe.

Each merge runs in a process of its own, from folders to a folder; imports are not timed. This module imports no torch:
a process that is started has at least the memory of who starts it as its peak.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tqdm import tqdm

from evolora_core.errors import StageError
from evolora_core.foreign.text import one_line
from flows.bench.timing import Row, row

WAYS = ("ours", "mergekit")
PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss


def measure(
    shape: Mapping[str, int], folders: Sequence[str], dtype: str, repeats: int, threads: int, only: Sequence[str]
) -> list[Row]:
    """Weights merged per second by each operator, and the peak memory of the process in MiB; medians over `repeats`.

    shape     hidden, layers, vocabulary and models of random models, which are made for it, in `dtype`
    folders   models to merge instead, the base first: hosts, hub ids or folders
    threads   of torch; 0 leaves its own number
    """
    settings = {**shape, "folders": list(folders), "dtype": dtype, "only": list(only)}
    with tempfile.TemporaryDirectory(prefix="evolora-bench-") as name:
        folder = Path(name)
        about = _run("prepare", folder, json.dumps(settings))
        rows: list[Row] = []
        for operator in about["operators"]:
            found: dict[str, list[dict[str, Any]]] = {way: [] for way in WAYS}
            for repeat in tqdm(range(repeats), desc=f"{operator}, disk to disk", unit="round", leave=False):
                for way in WAYS if repeat % 2 == 0 else WAYS[::-1]:
                    found[way].append(_run(way, folder, operator, str(threads)))
            note = (
                f"{about['models']} models of {about['weights'] / 1e6:.1f} M weights and a base, {dtype}, from folders "
                f"to a folder, CPU, {found['ours'][0]['threads']} threads; median of {repeats}; other: mergekit"
            )
            rate = {way: about["weights"] / median(run["seconds"] for run in found[way]) / 1e6 for way in WAYS}
            peak = {way: median(run["peak"] for run in found[way]) / 2**20 for way in WAYS}
            rows.append(row(f"{operator}, disk to disk", rate["ours"], rate["mergekit"], "M weights/s", note))
            rows.append(row(f"{operator}, peak memory", peak["ours"], peak["mergekit"], "MiB, less is better", note))
    return rows


def _run(command: str, folder: Path, *words: str) -> dict[str, Any]:
    """What a process of `flows.bench.merge_process` says, and its peak memory in bytes."""
    log = folder / "log.txt"
    arguments = [sys.executable, "-m", "flows.bench.merge_process", command, str(folder), *words]
    with log.open("w+", encoding="utf-8", errors="replace") as file:
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=file)
        assert process.stdout is not None
        said = process.stdout.read().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stdout.close()
        if process.returncode:
            file.seek(0)
            reason = next((line for line in reversed(file.read().splitlines()) if line.strip()), "no reason given")
            raise StageError(f"bench merge: {command}: {one_line(reason, 300)}")
    document: dict[str, Any] = json.loads(said[-1])
    return document | {"peak": usage.ru_maxrss * PEAK_UNIT}
