"""The host of a stage; the last one used stays loaded in its process."""

from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch

from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.stage import Work
from evolora_core.errors import StageError
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.hosts.host import Host, MemoryPlan, load_host


def stage_host(work: Work[Any]) -> Host:
    """The host that a stage's work names. What one stage found of its memory is not the next one's. Torch computes with
    the suite's threads from here on.
    """
    assert work.host is not None, "the stage asked for no host"
    torch.set_num_threads(work.host.threads)
    return replace(_load(work.host.word, work.host.device, work.host.dtype, work.host.files), memory_plan=MemoryPlan())


def drop_host() -> None:
    """Keep no host in this process, where its memory is wanted by another one."""
    _load.cache_clear()


@lru_cache(maxsize=1)
def _load(word: str, device: str, dtype: str, files: str) -> Host:
    """Raises StageError where the files are others than those in the identity of the stage."""
    host = load_host(word, device=device, dtype=dtype)
    path = find_host(word).path
    if host_files_hash(path) != files:
        raise StageError(f"{path}: was changed while the suite runs; run it again, with the host as it is then")
    return host
