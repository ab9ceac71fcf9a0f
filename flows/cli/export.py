"""`evolora export`."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from evolora_core.engine.home import prepare_home
from evolora_core.errors import ConfigError
from flows.cli._app import AnyId


def register(app: App) -> None:
    """Add the command."""
    app.command(export, help_epilogue="Example: `evolora export quickstart.ecology.s0 --out my-adapter`")


def export(
    run: Annotated[str, Parameter(help="A finished run, such as quickstart.ecology.s0.")],
    /,
    *,
    out: Annotated[Path, Parameter(help="Folder to write: a new or an empty one.")],
    organelle: Annotated[
        int | None, Parameter(help="Which one; by default the best on the selection split."), AnyId
    ] = None,
    candidate: Annotated[
        int | None, Parameter(help="Which candidate of a merge search; by default what the run chose."), AnyId
    ] = None,
    all: Annotated[bool, Parameter(help="Every organelle that lives, with the router and a card.")] = False,
    merged: Annotated[bool, Parameter(help="The host with the organelle added to its weights, and tokenizer.")] = False,
) -> None:
    """Write what a run made as an ordinary folder: an organelle as a PEFT adapter, which PeftModel.from_pretrained
    and vLLM load; a merged model, which AutoModelForCausalLM and AutoTokenizer load.
    """
    from evolora_core.searches.adapters.finished import check_host, find
    from evolora_core.searches.registry import find_made, search_of

    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"--out {out}: exists and is not an empty folder; name another")
    home = prepare_home()
    made, settings = find_made(home, run)
    if all and (merged or organelle is not None):
        raise ConfigError("--all: writes every organelle as an adapter; leave --merged and --organelle out")
    if exporter := search_of(settings).exporter:
        if all or merged:
            raise ConfigError(f"--{'all' if all else 'merged'}: {run} is of the search '{settings['search']}'")
        if organelle is not None:
            raise ConfigError(f"--organelle: {run} is of the search '{settings['search']}'; say --candidate")
        print(f"{out}: {import_module(exporter).export(home, made, settings, candidate, out)}")
        return
    if candidate is not None:
        raise ConfigError(f"--candidate: {run} has organelles; say --organelle")
    if all:
        from evolora_core.language.hosts.catalog import address_of
        from evolora_core.searches.adapters.evolved import only_host, open_run
        from evolora_core.searches.adapters.shipping import ship_all

        evolved = open_run(home, run)
        written = ship_all(evolved, address_of(settings["host"]), out)
        print(f"{out}: {written} organelles of {evolved.name}, and their router")
        if evolved.routes and (bare := only_host([evolved.routes])):
            print(bare, file=sys.stderr)
        return
    entry, suite = find(home, run)
    check_host(home, entry, suite["host"])

    from evolora_core.language.hosts.catalog import address_of
    from evolora_core.language.hosts.host import load_host
    from evolora_core.lora.population.peft_io import export_peft
    from evolora_core.lora.population.trained import load_trained
    from evolora_core.searches.adapters.evolved import only_host
    from evolora_core.searches.adapters.routing.routes import read_routes, routings_in

    host, folder = load_host(suite["host"]), home / entry.folder
    population, organelles = load_trained(host, folder)
    if population is None:
        raise ConfigError(f"{run}: has no adapters, as it only shows examples; name a run that trains")
    slots = {number: slot for slot, number in organelles.items()}
    if not organelles:
        raise ConfigError(f"{run}: no organelle was alive at its end, so there is nothing to export")
    others, bare = "", ""
    if organelle is None:
        organelle = organelles[best_slot(folder, list(organelles))]
        bare = only_host([read_routes(folder, routing) for routing in routings_in(folder)])
        if len(organelles) > 1:
            others = ", the best on the selection split; --organelle takes another, --all every one with the router"
    if organelle not in slots:
        living = ", ".join(map(str, sorted(slots)))
        raise ConfigError(f"--organelle {organelle}: not alive at the end of {run}; choose from {living}")
    if merged:
        from evolora_core.searches.adapters.shipping import ship_merged

        ship_merged(population.get(slots[organelle]), host, f"organelle {organelle} of {entry.run_id}", out)
        print(f"{out}: {suite['host']} with organelle {organelle} of {entry.run_id}")
    else:
        export_peft(population.get(slots[organelle]), host, out, address_of(suite["host"]))
        print(f"{out}: organelle {organelle} of {entry.run_id}{others}")
    if bare:
        print(bare, file=sys.stderr)


def best_slot(folder: Path, slots: list[int]) -> int:
    """The slot with the highest accuracy on the selection split, among those that routing asked."""
    from evolora_core.searches.adapters.routing.routes import read_routes, routings_in

    right = dict.fromkeys(slots, 0.0)
    for routing in reversed(routings_in(folder)):
        routes = read_routes(folder, routing)
        for bucket, accuracies in routes.accuracy.items():
            for slot, accuracy in accuracies.items():
                if int(slot) in right:
                    right[int(slot)] += accuracy * routes.n[bucket]
        if any(right.values()):  # `single` asks nobody where no adapter leads the host; `family` does
            break
    return max(slots, key=lambda slot: (right[slot], -slot))
