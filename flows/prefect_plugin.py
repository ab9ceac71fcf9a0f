"""Lets `prefect deployment run paper-suite` be said with the bare name, and keeps Prefect's telemetry off.

Prefect wants FLOW/DEPLOYMENT and has no option for less; ours are named alike. The hook runs while Prefect is
imported, before its command line is read. Prefect enables plugins by `[tool.prefect.plugins]` of the working
directory's pyproject.toml.
"""

import sys

from prefect.plugins import HookContext, SetupResult, register_hook


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult:
    """Complete a bare deployment name in the arguments; set what Prefect reads only from its environment."""
    sys.argv[:] = full_name(sys.argv)
    return SetupResult(env={"DO_NOT_TRACK": "1"})


def full_name(arguments: list[str]) -> list[str]:
    """`… deployment run NAME …` with NAME/NAME in place of a bare name."""
    if arguments[1:3] != ["deployment", "run"] or len(arguments) < 4:
        return arguments
    name = arguments[3]
    if name.startswith("-") or "/" in name:
        return arguments
    return [*arguments[:3], f"{name}/{name}", *arguments[4:]]
