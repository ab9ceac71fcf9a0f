"""All tests write to one temporary EVOLORA_HOME. Set before Prefect is imported, which reads its environment then."""

import atexit
import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from evolora_core.engine.home import environment

_home = Path(tempfile.mkdtemp(prefix="evolora-test-"))
atexit.register(shutil.rmtree, _home, ignore_errors=True)
os.environ |= environment(_home) | {
    "EVOLORA_HOME": str(_home),
    "HF_HUB_OFFLINE": "1",
    "PREFECT_PLUGINS_ENABLED": "false",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
}
os.environ.pop("COLUMNS", None)  # pytest-xdist sets it; tables are of a pipe unless a test says otherwise

gc.disable()  # until all test modules are imported: what they make stays

# Machines are shared and slow at times: how long an example takes says nothing about the code.
settings.register_profile("evolora", deadline=None)
settings.load_profile("evolora")


@pytest.fixture(scope="session", autouse=True)
def coarse() -> Iterator[None]:
    """Draw plots at half of their resolution, which saves time; tests of sizes in pixels reckon with it."""
    from evolora_core.report import plots  # after the environment is set, as everything

    style = _home / "coarse.mplstyle"
    style.write_text(plots.STYLE.read_text().replace("savefig.dpi: 160", "savefig.dpi: 80"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "STYLE", style)
        yield


def pytest_collection_finish() -> None:
    """Leave what all test modules have imported out of every later collection: TRL asks for one after each training,
    and half a second goes to a million objects that never die.
    """
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the end of the process collect all."""
    gc.unfreeze()
