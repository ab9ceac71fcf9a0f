"""A home whose store has the example suite, for tests that change it."""

from pathlib import Path

import pytest
from example_suite import write_suite

from evolora_core.store import record


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for stage in write_suite(tmp_path, "example-0a1b2c3d", items=96):
        record(tmp_path, stage)
    return tmp_path
