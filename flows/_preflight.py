"""What can be known to be wrong with a suite before any compute is spent.

Loads no Prefect, and torch only where `dtype: auto` asks what the machine is fast at.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from evolora_core.engine.artifacts import commit_seconds
from evolora_core.engine.home import home_path
from evolora_core.engine.identity import host_files_hash
from evolora_core.engine.run_index import suites
from evolora_core.engine.stage import HostUse
from evolora_core.language.hosts.arithmetic import settled_dtype
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.hosts.fetch import fetch_host
from evolora_core.language.hosts.host import check_device, load_host
from evolora_core.language.hosts.rehearsal import rehearse
from evolora_core.report.pack_folder import check_place
from evolora_core.searches.base import Experiment
from evolora_core.searches.registry import get_search, load_experiment

SUITES = {  # the flows of suites, each with the file that it runs by default
    "paper-suite": "configs/suites/quickstart.yaml",
    "evo-vs-sft": "configs/suites/evo-vs-sft.yaml",
    "ood-suite": "configs/suites/ood.yaml",
    "merge-evolution": "configs/suites/merge-quickstart.yaml",
    "attention-search": "configs/suites/attention-quickstart.yaml",
}
STORE_SECONDS = 2.0  # that the store is waited for: nothing is recorded before a stage has ended
OVERRIDE = r"^[A-Za-z_][\w.-]*=.+"  # KEY=VALUE


def asked_suite(suite: str, overrides: Sequence[str] = (), host: str = "", seeds: Sequence[int] = ()) -> Experiment:
    """The suite that the parameters of a run name: a file, or one that EVOLORA_HOME knows by its id. Raises
    ConfigError."""
    known = [own for own in suites(home_path()) if str(own) == suite]  # first: a pack may stand here under that name
    path = known[0].index(home_path()) / "suite.json" if known else Path(suite)
    changes = [*overrides, *([f"host={host}"] if host else []), *([f"seeds={list(seeds)}"] if seeds else [])]
    return load_experiment(path, changes)


def check_suite(config: Experiment, out: Path) -> None:
    """Raise the error with which the suite would end: a host that is not one, a store that is newer, a place for the
    pack that is taken, an environment variable that is no number.
    """
    commit_seconds()
    check_place(out)
    check_store()
    use_host(config)


def check_machine(config: Experiment) -> None:
    """Raise HostError if the suite would compute here, on a device that is not there. Whoever submits a run, or leads a
    cluster, needs no device.
    """
    host = get_search(config.search).host(config)
    if host and config.workers == "processes" and host.device != "cpu":
        check_device(host.word, host.device)


def use_host(config: Experiment, *, keep: bool = True) -> HostUse | None:
    """How the host of an experiment is loaded, and what of it decides results; None where it has none. Fetches a host
    that is not here yet; raises HostError. `keep`: what is measured for `dtype: auto` holds from now on.
    """
    host = get_search(config.search).host(config)
    if host is None:
        return None
    place = find_host(host.word)
    path = place.path if place.ready else fetch_host(host.word)
    dtype = settled_dtype(host.dtype, host.device, keep=keep)
    if not path.is_file() and not any(any(path.glob(pattern)) for pattern in ("*.safetensors", "*.gguf")):
        load_host(host.word, device=host.device, dtype=dtype)  # says best what is missing
    elif place.foreign:
        rehearse(path)
    return HostUse(
        word=host.word,
        device=host.device,
        dtype=dtype,
        threads=config.threads,
        files=host_files_hash(path),
        template=place.plain.model_dump(mode="json"),
    )


def check_store() -> None:
    """Raise StoreError if there is a store that this version cannot write."""
    from evolora_core.store.connection import Locked, opened, store_path

    path = store_path(home_path())
    if path.exists():
        with suppress(Locked), opened(path, read_only=True, wait=STORE_SECONDS):
            pass
