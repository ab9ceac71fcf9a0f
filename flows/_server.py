"""The Prefect server that flows report to: the user's own, the one that `evolora serve` keeps, or a private one for as
long as a command runs.

Ours are child processes, so that worker processes can reach them too, and end with their parent, however that ends:
they watch the pipe that ties them together. Import this before Prefect.
"""

import json
import logging
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
from threading import Event, Thread
from urllib.parse import urlsplit

from filelock import FileLock, Timeout

from evolora_core.engine.artifacts import write_json
from evolora_core.engine.run_index import alive, now
from evolora_core.errors import EvoloraError, StageError

log = logging.getLogger("evolora_core.stages")

START_SECONDS = 600.0  # on a machine that is busy with other work a start takes minutes
ANSWER_SECONDS = 5.0  # that a server which runs may take to say so
PATIENCE = 30.0  # seconds of it between two lines that say so
REVIVALS = 5  # times that a server is started again
USUAL_PORT = 4200
ADDRESS = "prefect/server.json"  # in EVOLORA_HOME: the server of `evolora serve`, and the process of the latter


@contextmanager
def embedded_prefect(home: Path) -> Iterator[None]:
    """Serve Prefect's API to the flows run inside: by the server that is known, or by a private one without UI.

    Prefect's own lines stay off the console; the server's go to a file in EVOLORA_HOME/prefect. Raises StageError if it
    does not start.
    """
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_DEBUG_LEVEL", "CRITICAL")  # of events that find no server
    url = known_server(home)
    if url:
        refuse_silent(url)
    with _connected(url) if url else _started(home, private=True) as own:
        try:
            yield
        except EvoloraError:
            raise
        except Exception as error:
            if url and not _answers(url):
                kept = "what is made is kept, so run the same again"
                raise StageError(f"Prefect: the server at {url} answers no more; {kept}") from error
            if type(error).__module__.partition(".")[0] not in ("prefect", "httpx"):
                raise
            reason = str(error).split("\n")[0]
            log_file = _log_file(home, own) if own else f"the log of {url}"
            raise StageError(f"Prefect: {reason}; {log_file} may say why") from error


@contextmanager
def shared_prefect(home: Path) -> Iterator[str]:
    """The address of a whole server, with UI and schedules: the one that is known, or one of our own. Raises StageError
    if it does not start, or if the known one ends.
    """
    if url := known_server(home):
        refuse_silent(url)
        with _connected(url), _announced(home, url):
            try:
                yield url
            except Exception as error:
                if _answers(url):
                    raise
                again = f"the server at {url} answers no more; start `evolora serve` again"
                raise StageError(f"Prefect: {again}") from error
        return
    with _started(home, USUAL_PORT, private=False) as url, _announced(home, url):
        yield url


@contextmanager
def _announced(home: Path, url: str) -> Iterator[None]:
    """Other shells find the server in EVOLORA_HOME."""
    (home / ADDRESS).parent.mkdir(exist_ok=True)
    write_json(home / ADDRESS, {"url": url, "pid": os.getpid(), "started": now()})
    try:
        yield
    finally:
        (home / ADDRESS).unlink(missing_ok=True)


