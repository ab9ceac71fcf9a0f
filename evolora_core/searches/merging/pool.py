"""The models at hand in a run: the base and the parents, in memory, and how the base is talked to."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evolora_core.engine.stage import Work
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.language.hosts.kept import stage_host
from evolora_core.searches.merging.roles import BASE, MODEL, SOURCE, role
from evolora_core.searches.merging.weights import Loaded, Weights, check_unchanged, layers_in, open_loaded


@dataclass(frozen=True)
class Pool:
    """Base and parents. `models` has all of them by name, the base as `base`."""

    host: Host
    parents: tuple[str, ...]
    models: dict[str, Weights]

    @property
    def layers(self) -> int:
        """Layers of each model."""
        return layers_in(self.models[BASE].names)


def base_host(work: Work[Any]) -> Host:
    """The base of a seed: the one that its stage trained, or the suite's host."""
    trained = work.inputs[BASE] / MODEL
    if not trained.is_dir():
        return stage_host(work)
    import torch

    assert work.host is not None
    torch.set_num_threads(work.host.threads)
    return load_host(str(trained), device=work.host.device, dtype=work.host.dtype)


def pool_of(work: Work[Any], parents: Sequence[str]) -> Pool:
    """Base and parents from the folders of the stages that made them."""
    host = base_host(work)
    models: dict[str, Weights] = {BASE: Loaded.of(host.model)}
    for name in parents:
        models[name] = open_made(work.inputs[role(name)])
    return Pool(host, tuple(parents), models)


def open_made(folder: Path) -> Loaded:
    """The model of a parent's stage, in memory."""
    return open_loaded(source_of(folder))


def source_of(folder: Path, host: str = "") -> str:
    """Where the model of a stage is: in its folder, where source.json says, or else it is the host. HostError for a
    model of the user's that is no longer the one that the stage saw."""
    if (folder / MODEL).is_dir():
        return str(folder / MODEL)
    if (folder / SOURCE).is_file():
        told = json.loads((folder / SOURCE).read_text(encoding="utf-8"))
        check_unchanged(str(told["model"]), told["files"])
        return str(told["model"])
    return host
