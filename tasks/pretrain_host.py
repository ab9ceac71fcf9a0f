"""The stage that trains a host of our own."""

from pathlib import Path
from typing import Any

from prefect import task

from evolora_core.errors import ConfigError
from tasks._progress import progress

RECORD = "pretrain.json"  # of how a host of ours was trained


def check_folder(folder: Path) -> None:
    """ConfigError for a folder in which files would be replaced that are no host's of ours."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RECORD).is_file():
        raise ConfigError(f"{folder}: holds something that is not a host of ours; name a new folder")


@task(name="pretrain-host")
def pretrain_host(name: str, folder: str) -> dict[str, Any]:
    """Train the described host `name` into `folder`; returns its hash, parameters, tokens, FLOPs and seconds."""
    from evolora_core.language.hosts.pretrain_config import pretrain_config
    from evolora_core.pretraining.training import pretrain

    config = pretrain_config(name)
    check_folder(Path(folder))
    with progress(f"pretrain {name}", lead=f"pretrain {name}: ") as report:
        host = pretrain(config, Path(folder), report)
    return {
        "folder": str(host.folder),
        "weights_sha256": host.weights_sha256,
        "parameters": host.parameters,
        "tokens": host.tokens,
        "flops": host.flops,
        "seconds": host.seconds,
    }
