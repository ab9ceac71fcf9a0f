"""Grade the bare host, adapters and an evolved population on any list of items, under the same decoding.

What `evolora evaluate` prints. Knows nothing of run folders or stores.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from os.path import isabs, isdir
from pathlib import Path, PurePosixPath

from evolora_core.engine.progress import Progress, part_of, silent
from evolora_core.errors import ConfigError, HostError
from evolora_core.foreign.text import one_line
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.catalog import names_of
from evolora_core.language.hosts.folder import weight_files
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.identity import sha256_of_weights
from evolora_core.lora.answering.outcome import Decoding, Outcome
from evolora_core.lora.population.peft_io import base_named, import_peft
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.finished import TrainedRun
from evolora_core.searches.adapters.routing.candidates import answer_as_each, learn_router, no_ops
from evolora_core.searches.adapters.routing.routes import choose_routes
from evolora_core.searches.adapters.routing.sending import Sent, all_to, send
from evolora_core.searches.adapters.routing.shots import Shots, answer_shown
from evolora_core.statistics.inference import wilson

BASE = "base"
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Arm:
    """Who answers: the candidates of a population or of `shots`, as a router sends the items to them."""

    name: str
    population: Population | None
    sent: Sent
    shots: Shots | None = None


def evaluate_holdout(
    host: Host,
    items: Sequence[Item],
    *,
    decoding: Decoding,
    adapters: Sequence[Path] = (),
    evolved: TrainedRun | None = None,
    routing: str = "family",
    organelle: int | None = None,
    progress: Progress = silent,
) -> list[dict[str, str | int | float]]:
    """Rows `{arm, n, correct, acc, lo, hi}` (Wilson 95 %): the host, each adapter folder, and the evolved run.

    The run answers with one `organelle` (by id) if given, else routed: by its own routes where they are of the kind
    `routing`, else by routes chosen now on `evolved.selection_items`. Raises AdapterError for an adapter of another
    shape, ConfigError for an organelle that does not live or a routing without anything to choose on.
    """
    arms = [_Arm(BASE, None, all_to(HOST, items))]
    for name, folder in zip(arm_names(adapters), adapters, strict=True):
        adapter = import_peft(Path(folder), host)
        _tell_other_base(Path(folder), host)
        alone = Population.empty(host, 1, adapter.rank, scale=adapter.scale)
        alone.put(0, adapter)
        arms.append(_Arm(name, alone, all_to(0, items)))
    if evolved is not None:
        arms.append(_evolved(host, items, evolved, routing, organelle, decoding))
    rows = []
    for number, arm in enumerate(arms):
        outcomes = answer_shown(
            host,
            arm.population,
            items,
            arm.sent.candidates.tolist(),
            arm.shots,
            arm.sent.told,
            decoding=decoding,
            progress=part_of(progress, number * len(items), len(items), len(arms) * len(items)),
        )
        rows.append(accuracy_row(arm.name, outcomes))
    return rows


def _tell_other_base(folder: Path, host: Host) -> None:
    """Warn where an adapter that fits says that it was trained on another model."""
    named = base_named(folder)
    if named and not _is_host(named, host):
        log.warning(
            "warning: %s: adapter_config.json: base_model_name_or_path is %s, the host is %s; an adapter is of use on "
            "its own base alone",
            *(folder, one_line(named, 100), host.name),
        )


def _is_host(named: str, host: Host) -> bool:
    """Whether a model that an adapter names is the host: by its weights where they lie there, else by the name."""
    try:
        files = weight_files(Path(named)) if isabs(named) and isdir(named) else []
        if files and all(file.is_file() for file in files):  # a pipe may have no end
            return bool(sha256_of_weights(files) == host.identity["weights_sha256"])
    except (HostError, OSError):
        pass
    return PurePosixPath(named.lower()).name in {PurePosixPath(name.lower()).name for name in names_of(host.name)}


def accuracy_row(arm: str, outcomes: Sequence[Outcome]) -> dict[str, str | int | float]:
    """Counts, accuracy and Wilson interval of one arm."""
    n, correct = len(outcomes), sum(outcome.grade.correct for outcome in outcomes)
    lo, hi = wilson(correct, n)
    return {"arm": arm, "n": n, "correct": correct, "acc": correct / n if n else float("nan"), "lo": lo, "hi": hi}


def arm_names(folders: Sequence[Path]) -> list[str]:
    """Folder names as arm names: as many trailing parts of the path as it takes to tell them apart."""
    paths = [Path(folder).resolve() for folder in folders]
    for depth in range(1, max((len(path.parts) for path in paths), default=1) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(set(paths)):
            break
    return names if paths else []


def _evolved(
    host: Host, items: Sequence[Item], evolved: TrainedRun, routing: str, organelle: int | None, decoding: Decoding
) -> _Arm:
    """An evolved run that answers as one organelle or routed."""
    if organelle is not None:
        if organelle not in evolved.organelles:
            living = ", ".join(str(number) for number in sorted(evolved.organelles))
            mend = f"choose from {living}" if living else "no organelle is, so leave --organelle out"
            raise ConfigError(f"--organelle {organelle}: not alive at the end of {evolved.name}; {mend}")
        sent = all_to(evolved.organelles[organelle], items)
        return _Arm(f"{evolved.name} (organelle {organelle})", evolved.population, sent, evolved.shots)
    routes = evolved.routes
    if routes is None or routes.routing != routing:
        if not evolved.selection_items:
            raise ConfigError(f"--routing {routing}: {evolved.name} has no selection items for it; give --organelle")
        slots = sorted(evolved.shortlist or evolved.organelles.values())
        answered = answer_as_each(host, evolved.adapters, evolved.selection_items, slots, decoding=decoding)
        routes = choose_routes(answered, routing, no_op=no_ops(evolved.adapters))
    classifier = evolved.classifier
    if routing == "learned" and classifier is None:
        classifier = learn_router(host, evolved.selection_items)
    sent = send(host, items, routes, classifier)
    return _Arm(f"{evolved.name} ({routing})", evolved.population, sent, evolved.shots)
