"""Whether two runs of a suite found the same: a hash of each table's rows, without names, times and what tells of the
machine.
"""

import hashlib
from pathlib import Path

from evolora_core.store.connection import kept_open
from evolora_core.store.query import query
from evolora_core.store.schema import tables

NAMES = ("suite", "run_id")  # hold the configuration's hash, which says also where a suite ran
CLOCK = {"seconds"}
MACHINE = "this machine"  # in the column `note` of a row that tells of the machine


def fingerprints(home: Path, suite: str) -> dict[str, str]:
    """Table -> SHA-256 over its rows of this suite, in a fixed order of rows and columns."""
    hashes = {}
    with kept_open(home):
        for table in tables():
            columns = query(home, f"SELECT * FROM data.{table} LIMIT 0").columns
            kept = ", ".join(f'"{name}"' for name in sorted(columns) if name not in {*NAMES, *CLOCK})
            told = f"coalesce(note, '') NOT LIKE '%{MACHINE}%'" if "note" in columns else "TRUE"
            found = query(home, f"SELECT {kept} FROM data.{table} WHERE suite = ? AND {told} ORDER BY ALL", [suite])
            hashes[table] = hashlib.sha256(repr(found.rows).encode()).hexdigest()
    return hashes
