"""Frozen host models: which there are, how they come here, how they are loaded and prompted. Imports no torch."""

from evolora_core.hosts.arithmetic import settled_dtype
from evolora_core.hosts.catalog import HostListing, find_host, list_hosts
from evolora_core.hosts.description import HostDescription, load_description, load_descriptions
from evolora_core.hosts.fetch import fetch_host
from evolora_core.hosts.host import Host, Room, check_device, load_host

__all__ = [
    "Host",
    "HostDescription",
    "HostListing",
    "Room",
    "check_device",
    "fetch_host",
    "find_host",
    "list_hosts",
    "load_description",
    "load_descriptions",
    "load_host",
    "settled_dtype",
]
