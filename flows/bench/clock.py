"""A clock that jumps, in every process that has `sitecustomize.py` as written by `jumping` on its path."""

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

OFFSET = "EVOLORA_BENCH_CLOCK"  # names a file with the seconds that the clock is ahead
POLL_SECONDS = 0.2


def jumping(folder: Path, path: Path) -> dict[str, str]:
    """What the environment of a process needs so that its clock follows the file `path`; writes into `folder`."""
    (folder / "sitecustomize.py").write_text("from flows.bench.clock import follow\n\nfollow()\n", encoding="utf-8")
    return {"PYTHONPATH": f"{folder}{os.pathsep}{Path(__file__).parents[2]}", OFFSET: str(path)}


def follow() -> None:
    """Set this process's clock, and again whenever the file changes. Monotonic clocks stay as they are."""
    import time_machine

    path = Path(os.environ[OFFSET])
    traveller = None
    ahead = 0.0

    def look() -> None:
        nonlocal traveller, ahead
        wanted = float(path.read_text(encoding="utf-8"))
        if wanted == ahead:
            return
        ahead = wanted
        if traveller:
            traveller.stop()
        traveller = time_machine.travel(datetime.now(UTC) + timedelta(seconds=ahead), tick=True)
        traveller.start()

    def watch() -> None:
        while True:
            look()
            time.sleep(POLL_SECONDS)

    look()
    threading.Thread(target=watch, daemon=True).start()
