"""Which arithmetic a machine is fast at."""

import json
import platform
import time
from pathlib import Path
from statistics import median
from typing import Any

from filelock import FileLock

from evolora_core.engine.artifacts import write_json
from evolora_core.engine.home import home_path
from evolora_core.errors import HostError

AUTO = "auto"
RECORD = "arithmetic.json"  # in EVOLORA_HOME: what was measured, so that the answer stays the same
GAIN = 1.5  # times as fast bfloat16 must be, for the digits that it costs
SIDE, REPEATS = 1024, 7  # of the matrices


def settled_dtype(dtype: str, device: str, *, keep: bool = True) -> str:
    """`dtype` itself; for `auto` bfloat16 where the device multiplies matrices much faster with it, else float32.

    That is measured once for each device and recorded in EVOLORA_HOME/arithmetic.json, unless `keep` is false. Raises
    HostError if that is damaged.
    """
    if dtype != AUTO:
        return dtype
    import torch

    accelerated = device.startswith("cuda")
    if accelerated and not torch.cuda.is_available():
        return "float32"  # loading the host says what is wrong
    name = torch.cuda.get_device_name(device) if accelerated else processor()
    key, path = f"{name}, torch {torch.__version__}", home_path() / RECORD
    if not keep:
        return str((_known(path).get(key) or _measured(device))["dtype"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):  # two that begin at once settle on the same, and keep each other's
        known = _known(path)
        if key not in known:
            known[key] = _measured(device)
            write_json(path, known)
    return str(known[key]["dtype"])


def _measured(device: str) -> dict[str, Any]:
    """What is recorded of a device."""
    rates = {kind: _gigaflops(kind, device) for kind in ("float32", "bfloat16")}
    faster = rates["bfloat16"] >= GAIN * rates["float32"]
    return {"gigaflops": rates, "dtype": "bfloat16" if faster else "float32"}


def _known(path: Path) -> dict[str, Any]:
    """What was recorded for each device."""
    try:
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        return {key: {"dtype": str(record["dtype"]), **record} for key, record in known.items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise HostError(f"{path}: damaged ({error}); remove it, and it is measured anew") from error


def _gigaflops(kind: str, device: str) -> float:
    """GFLOP/s of a product of square matrices, the median of a few."""
    import torch

    square = torch.ones(SIDE, SIDE, device=device, dtype=getattr(torch, kind))
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        (square @ square)[0, 0].item()  # waits for an accelerator too
        seconds.append(time.perf_counter() - started)
    return round(2 * SIDE**3 / median(seconds) / 1e9, 1)


def processor() -> str:
    """The model of the CPU."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
