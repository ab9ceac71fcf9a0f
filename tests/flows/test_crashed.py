"""A flow run that was killed is listed as crashed by whoever comes next."""

import os
import platform
import subprocess
import sys
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.states import Running

from flows._crashed import TAG, name_process, report_killed


@flow
def some_flow() -> None:
    """Any."""
    name_process()
    report_killed()


@pytest.mark.usefixtures("prefect_server")
def test_only_runs_whose_process_is_gone_have_crashed() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    here = platform.node()
    with get_client(sync_client=True) as client:

        def running(process: str) -> Any:
            tags = {TAG, f"{TAG} {process}"} if process else set()
            return client.create_flow_run(some_flow, state=Running(), tags=tags).id

        killed = running(f"{gone.pid} of {here}")
        others = [running(f"{os.getpid()} of {here}"), running(f"{gone.pid} of another machine"), running("")]
        some_flow()
        state = client.read_flow_run(killed).state
        assert state is not None and state.is_crashed()
        assert state.message == "killed: its process is gone"
        states = [client.read_flow_run(other).state for other in others]
        assert all(state is not None and state.is_running() for state in states)
        own = client.read_flow_runs(limit=200)
        assert any(
            f"{TAG} {os.getpid()} of {here}" in run.tags and run.state and run.state.is_completed() for run in own
        )
