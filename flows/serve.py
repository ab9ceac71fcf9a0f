"""The deployments of this project, and how they are served."""

import asyncio
import logging
import os
import warnings
from datetime import UTC, datetime
from typing import Any

from prefect import get_client, serve
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.deployments.runner import RunnerDeployment
from prefect.flows import EntrypointType, Flow
from prefect.schedules import Cron

from flows.attention_search import attention_search
from flows.benchmark import benchmark
from flows.evo_vs_sft import evo_vs_sft
from flows.merge_evolution import merge_evolution
from flows.ood_suite import ood_suite
from flows.paper_suite import paper_suite
from flows.pretrain_host import pretrain_host_flow

FLOWS: tuple[Flow[..., Any], ...] = (
    paper_suite,
    evo_vs_sft,
    ood_suite,
    merge_evolution,
    attention_search,
    benchmark,
    pretrain_host_flow,
)
NIGHTLY = {
    "paper-suite": "0 2 * * *",
    "merge-evolution": "0 4 * * *",
    "attention-search": "0 6 * * *",
    "benchmark": "0 8 * * *",
}


def deployments(nightly: bool) -> list[RunnerDeployment]:
    """One for each flow, of the same name; four have schedules, which fire only if `nightly`."""
    schedules = {name: Cron(cron, timezone="UTC", active=nightly, slug="nightly") for name, cron in NIGHTLY.items()}
    return [
        RunnerDeployment.from_flow(
            flow,
            flow.name,
            schedule=schedules.get(flow.name),
            description=flow.description,
            entrypoint_type=EntrypointType.MODULE_PATH,
        )
        for flow in FLOWS
    ]


def forget_missed() -> None:
    """Delete runs that a schedule planned for a time that has passed. Prefect plans nights ahead, and would start all
    those that nobody served, at once, with or without `nightly`.
    """
    planned = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=datetime.now(UTC)),
    )
    names = [flow.name for flow in FLOWS]  # of both: a server of several people may have another `benchmark`
    ours = DeploymentFilter(name=DeploymentFilterName(any_=names))
    flows = FlowFilter(name=FlowFilterName(any_=names))
    with get_client(sync_client=True) as client:
        kept = 0  # that somebody asked for
        while runs := client.read_flow_runs(  # a page
            flow_run_filter=planned, flow_filter=flows, deployment_filter=ours, offset=kept
        ):
            for run in runs:
                if run.auto_scheduled:
                    client.delete_flow_run(run.id)
                else:
                    kept += 1


def serve_deployments(*, nightly: bool, limit: int) -> None:
    """Register all deployments and execute their runs, `limit` at a time, until a signal. Schedules stay as they are
    when it ends; nights that have passed by the next time are not made up for."""
    forget_missed()
    warnings.filterwarnings("ignore", message="coroutine 'Runner.astop' was never awaited")  # Prefect's, at SIGTERM
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker")  # Python's, of a flow whose process is killed
    logging.getLogger("asyncio").addFilter(_is_news)
    try:
        serve(*deployments(nightly), limit=limit, pause_on_shutdown=False)
    except SystemExit as ended:  # Prefect's, with 0 at SIGTERM
        if ended.code:
            raise


def _is_news(record: logging.LogRecord) -> bool:
    """Whether asyncio has more to say than that a connection to a flow run, which ends with us, was cancelled."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