def known_server(home: Path) -> str | None:
    """The address of the server to use: PREFECT_API_URL, else that of `evolora serve` if it runs and answers. One that
    was killed leaves its address behind, where another home's server may answer by now.
    """
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    try:
        known = json.loads((home / ADDRESS).read_text(encoding="utf-8"))
        url, runs = str(known["url"]), alive(known["pid"], known["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return url if runs and _healthy(url) else None


def serve_lock(home: Path) -> FileLock:
    """Held by `evolora serve`, from before its server starts."""
    return FileLock(home / "prefect" / "serve.lock")


def is_served(home: Path) -> bool:
    """Whether `evolora serve` runs for this home, or starts."""
    if not (home / "prefect").is_dir():
        return False
    try:
        with serve_lock(home).acquire(timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def _connected(url: str) -> Iterator[None]:
    """Flows run inside report to `url`."""
    before = os.environ.get("PREFECT_API_URL")
    os.environ["PREFECT_API_URL"] = url  # for this process, if it has not imported Prefect yet, and for its workers
    try:
        from prefect.settings import PREFECT_API_URL, temporary_settings

        with temporary_settings({PREFECT_API_URL: url}):  # where Prefect was imported before
            try:
                yield
            finally:
                _send_last_lines()
    finally:
        if before is None:
            del os.environ["PREFECT_API_URL"]


@contextmanager
def _started(home: Path, wanted: int = 0, *, private: bool) -> Iterator[str]:
    """A server of our own, at port `wanted` if that is free, to which flows run inside report. One that is killed is
    started again: what it knows is in its database.
    """
    listening = _listening(wanted)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/api"
    log_file = _log_file(home, url)
    log_file.write_text("")
    # Prefect makes and migrates its database while it starts, with no lock between processes.
    starting = FileLock(home / "prefect" / "start.lock")
    starting.acquire()
    servers = [_spawn(listening, log_file, private)]
    closing = Event()

    def revive() -> None:
        while servers[-1].wait() is not None and not closing.is_set() and len(servers) <= REVIVALS:
            log.warning("warning: Prefect's server ended (exit code %d) and is started again", servers[-1].returncode)
            servers.append(_spawn(listening, log_file, private))
            if closing.is_set():
                _end(servers[-1])

    keeper = Thread(target=revive, daemon=True)
    try:
        _wait_until_healthy(servers[0], url, log_file)
        starting.release()
        keeper.start()
        with _connected(url):
            yield url
    finally:
        closing.set()
        if keeper.is_alive():
            _end(servers[-1])
            keeper.join()
        _end(servers[-1])
        starting.release()
        listening.close()
        if not log_file.stat().st_size and servers[-1].returncode == 0:
            log_file.unlink()


def _log_file(home: Path, url: str) -> Path:
    """Where a server of ours writes; several commands may have one each in the same home."""
    return home / "prefect" / f"server-{urlsplit(url).port}.log"


def _spawn(listening: socket.socket, log_file: Path, private: bool) -> subprocess.Popen[bytes]:
    with open(log_file, "a") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "flows._server", str(listening.fileno()), "private" if private else "shared"],
            pass_fds=[listening.fileno()],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=os.environ | {"PREFECT_PLUGINS_ENABLED": "false"},
            start_new_session=True,  # Ctrl-C is for its parent, which still has something to report then
        )


def _end(server: subprocess.Popen[bytes]) -> None:
    """Close the pipe that a server watches, and wait for it. It ends within 20 s; where a forked child still holds the
    pipe open, it is killed.
    """
    if server.stdin:
        server.stdin.close()
    try:
        server.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def _listening(wanted: int) -> socket.socket:
    """A socket that listens at `wanted` if nobody does there, else at any port. Our server takes it over: with a number
    alone, another command could have the port by the time it starts, and its server be taken for ours.
    """
    for port in (wanted, 0):
        own = socket.socket()
        own.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            own.bind(("127.0.0.1", port))
            own.listen()
            return own
        except OSError:
            own.close()
    raise StageError("no port of 127.0.0.1 is free for Prefect's server")


def _healthy(url: str) -> bool:
    """Whether a server of ours is ready. No proxy stands between two processes of this machine."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(f"{url}/health", timeout=ANSWER_SECONDS):
            return True
    except (urllib.error.URLError, OSError):
        return False


def refuse_silent(url: str) -> None:
    """StageError if the server of PREFECT_API_URL does not answer."""
    if not _answers(url):
        raise StageError(f"PREFECT_API_URL: {url} does not answer; start that server, or unset the variable")


def _answers(url: str) -> bool:
    """Whether there is a server, which may want to know first who asks."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=ANSWER_SECONDS):
            return True
    except urllib.error.HTTPError:
        return True
    except (urllib.error.URLError, OSError, ValueError):
        return False


def _wait_until_healthy(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    begun, told = time.monotonic(), 1
    while (waited := time.monotonic() - begun) < START_SECONDS and server.poll() is None:
        if _healthy(url):
            return
        if waited > told * PATIENCE:
            print(f"Prefect's server is still starting after {waited:.0f} s", file=sys.stderr)
            told += 1
        time.sleep(0.1)
    if server.poll() is None:
        raise StageError(
            f"{url}: Prefect's server does not answer after {START_SECONDS:.0f} s; start again when this machine is "
            "less busy"
        )
    raise StageError(f"{log}: Prefect's server did not start (exit code {server.returncode}); its log says why")


def _send_last_lines() -> None:
    """Prefect sends log lines and events in the background, and would complain if the server were gone by then."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    APILogWorker.drain_all(timeout=5)
    EventsWorker.drain_all(timeout=5)


def serve(listening: socket.socket, *, private: bool) -> None:
    """The child: serve until standard input ends."""
    port = listening.getsockname()[1]
    os.environ |= {"PREFECT__SERVER_FINAL": "1", "PREFECT_SERVER_API_HOST": "127.0.0.1"}
    os.environ |= {"PREFECT_SERVER_API_PORT": str(port)}
    if private:
        os.environ |= {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1"}
    import uvicorn

    app = "prefect.server.api.server:create_app"
    server = uvicorn.Server(uvicorn.Config(app, factory=True, host="127.0.0.1", port=port, log_level="error"))

    def end_with_parent() -> None:
        sys.stdin.read()
        server.should_exit = True
        time.sleep(20)  # a browser that holds its connection open must not keep the server
        os._exit(0)

    Thread(target=end_with_parent, daemon=True).start()
    server.run([listening])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])), private=sys.argv[2] == "private")
