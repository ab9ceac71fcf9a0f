"""A finished suite in which a model has written what a page must not take for markup, and its page."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from example_suite import write_suite

from evolora_core.engine.artifacts import read_manifest, sha256, write_json
from evolora_core.store import rebuild

SUITE = "example-0a1b2c3d"
ITEMS = 96  # of a split and seed
HOSTILE = [
    "</script><script>document.title = 'taken'</script>",
    "<img src=x onerror=\"document.title='taken'\">",
    "<!-- <script> ]]> &amp; \u2028 \U0001f600 \\u003c",
    "javascript:document.title='taken'",
    "",
]


@pytest.fixture(scope="session")
def looked_at(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the suite. Answers of `sft` are hostile text; seed 0 asks so too; seed 1 has a long prompt."""
    home = tmp_path_factory.mktemp("looked-at")
    write_suite(home, SUITE, items=ITEMS, budgets={"sft-double": 2.0})
    for file in sorted(home.glob("runs/example/*/evaluate/*/evaluations.parquet")):
        rows = pq.read_table(file).to_pylist()
        for place, row in enumerate(rows):
            if "sft-s" in str(file):
                row["answer"] = HOSTILE[place % len(HOSTILE)]
            if "-s0/" in str(file) and row["task_id"].endswith("-7"):
                row["prompt"] = HOSTILE[0]
            if "-s1/" in str(file) and row["task_id"].endswith("-8"):
                row["prompt"] = "long " * 1000
        pq.write_table(pa.Table.from_pylist(rows), file)
        manifest = read_manifest(file.parent) or {}
        manifest["files"][file.name] = sha256(file)
        write_json(file.parent / "manifest.json", manifest)
    rebuild(home)
    return home
