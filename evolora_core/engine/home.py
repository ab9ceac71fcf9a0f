"""EVOLORA_HOME: the one folder that everything is written to, and the environment that keeps other libraries inside it.

Must be prepared before Prefect, Hugging Face libraries or matplotlib are imported: they read their environment on
import.
"""

import os
import tempfile
from pathlib import Path

from evolora_core.errors import StoreError

FOLDERS = ("runs", "hosts", "cache", "prefect")
PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def home_path() -> Path:
    """EVOLORA_HOME as an absolute path; by default `.evolora` of the working directory. Creates nothing."""
    return Path(os.environ.get("EVOLORA_HOME") or ".evolora").expanduser().absolute()


def prepare_home() -> Path:
    """Create EVOLORA_HOME, prove that it can be written, and set the environment. Raises StoreError in one line."""
    home = home_path()
    try:
        for name in FOLDERS:
            (home / name).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home):
            pass
    except OSError as error:
        raise StoreError(
            f"{home}: EVOLORA_HOME is not writable ({error.strerror}); set EVOLORA_HOME to a folder that is"
        ) from error
    set_environment(home)
    return home


def set_environment(home: Path) -> None:
    """Point caches, Prefect's home and its results into `home`, and switch telemetry off, unless the user chose
    otherwise."""
    os.environ["EVOLORA_HOME"] = str(home)  # absolute, for child processes with another working directory
    for name, value in environment(home).items():
        os.environ.setdefault(name, value)
    reach_this_machine()


def reach_this_machine() -> None:
    """Where requests go through a proxy, leave out those to this machine, where Prefect's server is."""
    if not any(os.environ.get(name) for own in PROXIES for name in (own, own.upper())):
        return
    passed = (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").split(",")
    passed = [name for name in map(str.strip, passed) if name]
    wanted = [name for name in ("127.0.0.1", "localhost") if name not in passed and "*" not in passed]
    os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join([*passed, *wanted])


def elsewhere() -> dict[str, str]:
    """The environment for a child with another home: this process's without what `set_environment` set."""
    own = environment(home_path())
    return {name: value for name, value in os.environ.items() if own.get(name) != value}


def environment(home: Path) -> dict[str, str]:
    """What `set_environment` sets."""
    return {
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_RESULTS_LOCAL_STORAGE_PATH": str(home / "prefect" / "results"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_LOGGING_EXTRA_LOGGERS": "evolora_core",  # a run's log has our lines too
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "DO_NOT_TRACK": "1",
        "HF_HOME": str(home / "cache" / "huggingface"),
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "MPLCONFIGDIR": str(home / "cache" / "matplotlib"),
        "TOKENIZERS_PARALLELISM": "false",  # its threads and our processes would fight, and it warns at every fork
    }
