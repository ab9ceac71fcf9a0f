"""The stage that trains a host of our own."""

from pathlib import Path
from typing import Any

from prefect import task

from tasks._progress import progress


@task(name="pretrain-host")
def pretrain_host(name: str, folder: str) -> dict[str, Any]:
    """Train the described host `name` into `folder`; returns its hash, parameters, tokens, FLOPs and seconds."""
    from evolora_core.language.hosts.pretrain_config import pretrain_config
    from evolora_core.pretraining.training import pretrain

    config = pretrain_config(name)
    with progress(f"pretrain {name}", lead=f"pretrain {name}: ") as report:
        host = pretrain(config, Path(folder), lambda own: report(own.step, own.steps, f"loss {own.loss:.3f}"))
    return {
        "folder": str(host.folder),
        "weights_sha256": host.weights_sha256,
        "parameters": host.parameters,
        "tokens": host.tokens,
        "flops": host.flops,
        "seconds": host.seconds,
    }
