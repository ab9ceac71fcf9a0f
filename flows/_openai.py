"""A finished run behind the part of OpenAI's API that clients need: models, completions, chat completions, streams.

Adapters have learned single answers: of a conversation, all messages are read as one prompt, one after another.
"""

import json
import logging
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from queue import SimpleQueue
from typing import Annotated, Any, Literal

import uvicorn
from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field, model_validator
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException as Refused  # a path that there is not is one too
from starlette.types import ASGIApp, Receive, Scope, Send

from evolora_core.errors import ConfigError, EvoloraError
from evolora_core.foreign.text import one_line
from evolora_core.searches.adapters.evolved import BARE, Evolved, Reply

MOST_PROMPTS = 256
MOST_STOPS = 16
LARGEST_BODY = 8 << 20  # bytes
MOST_WAITING = 32  # questions; with the one that is answered fewer than the server's 40 threads, so that it can refuse
RETRY_SECONDS = 5  # after which a client that was refused may ask again
LOCAL = ("127.0.0.1", "localhost", "::1")
_LOCAL_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?", re.IGNORECASE)
CHUNK = "chat.completion.chunk"
Stop = Annotated[str, Field(max_length=1000)]


log = logging.getLogger("uvicorn.error")


class HungUp(Exception):
    """Nobody listens to a stream any more."""


class Part(BaseModel):
    """A part of a message. Only text is read."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """One message of a conversation."""

    role: str
    content: str | list[Part] | None = None  # an assistant that called a tool said nothing

    @property
    def text(self) -> str:
        """All that is said."""
        if self.content is None:
            return ""
        return self.content if isinstance(self.content, str) else "\n".join(part.text for part in self.content)


class StreamOptions(BaseModel):
    """What a stream tells besides its pieces."""

    include_usage: bool = False


class Form(BaseModel):
    """The form of an answer. Only text is given."""

    type: Literal["text"]


class ClientRequest(BaseModel):
    """What both kinds of questions have. Further keys are allowed and not read, which the log says; null is as good as
    none. What would change the answer and cannot be had is refused.
    """

    model_config = ConfigDict(extra="allow")

    model: str = Field("", max_length=1000)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(0.0, ge=0, le=100)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)  # without one, samples are new ones each time
    stop: Stop | Annotated[list[Stop], Field(max_length=MOST_STOPS)] = []
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    n: Literal[1] = 1
    top_p: Literal[1] = 1
    frequency_penalty: Literal[0] = 0
    presence_penalty: Literal[0] = 0
    best_of: Literal[1] = 1
    suffix: Literal[""] = ""
    logit_bias: dict[str, Any] = Field({}, max_length=0)
    tools: list[Any] = Field([], max_length=0)
    functions: list[Any] = Field([], max_length=0)
    response_format: Form = Form(type="text")
    logprobs: Literal[False, 0] = False
    echo: Literal[False] = False

    @property
    def stops(self) -> list[str]:
        """Texts that end an answer."""
        return [text for text in ([self.stop] if isinstance(self.stop, str) else self.stop) if text]

    @property
    def unread(self) -> tuple[str, ...]:
        """Keys that mean nothing here."""
        return tuple(sorted(self.model_extra or ()))

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, values: Any) -> Any:
        return (
            {key: value for key, value in values.items() if value is not None} if isinstance(values, dict) else values
        )


class Chat(ClientRequest):
    """A question of the chat kind."""

    messages: list[Message] = Field(min_length=1, max_length=1000)


class Completion(ClientRequest):
    """A question of the plain kind."""

    prompt: str | list[str]


class Guard:
    """Asks for the token, and for how long the body is, before anything of it is read."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("authorization", "").removeprefix("Bearer ")
        size = headers.get("content-length", "" if scope["method"] == "POST" else "0")
        size = "" if "transfer-encoding" in headers else size  # with both, the length is not the body's
        if self._token and not secrets.compare_digest(given.encode("latin-1"), self._token):  # as Headers read it
            await _refusal(401, "the token is missing or wrong")(scope, receive, send)
        elif not self._token and not _LOCAL_HOST.fullmatch(headers.get("host", "")):
            # A page of the web whose name leads to this machine, say.
            await _refusal(403, "without a token only this machine is answered, by its local names")(
                scope, receive, send
            )
        elif not size.isdecimal() or int(size) > LARGEST_BODY:
            words = f"the body has to say its length, which may be {LARGEST_BODY >> 20} MiB"
            await _refusal(413, words)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@lru_cache(maxsize=256)  # a client sends the same keys each time
