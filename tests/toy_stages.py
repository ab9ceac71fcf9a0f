"""Stages that do next to nothing, for tests of how stages are run. A module of its own, since workers import it."""

import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolora_core.engine.stage import Made, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.errors import ConfigError, StageError
from evolora_core.language.data import DataConfig
from evolora_core.run_index import SuiteId
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.settings.evaluation import EvaluationConfig
from tasks.stage import stage_task


def toy_suite() -> Suite:
    """A suite that no stage reads."""
    data = DataConfig(train_families=["math"], ood_families=["word.count"], retention_families=["logic.bool"])
    config = SuiteConfig(name="toy", data=data, evaluation=EvaluationConfig(comparisons=[]))
    return Suite(config, SuiteId("toy", "0123abcd"), {"word": "none", "device": "cpu"}, {"files": "0"})


def toy_request(
    seed: int, config: dict[str, Any], stage: str = "count", *, inputs: Sequence[StageResult] = ()
) -> StageRequest:
    """A stage that leaves a number, or does what `act` says."""
    if config.get("act") == "no request":
        raise ConfigError("toy: it cannot be asked for")
    return stage_request(
        toy_suite(),
        stage,
        "shared",
        seed,
        entry="evolora_core.errors",
        config=config,
        inputs={f"s{result.seed}": result for result in inputs},
    )


def make(work: Work) -> Made:
    """Leaves number.txt: the seed plus the sum of its inputs; notes each execution in a file outside of the stage."""
    act = work.config.get("act")
    if log := work.config.get("log"):
        with open(log, "a") as file:
            file.write(f"{work.seed} {os.getpid()}\n")
    work.report(1, 2, "half way")
    if act == "fail":
        raise StageError("toy: asked to fail")
    if act == "warn":
        logging.getLogger("evolora_core.toy").warning("half as many")
    if act == "bug":
        raise ZeroDivisionError("a bug")
    if after := work.config.get("after"):
        while executions(Path(after["log"])) < after["executions"]:
            time.sleep(0.05)
    if act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "fault once" and not (work.folder / "tried").exists():
        (work.folder / "tried").write_text("")
        raise OSError("the disk hiccups")
    number = work.seed + sum(int((folder / "number.txt").read_text()) for folder in work.inputs.values())
    (work.folder / "number.txt").write_text(str(number))
    return Made(flops=10, summary={"number": number, "pid": os.getpid()})


def executions(log: Path) -> int:
    """How often a stage body ran."""
    return len(log.read_text().splitlines()) if log.exists() else 0


count = stage_task("count", toy_request, make)
