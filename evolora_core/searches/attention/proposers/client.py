"""Asks an OpenAI-compatible endpoint."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Protocol

from evolora_core.errors import ConfigError, Passing, StageError

MOST_BYTES = 4 * 2**20  # of an answer
AGAIN = (408, 409, 429)  # statuses after which it is tried again, as after those from 500 on
PAUSE = 0.5  # seconds before the second try; twice as long before each that follows
LONGEST = 60.0  # seconds that a server may ask to wait for


@dataclass(frozen=True)
class Endpoint:
    """Where to ask.

    url      up to and without `/chat/completions`, such as http://127.0.0.1:8000/v1
    timeout  seconds until an answer has to be there
    retries  tries after the first, where the server is busy or does not answer
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 300.0
    retries: int = 3


@dataclass(frozen=True)
class Answer:
    """The text of an answer, its tokens by the server's count (None where it does not count), and how long it took."""

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None
    seconds: float


class Unanswered(StageError, Passing):
    """Nobody answers, or the server is busy: later it may be otherwise."""


class Ask(Protocol):
    """Whoever answers a chat-completion request, given as its JSON document."""

    def __call__(self, payload: Mapping[str, Any]) -> Answer:
        """The answer. StageError, one line, if there is none."""


def endpoint_from_environment(environment: Mapping[str, str] = os.environ) -> Endpoint:
    """The endpoint that EVOLORA_LLM_URL, EVOLORA_LLM_MODEL and, if it wants one, EVOLORA_LLM_KEY name."""
    url, model = environment.get("EVOLORA_LLM_URL", ""), environment.get("EVOLORA_LLM_MODEL", "")
    if not url.startswith(("http://", "https://")):
        raise ConfigError(
            "EVOLORA_LLM_URL: set it to the address of an OpenAI-compatible endpoint, such as http://127.0.0.1:8000/v1"
        )
    if not model:
        raise ConfigError("EVOLORA_LLM_MODEL: set it to the name of a model that the endpoint serves")
    key = environment.get("EVOLORA_LLM_KEY", "").strip()  # files that keys are read from end with a line
    if not (key.isascii() and key.isprintable()):  # a client's error would show it
        raise ConfigError("EVOLORA_LLM_KEY: holds characters that no key has; set it anew")
    return Endpoint(url.rstrip("/").removesuffix("/chat/completions"), model, key)


class Client:
    """Whoever asks an endpoint, by plain HTTP."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def __call__(self, payload: Mapping[str, Any]) -> Answer:
        """The answer. StageError, one line, if there is none."""
        began = time.perf_counter()
        for number in range(self._endpoint.retries + 1):
            pause = PAUSE * 2**number
            try:
                return _answer(self._endpoint, self._post(payload), time.perf_counter() - began)
            except (OSError, HTTPException) as error:  # a status is an OSError too
                fault, status = str(error) or type(error).__name__, None
                if isinstance(error, urllib.error.HTTPError):
                    status = error.code
                    fault = f"status {status}: {error.read(300).decode(errors='replace')}"
                    if not _passes(status):
                        break
                    wanted = error.headers.get("Retry-After", "")  # seconds; a date is not read
                    pause = max(pause, min(float(wanted), LONGEST)) if wanted.isdecimal() else pause
            if number < self._endpoint.retries:
                time.sleep(pause)
        raise _unanswered(self._endpoint, fault, status)

    def _post(self, payload: Mapping[str, Any]) -> str:
        headers = {"Content-Type": "application/json"}
        if self._endpoint.key:
            headers["Authorization"] = f"Bearer {self._endpoint.key}"
        body = json.dumps(payload).encode()
        request = urllib.request.Request(f"{self._endpoint.url}/chat/completions", body, headers)
        with _OPENER.open(request, timeout=self._endpoint.timeout) as response:
            answer: bytes = response.read(MOST_BYTES + 1)
        return answer.decode(errors="replace")


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the key is for the address that the user named."""

    def redirect_request(self, *_: Any) -> None:
        """A redirect is an error."""


_OPENER = urllib.request.build_opener(_Stay)


def _passes(status: int | None) -> bool:
    """Whether a server may say something else later; None: nobody answered."""
    return status is None or status in AGAIN or status >= 500


def _unanswered(endpoint: Endpoint, said: str, status: int | None) -> StageError:
    kind = Unanswered if _passes(status) else StageError
    return kind(f"{endpoint.url}: no answer from {endpoint.model}: {' '.join(said.split())[:300]}")


def _answer(endpoint: Endpoint, text: str, seconds: float) -> Answer:
    """The answer in a chat completion's JSON."""
    if len(text) > MOST_BYTES:
        raise StageError(f"{endpoint.url}: the answer has more than {MOST_BYTES >> 20} MiB")
    try:
        document = json.loads(text)
        message = document["choices"][0]["message"].get("content") or ""
        usage = document.get("usage") or {}
        if not isinstance(message, str):
            raise TypeError("its content is no text")
        message = message.encode("utf-8", "replace").decode()  # JSON may escape half a character
        return Answer(message, _count(usage, "prompt_tokens"), _count(usage, "completion_tokens"), seconds)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        begins = " ".join(text[:80].split())
        raise StageError(f"{endpoint.url}: the answer is no chat completion; it begins with {begins!r}") from error


def _count(usage: Mapping[str, Any], name: str) -> int | None:
    value = usage.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else None
