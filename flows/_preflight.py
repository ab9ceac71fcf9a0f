"""What can be known to be wrong with a suite before any compute is spent.

Loads no Prefect, and torch only where `dtype: auto` asks what the machine is fast at.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evolora_core.config import SuiteConfig, config_hash, load_suite
from evolora_core.home import home_path
from evolora_core.hosts.arithmetic import settled_dtype
from evolora_core.hosts.catalog import find_host
from evolora_core.hosts.fetch import fetch_host
from evolora_core.hosts.host import check_device, load_host
from evolora_core.hosts.rehearsal import rehearse
from evolora_core.identity import host_files_hash
from evolora_core.pack_folder import check_place
from evolora_core.run_index import SuiteId, suites

SUITES = {  # the flows of suites, each with the file that it runs by default
    "paper-suite": "configs/suites/quickstart.yaml",
    "evo-vs-sft": "configs/suites/evo-vs-sft.yaml",
    "ood-suite": "configs/suites/ood.yaml",
}
OVERRIDE = r"^[A-Za-z_][\w.]*=.+"  # KEY=VALUE


def asked_suite(suite: str, overrides: Sequence[str] = (), host: str = "", seeds: Sequence[int] = ()) -> SuiteConfig:
    """The suite that the parameters of a run name: a file, or one that EVOLORA_HOME knows by its id. Raises
    ConfigError."""
    path = Path(suite)
    if not path.exists():
        known = [own for own in suites(home_path()) if str(own) == suite]
        path = known[0].index(home_path()) / "suite.json" if known else path
    changes = [*overrides, *([f"host={host}"] if host else []), *([f"seeds={list(seeds)}"] if seeds else [])]
    return load_suite(path, changes)


def suite_id(config: SuiteConfig) -> SuiteId:
    """Name and hash of a configuration."""
    return SuiteId(config.name, config_hash(config))


def check_suite(config: SuiteConfig, out: Path) -> None:
    """Raise the error with which the suite would end: a host that is not one, a store that is newer, a place for the
    pack that is taken.
    """
    check_place(out)
    check_store()
    identify_host(config)


def check_machine(config: SuiteConfig) -> None:
    """Raise HostError if the suite would compute here, on a device that is not there. Whoever submits a run, or leads a
    cluster, needs no device.
    """
    if config.workers == "processes" and config.device != "cpu":
        check_device(config.host, config.device)


def identify_host(config: SuiteConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """How the suite's host is loaded, and its identity. Fetches a host that is not here yet; raises HostError."""
    place = find_host(config.host)
    path = place.path if place.ready else fetch_host(config.host)
    dtype = settled_dtype(config.dtype, config.device)
    loading = {"word": config.host, "device": config.device, "dtype": dtype, "threads": config.threads}
    if not path.is_file() and not any(any(path.glob(pattern)) for pattern in ("*.safetensors", "*.gguf")):
        load_host(config.host, device=config.device, dtype=dtype)  # says best what is missing
    elif path.is_dir() and place.foreign:
        rehearse(path)
    identity = {
        "files": host_files_hash(path),
        "template": place.plain.model_dump(mode="json"),
        "dtype": dtype,
        "device": config.device.partition(":")[0],
        "threads": config.threads,
    }
    return loading, identity


def check_store() -> None:
    """Raise StoreError if there is a store that this version cannot write."""
    from evolora_core.store import query, store_path

    if store_path(home_path()).exists():
        query(home_path(), "SELECT 1")
