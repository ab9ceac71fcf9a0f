"""Progress of a long loop, outside a flow."""

import subprocess
import sys


def test_progress_outside_a_flow_does_not_import_prefect() -> None:
    """Which takes longer than `evolora evaluate` takes for an item."""
    code = (
        "import sys\n"
        "from tasks._progress import progress\n"
        "with progress('evaluate') as report:\n"
        "    report(1, 2)\n"
        "assert 'prefect' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
