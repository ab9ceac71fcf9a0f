"""Stages that do next to nothing, for tests of how stages are run. A module of its own, since workers import it."""

import logging
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, RootModel

from evolora_core.engine.run_index import SuiteId
from evolora_core.engine.stage import HostUse, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.errors import ConfigError, StageError
from evolora_core.language.data import DataConfig
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.searches.adapters.settings.evaluation import EvaluationConfig


class Toy(RootModel[dict[str, Any]]):
    """What a toy stage is to do."""


class Counted(BaseModel):
    """What it counted, and where."""

    number: int
    pid: int


def toy_suite() -> Suite[SuiteConfig]:
    """A suite that no stage reads."""
    data = DataConfig(train_families=["math"], ood_families=["word.count"], retention_families=["logic.bool"])
    config = SuiteConfig(name="toy", data=data, evaluation=EvaluationConfig(comparisons=[]))
    host = HostUse(word="none", device="cpu", dtype="float32", threads=1, files="0", template={})
    return Suite(config, SuiteId("toy", "0123abcd"), host)


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
        config=Toy(config),
        inputs={f"s{result.seed}": result for result in inputs},
    )


def make(work: Work[Toy]) -> Made[Counted]:
    """Leaves number.txt: the seed plus the sum of its inputs; notes each execution in a file outside of the stage."""
    asked = work.config.root
    act = asked.get("act")
    if log := asked.get("log"):
        with open(log, "a") as file:
            file.write(f"{work.seed} {os.getpid()}\n")
    work.report(1, 2, "half way")
    if act == "fail":
        raise StageError("toy: asked to fail")
    if act == "warn":
        logging.getLogger("evolora_core.toy").warning("half as many")
    if act == "bug":
        raise ZeroDivisionError("a bug")
    if after := asked.get("after"):
        while executions(Path(after["log"])) < after["executions"]:
            time.sleep(0.05)
    if act == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "fault once" and not (work.folder / "tried").exists():
        (work.folder / "tried").write_text("")
        raise OSError("the disk hiccups")
    if act == "fault always":
        raise OSError("the disk is broken")
    number = work.seed + sum(int((folder / "number.txt").read_text()) for folder in work.inputs.values())
    (work.folder / "number.txt").write_text(str(number))
    return Made(10, Counted(number=number, pid=os.getpid()))


def executions(log: Path) -> int:
    """How often a stage body ran."""
    return len(log.read_text().splitlines()) if log.exists() else 0


count = Stage("count", toy_request, make)
