"""Prefect without a server started by hand: a private one for as long as a command runs.

A child process, so that worker processes can reach it too; it starts while this process is still importing, and ends
with it, however that ends: it watches the pipe that ties them together. Import this before Prefect.
"""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

from evolora_core.errors import StageError

START_SECONDS = 120.0


@contextmanager
def embedded_prefect(home: Path) -> Iterator[None]:
    """Serve Prefect's API to the flows run inside, unless PREFECT_API_URL names a server already. Prefect's own lines
    stay off the console; its server writes to EVOLORA_HOME/prefect/server.log. Raises StageError if it does not start.
    """
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    if os.environ.get("PREFECT_API_URL"):
        yield
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}/api", home / "prefect" / "server.log"
    with open(log, "w") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "flows._embedded", str(port)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=os.environ | {"PREFECT_PLUGINS_ENABLED": "false"},
        )
    os.environ["PREFECT_API_URL"] = url  # for this process, if it has not imported Prefect yet, and for its workers
    try:
        _wait_until_healthy(server, url, log)
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: url}):  # where Prefect was imported before
            yield
            _send_last_lines()
    finally:
        del os.environ["PREFECT_API_URL"]
        server.communicate()


def _wait_until_healthy(server: subprocess.Popen, url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise StageError(f"{log}: Prefect's server did not start; its log says why")


def _send_last_lines() -> None:
    """Prefect sends log lines in the background, and would complain if the server were gone by then."""
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=5)


def serve(port: int) -> None:
    """The child: serve until standard input ends."""
    os.environ |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
    import uvicorn

    app = "prefect.server.api.server:create_app"
    server = uvicorn.Server(uvicorn.Config(app, factory=True, host="127.0.0.1", port=port, log_level="error"))

    def end_with_parent() -> None:
        sys.stdin.read()
        server.should_exit = True

    Thread(target=end_with_parent, daemon=True).start()
    server.run()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
