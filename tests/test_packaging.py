"""What is declared, pinned and installed agree; and the bounds without which Prefect breaks silently are there."""

import os
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PINS = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]


def declared(*extras: str) -> dict[str, Requirement]:
    """Requirements of the project and of some extras, by name."""
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return {requirement.name: requirement for requirement in map(Requirement, lines)}


def test_every_requirement_is_pinned_within_its_bounds() -> None:
    pins = {pin.name.lower().replace("_", "-"): str(pin.specifier).removeprefix("==") for pin in PINS}
    for name, requirement in declared("dev", "gguf", "openevolve", "tracking").items():
        assert requirement.specifier.contains(pins[name.lower()]), name


def test_pins_are_exact_and_of_no_particular_build() -> None:
    assert {str(pin.specifier)[:2] for pin in PINS} == {"=="}
    assert not [pin for pin in PINS if "+" in str(pin.specifier) or pin.url]


@pytest.mark.parametrize("name", [*declared()])
def test_what_is_installed_is_within_bounds(name: str) -> None:
    assert declared()[name].specifier.contains(metadata.version(name), prereleases=True)


@pytest.mark.parametrize(("name", "bad"), [("fastapi", "0.151.0"), ("sqlalchemy", "2.1.0")])
def test_versions_that_break_prefect_are_out_of_bounds(name: str, bad: str) -> None:
    assert not declared()[name].specifier.contains(bad)


def test_prefect_loads_the_plugin_from_the_project_root() -> None:
    code = (
        "import sys, os; sys.argv = 'prefect deployment run x'.split(); import prefect; "
        "print(sys.argv[3], os.environ['DO_NOT_TRACK'])"
    )
    unset = ("DO_NOT_TRACK", "PREFECT_PLUGINS_ENABLED")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.split() == ["x/x", "1"], done.stderr