def _log_unread(keys: tuple[str, ...]) -> None:
    if keys:
        log.warning("keys of a question that are not read: %s", one_line(", ".join(keys), 200))


def _refusal(code: int, words: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    kind = {401: "authentication_error", 429: "rate_limit_error"}.get(code, "invalid_request_error")
    return JSONResponse({"error": {"message": words, "type": kind, "code": None, "param": None}}, code, headers)


def make_app(evolved: Evolved, word: str, token: str, most: int) -> FastAPI:
    """The application. `word` is how its user calls the run. One question is answered at a time; MOST_WAITING wait."""
    app = FastAPI(title="Evolora", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, token=token)
    turn, room = threading.Lock(), threading.BoundedSemaphore(1 + MOST_WAITING)

    def asked_of(model: str) -> Evolved:
        name, _, who = model.partition(":")
        if name not in ("", word, evolved.name):
            raise HTTPException(404, f"there is no model {model!r}; ask for {word}")
        if not who:
            return evolved
        if who == BARE:
            return evolved.bare()
        try:
            return evolved.asking(int(who))
        except (ValueError, EvoloraError) as error:
            raise HTTPException(404, f"there is no model {model!r}: {error}") from None

    def reply(asked: ClientRequest, prompts: list[str], told: Any = None) -> list[Reply]:
        own = asked_of(asked.model)
        _log_unread(asked.unread)
        wanted = asked.max_completion_tokens or asked.max_tokens
        if not room.acquire(blocking=False):
            words = f"{MOST_WAITING} questions wait for their turn already; ask again later"
            raise HTTPException(429, words, {"Retry-After": str(RETRY_SECONDS)})
        try:
            with turn:
                return own.answer(
                    prompts, max_new_tokens=min(wanted, most) if wanted else None, temperature=asked.temperature,
                    seed=secrets.randbits(63) if asked.seed is None else asked.seed % 2**63, told=told,
                    stop_strings=asked.stops,
                )  # fmt: skip
        except EvoloraError as error:
            raise HTTPException(400, str(error)) from None
        finally:
            room.release()

    @app.exception_handler(Refused)
    def refused(_: Request, error: Refused) -> JSONResponse:
        return _refusal(error.status_code, error.detail, error.headers)

    @app.exception_handler(RequestValidationError)
    def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"] if part != "body")
        words = fault["msg"]
        if "application/json" not in request.headers.get("content-type", ""):
            words = "send JSON, with the header `content-type: application/json`"
        elif fault["type"] == "json_invalid":
            words, place = f"the body is no JSON ({fault['ctx']['error']})", ""
        elif fault.get("ctx", {}).get("max_length") == 0:
            words = f"{place} cannot be had here; leave it out"
        content = {"message": words, "type": "invalid_request_error", "code": None, "param": place or None}
        return JSONResponse({"error": content}, 400)

    @app.get("/v1/models")
    def models() -> dict[str, Any]:
        names = [word, *(f"{word}:{own}" for own in (*evolved.organelles, BARE))]
        return {"object": "list", "data": [_model(name) for name in names]}

    @app.get("/v1/models/{name}")
    def model(name: str) -> dict[str, Any]:
        asked_of(name)
        return _model(name)

    @app.post("/v1/chat/completions")
    def chat(asked: Chat) -> Any:
        prompt = "\n".join(message.text for message in asked.messages if message.text)
        head = {"id": f"chatcmpl-{secrets.token_hex(8)}", "created": int(time.time())}
        head["model"] = asked.model or word
        if asked.stream:
            asked_of(asked.model)
            events = _events(asked, prompt, head, reply)
            begun = next(events)  # raises what refuses the question, before the stream has begun
            return StreamingResponse(chain([begun], events), media_type="text/event-stream")
        (own,) = reply(asked, [prompt])
        choice = {"index": 0, "message": {"role": "assistant", "content": own.answer}, "finish_reason": _why(own)}
        return head | {"object": "chat.completion", "choices": [choice], "usage": _usage([own]), "evolora": _facts(own)}

    @app.post("/v1/completions")
    def complete(asked: Completion) -> Any:
        if asked.stream:
            raise HTTPException(400, "stream: only chat completions are streamed here")
        prompts = [asked.prompt] if isinstance(asked.prompt, str) else asked.prompt
        if not 1 <= len(prompts) <= MOST_PROMPTS:
            raise HTTPException(400, f"prompt: 1 to {MOST_PROMPTS} at a time")
        found = reply(asked, prompts)
        choices = [
            {"index": place, "text": own.answer, "finish_reason": _why(own), "logprobs": None, "evolora": _facts(own)}
            for place, own in enumerate(found)
        ]
        head = {"id": f"cmpl-{secrets.token_hex(8)}", "object": "text_completion", "created": int(time.time())}
        return head | {"model": asked.model or word, "choices": choices, "usage": _usage(found)}

    return app


def _events(asked: ClientRequest, prompt: str, head: dict[str, Any], reply: Any) -> Iterator[str]:
    """The events of a stream: pieces as they come from another thread, then why it ended. Closed before, by a client
    that hangs up, it ends that thread's work at the next piece, so that others have their turn.
    """
    pieces: SimpleQueue[str | Reply | BaseException] = SimpleQueue()
    closed = threading.Event()

    def told(text: str) -> None:
        if closed.is_set():
            raise HungUp
        pieces.put(text)

    def work() -> None:
        try:
            (own,) = reply(asked, [prompt], told)
            pieces.put(own)
        except BaseException as error:
            if not isinstance(error, HungUp | HTTPException):
                log.exception("an answer failed")
            pieces.put(error)

    threading.Thread(target=work, daemon=True).start()
    first: dict[str, Any] = {"role": "assistant"}
    try:
        while isinstance(piece := pieces.get(), str):
            yield _event(head, first | {"content": piece}, None)
            first = {}
        if isinstance(piece, Reply):
            yield _event(head, first, _why(piece), evolora=_facts(piece))
            if asked.stream_options.include_usage:
                yield _line(head | {"object": CHUNK, "choices": [], "usage": _usage([piece])})
        elif first and isinstance(piece, HTTPException):
            raise piece
        else:
            yield _line({"error": {"message": str(getattr(piece, "detail", piece))}})
        yield "data: [DONE]\n\n"
    finally:
        closed.set()


def _event(head: dict[str, Any], delta: dict[str, Any], why: str | None, **more: Any) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": why}
    return _line(head | {"object": CHUNK, "choices": [choice]} | more)


def _line(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "evolora"}


def _why(own: Reply) -> str:
    return "stop" if own.finished else "length"


def _usage(replies: list[Reply]) -> dict[str, int]:
    asked, said = sum(own.prompt_tokens for own in replies), sum(own.answer_tokens for own in replies)
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _facts(own: Reply) -> dict[str, Any]:
    """What only this server says: who answered, as what, and what it cost."""
    return {"who": own.who, "family": own.family, "flops": own.flops}


def _url(address: str, port: int) -> str:
    """What a client is given: an address of IPv6 stands in brackets there."""
    return f"http://{f'[{address}]' if ':' in address else address}:{port}/v1"


def listen(evolved: Evolved, word: str, address: str, port: int, token: str, most: int) -> None:
    """Answer until interrupted. ConfigError where the address cannot be had."""
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        held = socket.socket(found[0], found[1])
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(found[4])
        held.listen(128)  # who asks from here on waits until the server takes questions
    except OSError as error:
        raise ConfigError(f"--address {address} --port {port}: cannot listen there ({error.strerror})") from None
    print(f"{evolved.name}: {_url(address, held.getsockname()[1])}", flush=True)
    config = uvicorn.Config(make_app(evolved, word, token, most), log_level="warning", lifespan="off")
    uvicorn.Server(config).run(sockets=[held])
