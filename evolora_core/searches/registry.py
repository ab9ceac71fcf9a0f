"""Searches by name, and the experiments that YAML files start."""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evolora_core.engine import run_index
from evolora_core.engine.plugins import search_modules
from evolora_core.engine.run_index import Entry, SuiteId
from evolora_core.engine.strict import Document, checked, config_hash, explain_rule, read_settings
from evolora_core.errors import ConfigError, DataError
from evolora_core.foreign.nearest import nearest, nearest_or_all
from evolora_core.searches.base import DEFAULT, AnySearch, Experiment

if TYPE_CHECKING:
    from evolora_core.report.sections import Sections


@cache
def get_search(name: str) -> AnySearch:
    """The search of that name. ConfigError names the nearest one."""
    known = search_modules()
    if name not in known:
        raise ConfigError(f"search: '{name[:60]}' is none; {nearest_or_all(name, sorted(known))}")
    try:
        found: AnySearch = import_module(f"{known[name]}.search").SEARCH
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"search: {name}: {known[name]} brings no SEARCH ({error}); see searches/base.py") from error
    return found


def search_of(config: Experiment | Mapping[str, Any]) -> AnySearch:
    """The search of an experiment, or of a resolved one."""
    return get_search(config.search if isinstance(config, Experiment) else config.get("search", DEFAULT))


def sections_of(config: Experiment | Mapping[str, Any]) -> "Sections":
    """What the search of an experiment, or of a resolved one, has in its packs."""
    found: Sections = import_module(search_of(config).sections).SECTIONS
    return found


def load_experiment(path: Path | str, overrides: Sequence[str] = ()) -> Experiment:
    """Read a YAML file, or what was resolved from one; `overrides` are dotted settings. Raises ConfigError."""
    search, experiment, document = _read(path, overrides)
    try:
        search.check(experiment)
    except (ConfigError, DataError) as error:
        raise type(error)(explain_rule(str(error), document)) from error
    return experiment


def load_known(path: Path) -> Experiment:
    """Read what was resolved before, perhaps on another computer: the files that it names need not be here."""
    return _read(path, ())[1]


def _read(path: Path | str, overrides: Sequence[str]) -> tuple[AnySearch, Experiment, Document]:
    if not os.path.exists(path):  # a name too long for a path is none
        suites = _suites(Path(path))
        if near := nearest(Path(path).stem, suites, cutoff=0.8):
            raise ConfigError(f"{path}: there is no such file; did you mean {suites[near]}?")
    document = read_settings(Path(path), overrides)
    word = document.values.get("search", DEFAULT)
    if not isinstance(word, str):
        raise ConfigError(f"{path}: key 'search': is a name, such as {DEFAULT}")
    try:
        search = get_search(word)
    except ConfigError as error:
        raise ConfigError(f"{path}: key {error}") from None
    experiment: Experiment = checked(document, search.experiment)
    return search, experiment, document


def _suites(path: Path) -> dict[str, str]:
    """The suite files beside a path and among those that come along, by their names without ending."""
    return {file.stem: str(file) for folder in (Path("configs/suites"), path.parent) for file in folder.glob("*.yaml")}


def suite_id(experiment: Experiment) -> SuiteId:
    """Name and hash of an experiment."""
    return SuiteId(experiment.name, config_hash(experiment))


def find_made(home: Path, run: str) -> tuple[Entry, dict[str, Any]]:
    """The stage that made the candidates of the run that a user names, such as quickstart.ecology.s0, and its resolved
    suite. ConfigError where it is not finished.
    """

    def training(suite: SuiteId) -> list[str]:
        arms = search_of(run_index.read_suite(home, suite) or {}).arms.values()
        return sorted({arm.stage.name for arm in arms if arm.stage})

    entry = run_index.find_run(home, run, training)
    return entry, run_index.read_suite(home, entry.suite_id) or {}


def find_suite(home: Path, word: str) -> SuiteId:
    """The suite that a user names by id, by name (the latest of that name), or by its YAML file. Raises ConfigError."""
    if not word.endswith((".yaml", ".yml")):
        return run_index.find_suite(home, word)
    suite = suite_id(load_experiment(word))
    if not suite.index(home).exists():
        raise ConfigError(f"{word}: {suite} was never run in {home}; `evolora run {word}` runs it")
    return suite
