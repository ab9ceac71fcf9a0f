"""What a condition chose: a recipe, weights of its own, or an ensemble of the parents. A file of its stage's folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from evolora_core.engine.tables import write_table
from evolora_core.searches.merging.recipe import Genome

CHOSEN = "chosen.json"


@dataclass(frozen=True)
class Choice:
    """The model that a condition sends to the sealed test.

    kind             `recipe`: it is made of `genome`; `weights`: it lies in the folder `model`; `ensemble`: all parents
                     answer together
    evaluations      models that were measured on the search items; of `adam`, its steps too, as packs say
    search_score     what the search items say of it; None: they were not asked
    selection_score  what the selection items say of it
    """

    kind: Literal["recipe", "weights", "ensemble"]
    genome: Genome | None = None
    candidate: int | None = None
    evaluations: int = 0
    search_score: float | None = None
    selection_score: float | None = None
    note: str = ""

    def write(self, folder: Path, arm_kind: str, space: str) -> None:
        """Leave the file, and the table `merge_choices`."""
        row: dict[str, Any] = asdict(self) | {
            "genome": self.genome.text if self.genome else None,
            "genome_id": self.genome.id if self.genome else None,
            "arm_kind": arm_kind,
            "space": space,
        }
        (folder / CHOSEN).write_text(json.dumps(row, indent=1) + "\n", encoding="utf-8")
        write_table(folder, "merge_choices", [row])


def read_choice(folder: Path) -> Choice:
    """What `Choice.write` left."""
    row = json.loads((folder / CHOSEN).read_text(encoding="utf-8"))
    genome = Genome.read(row["genome"]) if row["genome"] else None
    own = {key: row[key] for key in ("kind", "candidate", "evaluations", "search_score", "selection_score", "note")}
    return Choice(genome=genome, **own)
