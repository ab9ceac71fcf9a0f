"""A model of a finished run as an ordinary folder: what a condition chose, or any of its candidates."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evolora_core.engine import artifacts
from evolora_core.engine.run_index import Entry
from evolora_core.engine.tables import read_table
from evolora_core.errors import ConfigError
from evolora_core.searches.merging.choice import read_choice
from evolora_core.searches.merging.make import make_model
from evolora_core.searches.merging.pool import source_of
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.roles import BASE, MODEL, role
from evolora_core.searches.merging.weights import check_unchanged, model_path, open_again


def export(home: Path, entry: Entry, suite: Mapping[str, Any], candidate: int | None, out: Path) -> str:
    """Write the folder `out`, which must not exist or be empty; returns what it is, in words. ConfigError, one line,
    for a candidate that there is not, for an ensemble, which is no model, and for what was not run.
    """
    folder = home / entry.folder
    artifacts.check(folder)
    if reason := artifacts.manifest_of(folder).get("summary", {}).get("not_run"):
        raise ConfigError(f"{entry.run_id}: was not run ({reason})")
    choice = read_choice(folder)
    genome = choice.genome if candidate is None else _genome_of(folder, entry, candidate)
    if genome is None and choice.kind == "ensemble":
        raise ConfigError(f"{entry.run_id}: the parents answer together; there is no one model to write")
    if genome is None:
        shutil.copytree(folder / MODEL, out, dirs_exist_ok=True)
        return f"the weights of {entry.run_id} ({choice.note})"
    words = _sources(folder, entry, str(suite["host"]))
    models = {name: open_again(word) for name, word in words.items()}
    make_model(genome, models, BASE, out, model_path(words[BASE]), sources=words)
    number = choice.candidate if candidate is None else candidate
    return f"{'the choice' if number is None else f'candidate {number}'} of {entry.run_id}, recipe {genome.id}"


def _genome_of(folder: Path, entry: Entry, candidate: int) -> Genome:
    if not (folder / "candidates.parquet").exists():
        raise ConfigError(f"--candidate {candidate}: {entry.run_id} searched nothing; leave it out")
    rows = read_table(folder, "candidates")
    if not 0 <= candidate < len(rows):
        raise ConfigError(f"--candidate {candidate}: {entry.run_id} has the candidates 0 to {len(rows) - 1}")
    return Genome.read(rows[candidate]["genome"])


def _sources(folder: Path, entry: Entry, host: str) -> dict[str, str]:
    """Where base and parents of a run are, by name."""
    document = artifacts.manifest_of(folder)["identity_document"]
    shared = folder.parents[2] / f"shared-s{entry.seed}"
    found = {}
    for name in [BASE, *document["config"]["parents"]]:
        stage = BASE if name == BASE else role(name)
        own = shared / stage / document["inputs"][stage]
        artifacts.check(own)
        found[name] = source_of(own, host)
        if found[name] == host:
            check_unchanged(host, artifacts.manifest_of(own)["identity_document"]["host"]["files"])
    return found
