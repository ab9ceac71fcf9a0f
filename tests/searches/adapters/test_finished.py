"""Finished runs: what is refused before any of them is loaded."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evolora_core.engine import artifacts
from evolora_core.errors import HostError, StageError
from evolora_core.searches.adapters.evolved import only_host
from evolora_core.searches.adapters.finished import check_host, datasets_of
from evolora_core.searches.adapters.routing.routes import Routes


def test_a_run_of_another_host_says_how_to_get_on(tmp_path: Path) -> None:
    entry: Any = SimpleNamespace(folder="runs/s/ecology-s0/evolve/1", run_id="s.ecology.s0", seed=0)
    folder = tmp_path / entry.folder
    with pytest.raises(StageError, match="it has no manifest; run the suite again"):
        datasets_of(tmp_path, entry)
    artifacts.partial_folder(folder)
    artifacts.commit(folder, {"identity_document": {"host": {"files": "of another"}}})
    with pytest.raises(HostError) as error:
        check_host(tmp_path, entry, "nano")
    refused = "host nano: s.ecology.s0 was made on another host or other weights of it; "
    assert str(error.value) == f"{refused}bring that one back"
    with pytest.raises(HostError) as error:
        check_host(tmp_path, entry, "nano", mend="name that one with --host")
    assert str(error.value) == f"{refused}name that one with --host"


def test_routers_that_ask_nobody_are_named() -> None:
    family, single = Routes("family", {"a": -1, "b": -1}), Routes("single", {"": -1})
    learned = Routes("learned", {"a": 0, "b": -1})
    assert only_host([family, learned, single]).startswith("routing family, single: the bare host answers every prompt")
    assert only_host([learned]) == "" == only_host([])
    assert only_host([Routes("family", {"math": -3})]) == ""  # examples before a prompt are more than the bare host
