"""The store: one DuckDB file that holds every number of every suite. Only this package imports DuckDB.

It is a copy: the truth is the Parquet tables in the run folders, from which `rebuild` makes it anew.
"""

from evolora_core.store.benchmarks import record_benchmark
from evolora_core.store.carried import carry, files, read, unpacked
from evolora_core.store.connection import kept_open, store_path
from evolora_core.store.fingerprints import fingerprints
from evolora_core.store.query import Result, bounded, frame, query
from evolora_core.store.rebuild import Rebuilt, rebuild
from evolora_core.store.record import forget, record
from evolora_core.store.shards import Merged, merge, write_shard
from evolora_core.store.slices import Slice

__all__ = [
    "Merged",
    "Rebuilt",
    "Result",
    "Slice",
    "bounded",
    "carry",
    "files",
    "fingerprints",
    "forget",
    "frame",
    "kept_open",
    "merge",
    "query",
    "read",
    "rebuild",
    "record",
    "record_benchmark",
    "store_path",
    "unpacked",
    "write_shard",
]
