"""Which organelle `evolora export` takes where none is named."""

from pathlib import Path

from evolora_core.searches.adapters.routing.routes import Routes, write_routes
from flows.cli.export import best_slot


def test_the_best_on_the_selection_split_is_exported_though_no_adapter_led_the_host(tmp_path: Path) -> None:
    """Then one adapter for everything is the host, and nobody was asked for that."""
    asked = {"math": {"-1": 0.5, "2": 0.25, "3": 0.4}, "word.count": {"-1": 0.1, "2": 0.5, "3": 0.1}}
    for routing, accuracy in (("family", asked), ("single", {"*": {"-1": 0.3}})):
        write_routes(tmp_path, Routes(routing, {}, accuracy, dict.fromkeys(accuracy, 16)))
    assert best_slot(tmp_path, [0, 2, 3]) == 2
