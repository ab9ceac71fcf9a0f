"""Streams of `evolora serve-run`: one whose client hangs up ends; and the address that it prints."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from random_host import random_host

from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.stopping import until
from evolora_core.searches.adapters.evolved import Evolved, Reply
from evolora_core.searches.adapters.finished import TrainedRun
from flows import _openai
from flows._openai import LARGEST_BODY, Chat, _events, _url, make_app


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Evolved:
    """A host with random weights, without adapters."""
    host = random_host(tmp_path_factory.mktemp("host"))
    return Evolved("x.ecology.s0", host, TrainedRun("x", None, {}), DecodingConfig(), None).bare()


def test_a_client_that_hangs_up_leaves_the_turn_to_others(bare: Evolved) -> None:
    asked = Chat.model_validate({"messages": [{"role": "user", "content": "Compute 512 - 7."}], "temperature": 1})
    hung_up, pieces, before = threading.Event(), list[str](), set(threading.enumerate())

    def reply(asked: Chat, prompts: list[str], told: Any) -> list[Reply]:
        def counted(text: str) -> None:
            told(text)
            pieces.append(text)
            assert hung_up.wait(30)

        return bare.answer(prompts, max_new_tokens=100, temperature=asked.temperature, told=counted)

    events = _events(asked, "Compute 512 - 7.", {}, reply)
    assert '"content":' in next(events)
    (worker,) = set(threading.enumerate()) - before
    events.close()  # type: ignore[attr-defined]  # a generator: what a server does with it when its client is gone
    hung_up.set()
    worker.join(30)
    assert not worker.is_alive() and len(pieces) == 1


def test_what_clients_of_openai_send_is_understood(bare: Evolved) -> None:
    part = {"type": "text", "text": "Compute 512 - 7."}
    parts = {"messages": [{"role": "user", "content": [part]}], "seed": None, "temperature": None, "n": None}
    with TestClient(make_app(bare, "mine", "", 8), "http://localhost") as client:
        plain = {"messages": [{"role": "user", "content": part["text"]}]}
        answers = [client.post("/v1/chat/completions", json=body).json() for body in (plain, parts)]
        assert answers[0]["choices"] == answers[1]["choices"]

        def said(**more: object) -> str:
            body = plain | {"temperature": 1.5, "max_tokens": 8} | more
            return str(client.post("/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"])

        assert len({said() for _ in range(6)}) > 1  # samples are new ones each time
        assert said(seed=-3) == said(seed=-3) != said(seed=4)


def test_what_ends_an_answer_is_heard_and_what_cannot_be_had_is_refused(bare: Evolved) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Compute 512 - 7."}], "max_tokens": 8}
    with TestClient(make_app(bare, "mine", "", 8), "http://localhost") as client:

        def said(**more: object) -> str:
            answer = client.post("/v1/chat/completions", json=asked | more).json()
            return str(answer["choices"][0]["message"]["content"])

        whole = said()
        stop = whole[2:4]
        assert said(stop=stop) == said(stop=["\x00", stop]) == whole[: whole.index(stop)] and len(whole) > 4
        assert said(stop=[]) == said(stop=None) == said(top_p=1, logprobs=False) == whole
        refusals: list[dict[str, Any]] = [
            {"stop": ["x"] * 17}, {"stop": ["x" * 1001]}, {"stop": "x" * 1001},
            {"top_p": 0.5}, {"logprobs": True}, {"echo": True}, {"n": 2}, {"presence_penalty": 1},
            {"best_of": 2}, {"suffix": "x"}, {"logit_bias": {"5": 1}}, {"functions": [{"name": "x"}]},
            {"tools": [{"type": "function"}]}, {"response_format": {"type": "json_object"}},
        ]  # fmt: skip
        for refused in refusals:
            answer = client.post("/v1/chat/completions", json=asked | refused)
            assert answer.status_code == 400 and answer.json()["error"]["param"].startswith(next(iter(refused)))
        with_tools = client.post("/v1/chat/completions", json=asked | {"tools": [{"type": "function"}]})
        assert with_tools.json()["error"]["message"] == "tools cannot be had here; leave it out"
        assert said(tools=[], response_format={"type": "text"}, frequency_penalty=0.0) == whole
        silent = [*asked["messages"], {"role": "assistant", "content": None}]
        assert said(messages=silent) == whole


def test_keys_that_are_not_read_are_named_once(bare: Evolved, caplog: pytest.LogCaptureFixture) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Compute 512 - 7."}], "max_tokens": 2}
    _openai._log_unread.cache_clear()
    with TestClient(make_app(bare, "mine", "", 8), "http://localhost") as client:
        for more in ({}, {"temprature": 1, "user": "me", "seed": None, "top_k": None}, {"user": "x"}, {"user": "y"}):
            assert client.post("/v1/chat/completions", json=asked | more).status_code == 200
    told = [record.getMessage() for record in caplog.records if record.name == "uvicorn.error"]
    assert told == [f"keys of a question that are not read: {keys}" for keys in ("temprature, user", "user")]


def test_a_stream_that_has_to_be_refused_is_refused_before_it_begins(bare: Evolved) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "1 + 1 = 2. " * 2000}], "max_tokens": 8}
    with TestClient(make_app(bare, "mine", "", 8), "http://localhost") as client:
        for stream in (False, True):
            answer = client.post("/v1/chat/completions", json=asked | {"stream": stream})
            assert answer.status_code == 400 and "tokens" in answer.json()["error"]["message"]


def test_a_question_for_which_there_is_no_room_is_refused(bare: Evolved, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go, answer = threading.Event(), threading.Event(), Evolved.answer

    def held(own: Evolved, *given: Any, **more: Any) -> list[Reply]:
        begun.set()
        assert go.wait(60)
        return answer(own, *given, **more)

    monkeypatch.setattr(_openai, "MOST_WAITING", 0)
    monkeypatch.setattr(Evolved, "answer", held)
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Compute 512 - 7."}], "max_tokens": 8}
    with TestClient(make_app(bare, "mine", "", 8), "http://localhost") as client, ThreadPoolExecutor(1) as other:
        first = other.submit(client.post, "/v1/chat/completions", json=asked)
        assert begun.wait(60)
        refused = [client.post("/v1/chat/completions", json=asked | {"stream": stream}) for stream in (False, True)]
        go.set()
        for own in refused:
            assert own.status_code == 429 and int(own.headers["retry-after"]) > 0
            assert own.json()["error"]["type"] == "rate_limit_error"
        assert first.result().status_code == 200
        assert client.post("/v1/chat/completions", json=asked).status_code == 200  # there is room again


def test_a_stream_tells_its_tokens_where_that_is_asked_and_a_model_is_found_by_name(bare: Evolved) -> None:
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "Compute 512 - 7."}], "max_tokens": 8}
    with TestClient(make_app(bare, "mine", "", 8), "http://localhost") as client:

        def events(**more: object) -> list[Any]:
            lines = client.post("/v1/chat/completions", json=asked | {"stream": True} | more).text.split("\n\n")
            assert lines[-2:] == ["data: [DONE]", ""]
            return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]

        whole = client.post("/v1/chat/completions", json=asked).json()
        *pieces, last = events(stream_options={"include_usage": True})
        assert last["choices"] == [] and last["usage"] == whole["usage"] and whole["usage"]["completion_tokens"] == 8
        assert all("usage" not in piece for piece in pieces) and len(events()) == len(pieces)
        assert client.get("/v1/models/mine:host").json()["id"] == "mine:host"
        unknown = client.get("/v1/models/yours")
        assert unknown.status_code == 404 and "ask for mine" in unknown.json()["error"]["message"]


@pytest.mark.parametrize("stops", [[], ["st_"], ["_x", "lists"], ["t_of"], ["of_aa", "f_all"], ["po"]])
def test_the_pieces_of_a_stream_are_the_answer(stops: list[str]) -> None:
    evolved = Evolved("x.ecology.s0", load_host("nano"), TrainedRun("x", None, {}), DecodingConfig(), None).bare()
    pieces: list[str] = []
    (whole,) = evolved.answer(["Write in snake_case: PostListOfAll"])
    (own,) = evolved.answer([whole.prompt], stop_strings=stops, told=pieces.append)
    assert "".join(pieces) == own.answer == until(whole.answer, stops) and len(whole.answer) > 8


def test_a_body_is_read_from_whom_has_the_token_and_no_longer_than_it_may_be(bare: Evolved) -> None:
    with TestClient(make_app(bare, "mine", "schlüssel", 8)) as client:
        assert client.get("/v1/models").status_code == 401
        told: Any = {"authorization": "Bearer schlüssel".encode("latin-1")}
        assert client.get("/v1/models", headers=told).json()["data"][0]["id"] == "mine"
        long = client.post("/v1/completions", content=b"x" * (LARGEST_BODY + 1), headers=told)
        assert long.status_code == 413 and "8 MiB" in long.json()["error"]["message"]
        unknown = client.post("/v1/completions", content=iter([b"{}"]), headers=told)  # in chunks, without a length
        assert unknown.status_code == 413
        both = told | {"content-length": "2", "transfer-encoding": "chunked"}
        assert client.post("/v1/completions", content=iter([b"{}"]), headers=both).status_code == 413


def test_without_a_token_a_page_of_the_web_is_not_answered(bare: Evolved) -> None:
    """One whose name leads to this machine is, to a browser, of the same origin."""
    with TestClient(make_app(bare, "mine", "", 8), "http://127.0.0.1:8000") as client:
        assert client.get("/v1/models").status_code == 200
        for host in ("[::1]:8000", "localhost"):
            assert client.get("/v1/models", headers={"host": host}).status_code == 200
        for host in ("evil.example:8000", "127.0.0.1.evil.example", "[::1", ""):
            refused = client.get("/v1/models", headers={"host": host})
            assert refused.status_code == 403 and "local names" in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("address", "url"), [("127.0.0.1", "http://127.0.0.1:8000/v1"), ("::1", "http://[::1]:8000/v1")]
)
def test_the_address_is_one_that_a_client_takes(address: str, url: str) -> None:
    assert _url(address, 8000) == url
