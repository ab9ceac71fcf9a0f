"""What any training stage leaves, read again: an evolved population, or a rival's adapters."""

from pathlib import Path

from evolora_core.language.hosts.host import Host
from evolora_core.lora.population.candidates import has_candidates, load_candidates
from evolora_core.lora.population.saved import DOCUMENT, load_population
from evolora_core.lora.population.stack import Population


def load_trained(host: Host, folder: Path) -> tuple[Population | None, dict[int, int]]:
    """The adapters in a training stage's folder, and the number of the organelle in each slot. None where the arm has
    no adapters.
    """
    if (folder / DOCUMENT).exists():
        population, organelles = load_population(host, folder)
        return population, {row["slot"]: row["organelle"] for row in organelles}
    if not has_candidates(folder):
        return None, {}
    population = load_candidates(host, folder)
    return population, {slot: slot for slot in range(population.capacity)}
