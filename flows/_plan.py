"""What can be known to be wrong with the way in which a suite is asked for, before a server is started for it."""

from collections.abc import Sequence

from evolora_core.engine.stage import Suite
from evolora_core.searches.base import Experiment
from evolora_core.searches.registry import get_search, suite_id
from flows._cluster import cluster_runner
from flows._preflight import use_host
from flows._steps import wanted


def check_plan(config: Experiment, only: Sequence[str]) -> None:
    """Raise ConfigError for workers that this machine cannot lead, and for runs and stages that the suite has not."""
    if config.workers != "processes":
        cluster_runner(config.workers, config.processes)
    if only:
        suite = suite_id(config)
        wanted(get_search(config.search).plan(Suite(config, suite, use_host(config))), only, suite)
