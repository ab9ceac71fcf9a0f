"""Flow runs whose process is gone: a killed one cannot say so, and Prefect would list it as running for ever.

Prefect's own way, heartbeats watched by an automation, needs a server that outlives the run; ours ends with it.
"""

import os
import platform

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import StateType
from prefect.runtime import flow_run
from prefect.states import Crashed

from evolora_core.engine.run_index import alive

TAG = "evolora-process"


def name_process() -> None:
    """Tag the flow run that calls this with its process, and with no earlier one, if it is a retry."""
    others = [tag for tag in flow_run.tags if not tag.startswith(TAG)]
    with get_client(sync_client=True) as client:
        client.update_flow_run(flow_run.id, tags=[*others, TAG, f"{TAG} {os.getpid()} of {platform.node()}"])


def report_killed() -> None:
    """Set every flow run that was running in a process of this machine that is gone to Prefect's state Crashed."""
    running = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING])),
        tags=FlowRunFilterTags(all_=[TAG]),
    )
    with get_client(sync_client=True) as client:
        for run in client.read_flow_runs(flow_run_filter=running):
            _, pid, _, node = next(tag for tag in run.tags if tag.startswith(f"{TAG} ")).split(" ", 3)
            since = run.state.timestamp.isoformat() if run.state else None
            if node == platform.node() and not alive(int(pid), since):
                client.set_flow_run_state(run.id, Crashed(message="killed: its process is gone"), force=True)
