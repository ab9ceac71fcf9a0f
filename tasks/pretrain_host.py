"""The stage that trains a host of our own."""

from pathlib import Path
from typing import Any

from prefect import get_run_logger, task


@task(name="pretrain-host")
def pretrain_host(name: str, folder: str) -> dict[str, Any]:
    """Train the described host `name` into `folder`; returns its hash, parameters, tokens, FLOPs and seconds."""
    from evolora_core.language.hosts.pretrain_config import pretrain_config
    from evolora_core.pretraining.training import PretrainStep, pretrain

    config = pretrain_config(name)
    logger = get_run_logger()

    def progress(step: PretrainStep) -> None:
        if step.step % 100 == 0 or step.step == step.steps:
            logger.info("step %d of %d, loss %.3f, %.0f s", step.step, step.steps, step.loss, step.seconds)

    report = pretrain(config, Path(folder), progress)
    return {
        "folder": str(report.folder),
        "weights_sha256": report.weights_sha256,
        "parameters": report.parameters,
        "tokens": report.tokens,
        "flops": report.flops,
        "seconds": report.seconds,
    }
