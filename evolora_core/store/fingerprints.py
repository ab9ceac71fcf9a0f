"""Whether two runs of a suite found the same: a hash of each table's rows, wall-clock columns and names left out."""

import hashlib
from pathlib import Path

from evolora_core.store.query import query
from evolora_core.store.schema import tables

NAMES = ("suite", "run_id")  # hold the configuration's hash, which says also where a suite ran
CLOCK = {"seconds"}
MACHINE = ("answers_per_second", "generation_seconds", "peak_bytes")  # rows of `calibration` that tell of the machine


def fingerprints(home: Path, suite: str) -> dict[str, str]:
    """Table -> SHA-256 over its rows of this suite, in a fixed order."""
    hashes = {}
    for table in tables():
        columns = query(home, f"SELECT * FROM data.{table} LIMIT 0").columns
        kept = ", ".join(f'"{name}"' for name in columns if name not in {*NAMES, *CLOCK})
        condition = f"key NOT IN {MACHINE}" if table == "calibration" else "TRUE"
        found = query(home, f"SELECT {kept} FROM data.{table} WHERE suite = ? AND {condition} ORDER BY ALL", [suite])
        hashes[table] = hashlib.sha256(repr(found.rows).encode()).hexdigest()
    return hashes
