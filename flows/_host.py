"""Who the host of a suite is, before torch is loaded."""

from typing import Any

from evolora_core.config import SuiteConfig
from evolora_core.hosts import fetch_host, find_host, load_host
from evolora_core.identity import host_files_hash


def identify_host(config: SuiteConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """How the suite's host is loaded, and its identity. Fetches a host that is not here yet; raises HostError."""
    place = find_host(config.host)
    path = place.path if place.ready else fetch_host(config.host)
    loading = {"word": config.host, "device": config.device, "dtype": config.dtype, "threads": config.threads}
    if not any(path.is_file() or any(path.glob(pattern)) for pattern in ("*.safetensors", "*.gguf")):
        load_host(config.host, device=config.device, dtype=config.dtype)  # says best what is missing
    identity = {
        "files": host_files_hash(path),
        "template": place.plain.model_dump(mode="json"),
        "dtype": config.dtype,
        "device": config.device.partition(":")[0],
        "threads": config.threads,
    }
    return loading, identity
