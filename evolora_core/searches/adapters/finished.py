"""Finished runs of the adapter search: which stage made their adapters, on which host and items, and their routes."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.engine import artifacts
from evolora_core.errors import ConfigError, HostError
from evolora_core.searches.base import DEFAULT
from evolora_core.searches.registry import find_made

if TYPE_CHECKING:
    from evolora_core.engine.run_index import Entry
    from evolora_core.language.families.base import Item
    from evolora_core.language.hosts.host import Host
    from evolora_core.lora.population.stack import Population
    from evolora_core.searches.adapters.routing.learned import Classifier
    from evolora_core.searches.adapters.routing.routes import Routes
    from evolora_core.searches.adapters.routing.shots import Shots

log = logging.getLogger("evolora_core.stages")


@dataclass(frozen=True)
class TrainedRun:
    """The population of a run: the slot of each organelle, and either its routes (for `learned` with their classifier)
    or the items to choose them on, among `shortlist` (slots; all if empty). A run that shows `shots` has no population.
    """

    name: str
    population: "Population | None"
    organelles: Mapping[int, int]  # organelle id -> slot
    routes: "Routes | None" = None
    selection_items: Sequence["Item"] = ()
    classifier: "Classifier | None" = None
    shortlist: Sequence[int] = ()
    shots: "Shots | None" = None

    @property
    def adapters(self) -> "Population":
        """Its population. ConfigError where it has none."""
        if self.population is None:
            raise ConfigError(f"{self.name}: has no adapters, as it only shows examples; name a run that trains")
        return self.population


def find(home: Path, run: str) -> tuple["Entry", dict[str, Any]]:
    """The training stage of a run and its resolved suite. ConfigError: its search leaves no adapters."""
    entry, suite = find_made(home, run)
    if (search := suite.get("search", DEFAULT)) != DEFAULT:
        raise ConfigError(f"{run}: a run of the search '{search}', which leaves no adapters; name one of {DEFAULT}")
    if reason := artifacts.manifest_of(home / entry.folder).get("summary", {}).get("not_run"):
        raise ConfigError(f"{run}: was not run ({reason})")
    return entry, suite


def load_run(home: Path, entry: "Entry", host: "Host", routing: str) -> TrainedRun:
    """A run's adapters, who lives in which slot, and its routes, or the items to choose them on and those who were
    asked for its own routes: the best of all that live would be the best by luck.
    """
    from evolora_core.language.datasets import read_items
    from evolora_core.lora.population.slots import HOST
    from evolora_core.lora.population.trained import load_trained
    from evolora_core.searches.adapters.routing.learned import FILE, read_classifier
    from evolora_core.searches.adapters.routing.routes import read_routes, routings_in
    from evolora_core.searches.adapters.routing.shots import read_shots

    folder = home / entry.folder
    population, organelles = load_trained(host, folder)
    shots = read_shots(folder)
    slots = {organelle: slot for slot, organelle in organelles.items()}
    known = routings_in(folder)
    if routing in known:
        classifier = read_classifier(folder / FILE) if routing == "learned" else None
        return TrainedRun(
            entry.run_id, population, slots, read_routes(folder, routing), classifier=classifier, shots=shots
        )
    if population is None:
        raise ConfigError(f"routing {routing}: {entry.run_id} chose no examples for it; choose from {', '.join(known)}")
    chosen = [read_routes(folder, one).accuracy for one in known]
    asked = {int(slot) for accuracy in chosen for given in accuracy.values() for slot in given} - {
        HOST,
        *(shots.ways if shots else ()),
    }
    return TrainedRun(
        entry.run_id,
        population,
        slots,
        None,
        read_items(datasets_of(home, entry) / "selection.jsonl"),
        shortlist=sorted(asked),
    )


def datasets_of(home: Path, entry: "Entry") -> Path:
    """The folder with the splits of a run."""
    folder = home / entry.folder
    identity: str = artifacts.manifest_of(folder)["identity_document"]["inputs"]["datasets"]
    return folder.parents[2] / f"shared-s{entry.seed}" / "datasets" / identity


def load_own_host(home: Path, entry: "Entry", word: str, device: str) -> "Host":
    """The host of a finished run as the run computed with it: its dtype, and its device where there is one."""
    from evolora_core.language.hosts.host import check_device, load_host

    document = artifacts.manifest_of(home / entry.folder)["identity_document"]
    try:
        check_device(word, device)
    except HostError as error:
        log.warning("warning: %s; answers come from the CPU, and may differ from those of the run", error)
        device = "cpu"
    return load_host(word, device=device, dtype=document["host"]["dtype"])


def check_host(home: Path, entry: "Entry", word: str, *, mend: str = "bring that one back") -> None:
    """Raise HostError, which says how to `mend` it, unless the host is the one that the run was made on; its adapters
    mean nothing to another.
    """
    from evolora_core.engine.identity import host_files_hash
    from evolora_core.language.hosts.catalog import find_host

    folder = home / entry.folder
    artifacts.check(folder)
    document = artifacts.manifest_of(folder)["identity_document"]
    place = find_host(word)
    if not place.ready or host_files_hash(place.path) != document["host"]["files"]:
        raise HostError(f"host {word}: {entry.run_id} was made on another host or other weights of it; {mend}")
