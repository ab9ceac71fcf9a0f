"""Stages on many machines: Prefect's runners for Dask and Ray, chosen by the suite's key `workers`.

All machines must see the same EVOLORA_HOME and Prefect server, and have this project installed.
"""

from typing import Any

from prefect.task_runners import TaskRunner

from flows._plan import check_workers


def cluster_runner(workers: str, processes: int) -> TaskRunner[Any]:
    """The runner for `dask` or `ray` (`processes` local workers), or for the address of a running cluster.

    Raises ConfigError for another word, and where the extra that it needs is not installed.
    """
    check_workers(workers)
    kind, _, place = workers.partition("://")
    if kind == "ray":
        from prefect_ray import RayTaskRunner

        local = {"num_cpus": processes, "include_dashboard": False}
        ray: TaskRunner[Any] = RayTaskRunner(address=workers) if place else RayTaskRunner(init_kwargs=local)
        return ray
    from prefect_dask import DaskTaskRunner

    here: dict[str, Any] = {"n_workers": processes, "threads_per_worker": 1, "dashboard_address": None}
    address = workers if kind != "dask" else f"tcp://{place}"
    dask: TaskRunner[Any] = DaskTaskRunner(address=address) if place else DaskTaskRunner(cluster_kwargs=here)
    return dask
