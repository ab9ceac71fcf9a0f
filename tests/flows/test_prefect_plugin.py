"""The bare name of a deployment."""

import pytest

from flows.prefect_plugin import full_name


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("prefect deployment run paper-suite", "prefect deployment run paper-suite/paper-suite"),
        ("prefect deployment run paper-suite --watch", "prefect deployment run paper-suite/paper-suite --watch"),
        ("prefect deployment run a/b", "prefect deployment run a/b"),
        ("prefect deployment run --id 1", "prefect deployment run --id 1"),
        ("prefect deployment run", "prefect deployment run"),
        ("prefect deployment ls", "prefect deployment ls"),
    ],
)
def test_only_a_bare_name_is_completed(line, meant):
    assert full_name(line.split()) == meant.split()
