"""A real Prefect server for the tests of flows; it starts once a session."""

import gc
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

_served = ExitStack()  # the server, once it runs


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[str]:
    """Prefect's own test server: its address. Without the heartbeat a flow run ends a second sooner.

    Commands find it where PREFECT_API_URL says so; they start a server of their own otherwise.
    """
    from prefect.settings import PREFECT_API_URL, PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    import evolora_core.searches.adapters.rivals.sft  # noqa: F401  # TRL, which almost every suite here needs

    gc.freeze()  # as tests/conftest.py does with what is imported before
    with _served:
        _served.enter_context(prefect_test_harness(server_startup_timeout=120))
        _served.enter_context(temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}))
        yield str(PREFECT_API_URL.value())


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After the last test of this folder the server would only take time from the others."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        _served.close()


@pytest.fixture(scope="module", autouse=True)
def _no_page(request: pytest.FixtureRequest) -> Iterator[None]:
    """A suite's page takes seconds to draw; test_finished_suite.py looks at one."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem != "test_finished_suite":
            patch.setattr("evolora_core.searches.adapters.scope.page.installed", lambda: False)
        yield


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An EVOLORA_HOME of the test's own; the working directory is beside it."""
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"
