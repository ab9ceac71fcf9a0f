"""`evolora evaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from evolora_core.engine import artifacts
from evolora_core.searches.adapters.settings.evaluation import Routing
from flows.cli._app import AnyId, AtLeastOne, Json, show

if TYPE_CHECKING:
    from evolora_core.engine.run_index import Entry
    from evolora_core.language.hosts.host import Host
    from evolora_core.searches.adapters.evaluation.holdout import TrainedRun


def register(app: App) -> None:
    """Add the command."""
    app.command(evaluate, help_epilogue="Example: `evolora evaluate --holdout mine.jsonl --run quickstart.ecology.s0`")


def evaluate(
    *,
    holdout: Annotated[Path, Parameter(help="A holdout file: JSON Lines in either published form.")],
    host: Annotated[str | None, Parameter(help="Host; by default that of the run, else nano.")] = None,
    adapter: Annotated[list[Path] | None, Parameter(help="A PEFT adapter folder; may be repeated.")] = None,
    run: Annotated[str | None, Parameter(help="A finished run, such as quickstart.ecology.s0.")] = None,
    routing: Annotated[
        Routing | None, Parameter(help="Which router the run answers with; by default `family`.")
    ] = None,
    organelle: Annotated[int | None, Parameter(help="Let this organelle of the run answer everything."), AnyId] = None,
    max_new_tokens: Annotated[
        int | None, Parameter(help="Token cap of an answer; by default that of the run."), AtLeastOne
    ] = None,
    json: Json = False,
) -> None:
    """Grade the host, adapters and an evolved run on a holdout file: accuracy with its Wilson interval."""
    from evolora_core.engine.home import home_path, prepare_home
    from evolora_core.errors import ConfigError
    from evolora_core.language.decoding import DecodingConfig
    from evolora_core.language.holdouts import read_holdout
    from evolora_core.language.tasks.own import enter_beside

    if organelle is not None and run is None:
        raise ConfigError("--organelle: name the run that it lives in with --run")
    if routing and run is None:
        raise ConfigError("--routing: name the run whose router answers with --run")
    routing = routing or "family"
    entry: Entry | None = None
    suite: dict[str, Any] = {}
    if run:
        entry, suite = find(prepare_home(), run)
        enter_beside(datasets_of(home_path(), entry))  # the file may ask for a task of the run's suite
    items = read_holdout(holdout)
    home = prepare_home()
    word = host or suite.get("host", "nano")
    if entry:
        check_host(home, entry, word)
    given = suite.get("decoding", {}) | ({"max_new_tokens": max_new_tokens} if max_new_tokens is not None else {})
    if (given.get("max_new_tokens") or 1) > 65_536:
        raise ConfigError(f"--max-new-tokens {given['max_new_tokens']}: no host has that much room; ask for less")
    decoding = DecodingConfig.model_validate(given)

    from evolora_core.language.hosts.host import load_host
    from evolora_core.searches.adapters.evaluation.holdout import evaluate_holdout
    from tasks._progress import progress

    loaded = load_host(word, dtype=suite.get("dtype", "float32"))
    if decoding.max_new_tokens >= loaded.max_context:
        raise ConfigError(
            f"--max-new-tokens {decoding.max_new_tokens}: {word} has a context of {loaded.max_context} tokens, prompt "
            "and answer together; ask for less"
        )
    evolved = load_run(home, entry, loaded, routing) if entry else None
    with progress("evaluate") as report:
        rows = evaluate_holdout(
            loaded,
            items,
            decoding=decoding,
            adapters=adapter or [],
            evolved=evolved,
            routing=routing,
            organelle=organelle,
            progress=report,
        )
    show(rows, json)


def find(home: Path, run: str) -> tuple["Entry", dict[str, Any]]:
    """The training stage of a run and its resolved suite. ConfigError: its search leaves no adapters."""
    from evolora_core.errors import ConfigError
    from evolora_core.searches.base import DEFAULT
    from evolora_core.searches.registry import find_made

    entry, suite = find_made(home, run)
    if (search := suite.get("search", DEFAULT)) != DEFAULT:
        raise ConfigError(f"{run}: a run of the search '{search}', which leaves no adapters; name one of {DEFAULT}")
    return entry, suite


def load_run(home: Path, entry: "Entry", host: "Host", routing: str) -> "TrainedRun":
    """A run's adapters, who lives in which slot, and its routes, or the items to choose them on and those who were
    asked for its own routes: the best of all that live would be the best by luck.
    """
    from evolora_core.language.datasets import read_items
    from evolora_core.lora.population.slots import HOST
    from evolora_core.lora.population.trained import load_trained
    from evolora_core.searches.adapters.evaluation.holdout import TrainedRun
    from evolora_core.searches.adapters.routing.learned import FILE, read_classifier
    from evolora_core.searches.adapters.routing.routes import read_routes

    folder = home / entry.folder
    population, organelles = load_trained(host, folder)
    slots = {organelle: slot for slot, organelle in organelles.items()}
    own = folder / f"routes-{routing}.json"
    if own.exists():
        classifier = read_classifier(folder / FILE) if routing == "learned" else None
        return TrainedRun(entry.run_id, population, slots, read_routes(own), classifier=classifier)
    chosen = [read_routes(path).accuracy for path in sorted(folder.glob("routes-*.json"))]
    asked = {int(slot) for accuracy in chosen for given in accuracy.values() for slot in given} - {HOST}
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
    identity: str = (artifacts.read_manifest(folder) or {})["identity_document"]["inputs"]["datasets"]
    return folder.parents[2] / f"shared-s{entry.seed}" / "datasets" / identity


def check_host(home: Path, entry: "Entry", word: str) -> None:
    """Raise HostError unless the host is the one that the run was made on; its adapters mean nothing to another."""
    from evolora_core.engine.identity import host_files_hash
    from evolora_core.errors import HostError
    from evolora_core.language.hosts.catalog import find_host

    folder = home / entry.folder
    artifacts.check(folder)
    document = (artifacts.read_manifest(folder) or {})["identity_document"]
    place = find_host(word)
    if not place.ready or host_files_hash(place.path) != document["host"]["files"]:
        raise HostError(f"--host {word}: {entry.run_id} was made on another host or other weights of it; name that one")
