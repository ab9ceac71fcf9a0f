"""A pack says whose weights the founders of a family began with."""

from pathlib import Path
from typing import Any

import pytest
from example_suite import part, write_stage

from evolora_core.report import StoredSuite
from evolora_core.searches.adapters.pack.donors import donor_frame, donor_table
from evolora_core.store import frame, record

SUITE = "example-0a1b2c3d"


def told(generation: int, niche: str, items: int, *donors: tuple[str, int, bool]) -> list[dict[str, Any]]:
    """Rows of the table `inheritance` of one family's arrival."""
    return [
        {
            "generation": generation,
            "niche": niche,
            "donor": donor,
            "items": items,
            "correct": correct,
            "chosen": chosen,
        }
        for donor, correct, chosen in donors
    ]


def test_donors_go_by_the_family_that_they_have_learned(home: Path) -> None:
    assert donor_frame(StoredSuite(home, SUITE)).empty
    members = frame(home, "SELECT * FROM organelles WHERE condition = 'ecology'", [])
    for seed, best in ((0, "host"), (1, "0")):
        own = members[members["seed"] == seed].drop(
            columns=["suite", "run_id", "condition", "seed", "stage", "lessons"]
        )
        niche = own.loc[own["organelle"] == 0, "niche"].item()
        rows = told(2, "later", 10, ("host", 4 + seed, best == "host"), ("0", 3 + 4 * seed, best == "0"))
        rows += told(4, "drawn", 0, ("sum", 0, seed == 0), ("host", 0, False), ("0", 0, seed == 1))
        tables: dict[str, Any] = {"organelles": own.to_dict("records"), "inheritance": rows}
        record(home, write_stage(home, part(SUITE, "ecology", seed, "evolve"), tables))
    found = donor_frame(StoredSuite(home, SUITE))
    assert [tuple(row) for row in found[["family", "donor", "chosen", "seeds"]].values.tolist()] == [
        ("later", "host", 1, 2),
        ("later", niche, 1, 2),
        ("drawn", "host", 0, 2),
        ("drawn", niche, 1, 2),
        ("drawn", "sum", 1, 2),
    ]
    assert found["right"].tolist()[:2] == pytest.approx([9 / 20, 10 / 20])
    cells = donor_table(SUITE, found).cells()
    assert cells[0] == ["ecology", "later", "host", "1 of 2", "10", "45.0"] and cells[-1][-1] == "–"
