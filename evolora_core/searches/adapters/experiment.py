"""A suite: conditions × seeds on one host, ending in one paper pack."""

from collections.abc import Sequence
from pathlib import Path

from pydantic import model_validator

from evolora_core.engine.strict import load_yaml
from evolora_core.errors import ConfigError, HostError
from evolora_core.language.datasets import check_rows
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.tasks.own import enter_tasks
from evolora_core.language.tasks.pools import read_pools
from evolora_core.language.tasks.settings import check_named
from evolora_core.searches.adapters.consistency import check_fit
from evolora_core.searches.adapters.evaluation.holdout_files import read_file
from evolora_core.searches.adapters.settings.suite import SuiteSettings
from evolora_core.searches.adapters.unread import check_read


class SuiteConfig(SuiteSettings):
    """A suite of conditions, each an arm, with which LoRA adapters on one host are searched for or trained."""

    @model_validator(mode="after")
    def _fits(self) -> "SuiteConfig":
        check_fit(self)
        check_named(self.tasks, self.used_families, "list of `data`")
        return self


def load_suite(path: Path | str, overrides: Sequence[str] = ()) -> SuiteConfig:
    """Read the file of an adapter search; `overrides` are dotted settings. Raises ConfigError."""
    suite = load_yaml(Path(path), SuiteConfig, overrides)
    check(suite)
    return suite


def check(suite: SuiteConfig) -> None:
    """Refuse settings without effect, a host of which there is none, families that do not exist or have too few items,
    and tasks of a user and holdout files in which something is wrong. Raises ConfigError, or DataError where rows are
    too few.
    """
    check_read(suite)
    try:
        find_host(suite.host)
    except HostError as error:
        raise ConfigError(f"host: {error}") from error
    unlabelled = enter_tasks(suite.own_families)
    check_rows(suite.data, read_pools(suite.own_families))
    for own in suite.evaluation.holdouts:
        read_file(own)
    for condition in suite.conditions:
        if unlabelled & {*suite.data.train_families} and suite.learns_from_gold(condition):
            raise ConfigError(
                f"conditions: {condition!r} learns from right answers, and task {min(unlabelled)!r} has rows without "
                "one; take the condition out, or name a column with answers"
            )
