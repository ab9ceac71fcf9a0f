"""A real server on this machine that speaks as a model's does, for as long as a test asks."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import MappingProxyType
from typing import Any

Answer = Callable[[dict[str, Any], Message], tuple[int, Any]]


@contextmanager
def serving(answer: Answer, headers: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """The address. `answer` gives status and document (JSON, or bytes as they are) for a question and its headers;
    `headers` are sent beside its length and kind.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/chat/completions"
            question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, document = answer(question, self.headers)
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def completion(text: str | None, usage: Mapping[str, int] | None = None) -> tuple[int, Any]:
    """A chat completion as servers send it."""
    choices = [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    document = {"id": "1", "object": "chat.completion", "created": 0, "model": "tiny", "choices": choices}
    return 200, document | ({"usage": {**usage, "total_tokens": sum(usage.values())}} if usage else {})
