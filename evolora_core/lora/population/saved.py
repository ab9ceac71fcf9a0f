"""A finished population on disk: population.safetensors with the weights, population.json with who lives in which slot.

Row of an organelle: organelle (its id), slot, rank, niche, origin, born, died, cause, balance, delta_norm,
learning_rate, temperature.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from evolora_core.errors import StageError
from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.stack import Population

DOCUMENT, WEIGHTS = "population.json", "population.safetensors"


def save_population(folder: Path, population: Population, organelles: Sequence[Mapping[str, object]]) -> None:
    """Write weights, scale and the rows of the living organelles into `folder`."""
    save_file(population.state_dict(), folder / WEIGHTS)
    document = {
        "slots": population.capacity,
        "max_rank": population.max_rank,
        "scale": population.scale,
        "organelles": list(organelles),
    }
    (folder / DOCUMENT).write_text(json.dumps(document, indent=1), encoding="utf-8")


def load_population(host: Host, folder: Path) -> tuple[Population, list[dict[str, Any]]]:
    """The population that `save_population` wrote, and the rows of its organelles. StageError: there is none."""
    path = folder / DOCUMENT
    if not path.exists():
        raise StageError(f"{path}: missing; this folder holds no finished run, finish it with `evolora retry`")
    document = json.loads(path.read_text(encoding="utf-8"))
    population = Population.empty(host, document["slots"], document["max_rank"], scale=document["scale"])
    population.load_state_dict(load_file(folder / WEIGHTS))
    return population, document["organelles"]
