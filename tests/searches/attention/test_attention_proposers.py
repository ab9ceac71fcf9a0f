"""Proposers: from the grammar, from a real server that speaks as OpenAI's does, and from recorded answers."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from searches.attention.attention_server import completion, serving

from evolora_core.errors import ConfigError, StageError
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS, get_framework
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.programs.block import block_of
from evolora_core.searches.attention.programs.normal import program_id
from evolora_core.searches.attention.programs.rejection import Rejected, Rejection
from evolora_core.searches.attention.proposers import client
from evolora_core.searches.attention.proposers.answers import _blocks, read_answer
from evolora_core.searches.attention.proposers.base import Call, Proposal, Request, Scored, Unusable
from evolora_core.searches.attention.proposers.client import (
    Ask,
    Client,
    Endpoint,
    Unanswered,
    endpoint_from_environment,
)
from evolora_core.searches.attention.proposers.endpoint import Asking, EndpointProposer
from evolora_core.searches.attention.proposers.grammar import GrammarProposer
from evolora_core.searches.attention.proposers.prompting import user_prompt
from evolora_core.searches.attention.proposers.replay import Recorded, call_line, read_calls
from evolora_core.searches.attention.proposers.spending import Budget, BudgetSpent, Limits, Prices

NAME = "coefficient-dynamics"
FRAMEWORK = get_framework(NAME)
SCALED = "scores = 2 * q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])"
EDIT = f"""Twice as sharp.

<<<<<<< SEARCH
        {SCALED.replace("2 * ", "")}
=======
        {SCALED}
>>>>>>> REPLACE
"""


def scored(genome: dict[str, str] | None = None, score: float | None = None, **more: Any) -> Scored:
    grammar = get_grammar(NAME)
    source = grammar.program(genome or grammar.baseline())
    return Scored(program_id(source), source, genome, score, **more)


def genome(**changes: str) -> dict[str, str]:
    return get_grammar(NAME).baseline() | {name.replace("_", "-"): choice for name, choice in changes.items()}


def request(*parents: Scored, failures: tuple[Scored, ...] = (), slot: int = 0) -> Request:
    return Request(NAME, parents, failures, (7, 1, slot))


# From the grammar


@pytest.mark.parametrize("name", list(FRAMEWORKS))
def test_without_parents_the_grammar_draws(name: str) -> None:
    proposer = GrammarProposer(get_grammar(name))
    made = [proposer.propose(Request(name, (), (), (7, 0, slot))) for slot in range(5)]
    assert made == [proposer.propose(Request(name, (), (), (7, 0, slot))) for slot in range(5)]
    assert len({own.source for own in made}) == 5
    for own in made:
        assert own.operator == "draw" and own.parents == () and own.genome is not None
        assert own.source == get_grammar(name).program(own.genome)


def test_one_parent_is_changed_and_two_are_crossed_as_often_as_is_said() -> None:
    first, second = scored(genome(kernel="relu2", gate="silu")), scored(genome(position="rope", head_norm="norm"))
    (changed,) = [GrammarProposer(get_grammar(NAME)).propose(request(first))]
    gene, choice = changed.operator.split("=")
    assert first.genome is not None and changed.genome == dict(first.genome) | {gene: choice}
    assert changed.parents == (first.program_id,)
    for crossover in (0.0, 1.0):
        proposer = GrammarProposer(get_grammar(NAME), crossover)
        made = [proposer.propose(request(first, second, slot=slot)) for slot in range(10)]
        assert {own.operator == "cross" for own in made} == {crossover == 1.0}
        assert {len(own.parents) for own in made} == {1 + int(crossover)}


def test_the_grammar_does_not_propose_what_the_request_names() -> None:
    parent = TABLE.baseline()
    near = [
        parent | {gene.name: choice} for gene in TABLE.genes for choice in gene.choices[1:] if gene.name != "position"
    ]
    failures = tuple(Scored(str(number), "", own) for number, own in enumerate(near))
    for slot in range(20):
        asked = Request(NAME, (Scored("p", "", parent),), failures, (7, 1, slot))
        made = GrammarProposer(TABLE).propose(asked)
        assert made.genome not in [parent, *near]


def test_a_program_without_a_genome_is_no_parent_for_the_grammar() -> None:
    made = GrammarProposer(get_grammar(NAME)).propose(request(replace(scored(), genome=None)))
    assert made.operator == "draw"


# Answers


def test_edits_and_whole_blocks_and_files_make_the_same_program() -> None:
    edited, form = read_answer(EDIT, FRAMEWORK.source, FRAMEWORK)
    assert form == "edits" and SCALED in edited
    block = block_of(edited)
    assert read_answer(f"Here:\n```python\n{block}```\n", FRAMEWORK.source, FRAMEWORK) == (edited, "block")
    assert read_answer(f"```\n{edited}```", FRAMEWORK.source, FRAMEWORK) == (edited, "file")
    trailing = EDIT.replace("math.sqrt(q.shape[-1])\n=", "math.sqrt(q.shape[-1])   \n=")
    assert read_answer(trailing.replace("\n", "\r\n"), FRAMEWORK.source, FRAMEWORK)[0] == edited


def test_blocks_are_what_stands_between_equal_fences() -> None:
    assert _blocks("a\n```python\nb\n\n```\nc\n~~~\nd\n```\n~~~ \n") == ["b\n\n", "d\n```\n"]
    assert _blocks("````\n```\na\n```\n````\n```\nb") == ["```\na\n```\n"]
    assert _blocks(f"{'`' * 200_000}\n{'`' * 199_999}\n" * 2 + "a\n" * 100_000) == [f"{'`' * 199_999}\n"]


EMPTIED = (
    f"<<<<<<< SEARCH\n{block_of(FRAMEWORK.source)}\n=======\n>>>>>>> REPLACE\n"
    "<<<<<<< SEARCH\nnowhere = 1\n=======\n>>>>>>> REPLACE\n"
)


@pytest.mark.parametrize(
    ("answer", "stage", "words"),
    [
        ("I would rather not.", "syntax", "neither SEARCH/REPLACE edits nor a code block"),
        ("```python\nclass Prepare", "syntax", "does not end"),
        (f"```python\n{'x = 1  # long' * 1000}\n```", "syntax", "at most 10000 are allowed"),
        (EDIT.replace("q @ k", "q @ K", 1), "syntax", r"is missing; nearest is line \d+, 'scores = q @ k"),
        (EMPTIED, "syntax", "the block is empty after the edits before.*edit 2"),
        (EDIT.replace(">>>>>>> REPLACE", ""), "syntax", "the edit does not end.*edit 1"),
        (EDIT.replace("=======\n", ""), "syntax", "'>>>>>>> REPLACE' stands where '=======' is expected"),
        (EDIT.replace("2 * q", "q"), "syntax", "changes nothing"),
        ("<<<<<<< SEARCH\n\n=======\nx\n>>>>>>> REPLACE", "syntax", "SEARCH text is empty"),
        (
            "<<<<<<< SEARCH\n        super().__init__()\n=======\n>>>>>>> REPLACE",
            "syntax",
            r"at lines \d+, \d+, \d+ of the block",
        ),
        ("<<<<<<< SEARCH\n        self.heads = heads\n=======\n>>>>>>> REPLACE", "markers", "out of the block"),
        (
            f"```\n{FRAMEWORK.source.replace('self.heads = heads', 'self.heads = 1')}```",
            "markers",
            "outside of the block",
        ),
    ],
)
def test_what_is_no_program_is_refused_with_the_reason(answer: str, stage: str, words: str) -> None:
    with pytest.raises(Rejected, match=words) as caught:
        read_answer(answer, FRAMEWORK.source, FRAMEWORK)
    assert caught.value.stage == stage


# From a server


@dataclass
class Served:
    """What a server was asked, and how it answers: a list of (status, body), the last one again and again."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    answers: list[tuple[int, Any]] = field(default_factory=list)


@pytest.fixture
def served() -> Iterator[Served]:
    """A server on this machine."""
    state = Served("")

    def answer(question: dict[str, Any], headers: Message) -> tuple[int, Any]:
        state.asked.append(question)
        state.keys.append(headers.get("Authorization"))
        return state.answers.pop(0) if len(state.answers) > 1 else state.answers[0]

    with serving(answer) as state.url:
        yield state


USAGE = {"prompt_tokens": 900, "completion_tokens": 100}


def endpoint(served: Served, retries: int = 2) -> Endpoint:
    return Endpoint(served.url, "tiny", "secret", timeout=20, retries=retries)


def proposer(ask: Ask, **limits: Any) -> EndpointProposer:
    return EndpointProposer(Asking("tiny"), ask, Budget(Limits(**limits), Prices(prompt=1.0, completion=10.0)))


def test_the_prompt_shows_the_last_refused_text_that_there_is() -> None:
    """An answer of which no program can be made has none."""
    refused = [
        Scored(name, text, None, None, Rejection("shapes", name)) for name, text in (("one", "x = 1"), ("two", ""))
    ]
    prompt = user_prompt(request(failures=tuple(refused)), scored())
    assert "shapes: two" in prompt and "has one:\n\n```python\nx = 1\n```\n\nStart from" in prompt
    prompt = user_prompt(request(failures=(refused[1],)), scored())
    assert "shapes: two" in prompt and "has one" not in prompt and "```python\n\n```" not in prompt


def test_a_server_is_asked_and_its_answer_becomes_a_program(served: Served) -> None:
    served.answers = [completion(EDIT, USAGE)]
    refused = scored(genome(kernel="poly"), rejection=Rejection("causality", "sees the future", "position 3 on 5"))
    parents = scored(score=0.0123), scored(genome(gate="silu"), score=-0.5)
    made = proposer(Client(endpoint(served))).propose(request(*parents, failures=(refused,)))
    assert made.source == read_answer(EDIT, FRAMEWORK.source, FRAMEWORK)[0]
    assert made.operator == "ask: edits" and made.genome is None
    assert made.parents == tuple(own.program_id for own in parents)
    assert made.call is not None
    assert (made.call.prompt_tokens, made.call.completion_tokens) == (900, 100)
    assert made.call.usd == pytest.approx(0.0019)
    assert (made.call.outcome, made.call.response, made.call.seconds > 0) == ("used", EDIT, True)
    assert served.keys == ["Bearer secret"]
    (asked,) = served.asked
    assert asked["model"] == "tiny" and asked["max_tokens"] == 4096
    system, user = (message["content"] for message in asked["messages"])
    assert all(f"- {rule}" in system for rule in FRAMEWORK.rules) and "<<<<<<< SEARCH" in system
    assert "- stage causality: sees the future (position 3 on 5)\n" in user
    assert "(1 + scores).square()" in user and "the score -0.5000" in user
    assert user.index("the score +0.0123") < user.index(FRAMEWORK.source.strip())


def test_a_busy_server_is_asked_again_and_a_wrong_question_is_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PAUSE", 0.01)
    served.answers = [(503, {"error": {"message": "busy"}}), completion(EDIT, USAGE)]
    assert proposer(Client(endpoint(served))).propose(request()).call is not None
    assert len(served.asked) == 2
    for answer, tries, words in (
        ((400, {"error": {"message": "no such model"}}), 1, "no such model"),
        ((503, {"error": {"message": "busy"}}), 2, "busy"),
        ((200, b"<html>"), 1, "no chat completion"),
        ((200, {"choices": []}), 1, "no chat completion"),
        ((200, b"[" * 100_000), 1, "no chat completion"),
    ):
        served.answers, before = [answer], len(served.asked)
        asking = proposer(Client(endpoint(served, retries=1)))
        with pytest.raises(StageError, match=words) as caught:
            asking.propose(request())
        assert len(served.asked) - before == tries
        assert "secret" not in str(caught.value) and "\n" not in str(caught.value)
        assert (asking.budget.calls, asking.budget.tokens) == (0, 0)


@pytest.mark.parametrize(
    ("says", "waits"), [("7", 7.0), ("9" * 400, client.LONGEST), ("0", client.PAUSE), ("Mon", client.PAUSE)]
)
def test_a_busy_server_says_how_long_to_wait(says: str, waits: float, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(client, "time", SimpleNamespace(perf_counter=time.perf_counter, sleep=waited.append))
    with (
        serving(lambda *_: (429, {"error": {"message": "too many"}}), {"Retry-After": says}) as url,
        pytest.raises(Unanswered, match="status 429: .*too many"),
    ):
        proposer(Client(Endpoint(url, "tiny", timeout=20, retries=1))).propose(request())
    assert waited == [waits]


def test_the_key_goes_to_no_other_address() -> None:
    asked: list[str | None] = []

    def elsewhere(question: dict[str, Any], headers: Message) -> tuple[int, Any]:
        asked.append(headers.get("Authorization"))
        return completion(EDIT, USAGE)

    with (
        serving(elsewhere) as other,
        serving(lambda *_: (302, {}), {"Location": f"{other}/chat/completions"}) as url,
        pytest.raises(StageError, match="no answer from tiny: status 302"),
    ):
        proposer(Client(Endpoint(url, "tiny", "secret", timeout=20, retries=2))).propose(request())
    assert not asked


def test_a_count_of_tokens_that_no_table_holds_is_none(served: Served) -> None:
    served.answers = [completion(EDIT, {"prompt_tokens": 10**30, "completion_tokens": 100})]
    asking = EndpointProposer(Asking("tiny"), Client(endpoint(served)), Budget(Limits(), Prices()))
    made = asking.propose(request(scored()))
    assert made.call is not None and made.call.prompt_tokens < 2**53 and made.call.completion_tokens == 100


def test_half_a_character_in_an_answer_is_no_fault(served: Served) -> None:
    served.answers = [completion(EDIT + "\ud83d", USAGE)]
    made = proposer(Client(endpoint(served))).propose(request(scored()))
    assert made.call is not None and made.call.response == EDIT + "?"


def test_an_answer_without_a_program_costs_a_call(served: Served) -> None:
    served.answers = [completion(None, USAGE)]
    asking = proposer(Client(endpoint(served)))
    with pytest.raises(Unusable, match="neither") as caught:
        asking.propose(request(scored()))
    assert caught.value.call.outcome == "unusable" and caught.value.parents == (scored().program_id,)
    assert (asking.budget.calls, asking.budget.tokens) == (1, 1000)


def test_tokens_that_nobody_counted_are_taken_for_the_most_there_can_be(served: Served) -> None:
    served.answers = [completion(EDIT)]
    made = proposer(Client(endpoint(served))).propose(request())
    sent = sum(len(message["content"].encode()) for message in served.asked[0]["messages"])
    assert made.call is not None and made.call.prompt_tokens >= sent
    assert made.call.completion_tokens == len(EDIT.encode())


def test_the_budget_is_never_exceeded(served: Served) -> None:
    served.answers = [completion(EDIT, USAGE)]
    for limits, words in (({"calls": 2}, "3 calls"), ({"tokens": 22_000}, "tokens"), ({"usd": 0.055}, "usd")):
        asking, asked = proposer(Client(endpoint(served)), **limits), len(served.asked)
        with pytest.raises(BudgetSpent, match=words):
            for slot in range(100):
                asking.propose(request(slot=slot))
        done = len(served.asked) - asked
        assert done == asking.budget.calls and done > 0
        assert asking.budget.tokens == 1000 * done and asking.budget.usd == pytest.approx(0.0019 * done)
        assert asking.budget.tokens <= limits.get("tokens", 10**9) and asking.budget.usd <= limits.get("usd", 1.0)


def test_a_budget_goes_on_where_a_run_was_cut_off() -> None:
    budget = Budget(Limits(calls=1), Prices())
    budget.count(Call("tiny", 5, 5, 1.0, 0.0, "used", "0", ""))
    with pytest.raises(BudgetSpent):
        budget.reserve(1, 1)
    assert budget.tokens == 10


def test_the_environment_names_the_endpoint() -> None:
    named = {"EVOLORA_LLM_URL": "http://127.0.0.1:1/v1/", "EVOLORA_LLM_MODEL": "tiny", "EVOLORA_LLM_KEY": "secret"}
    found = endpoint_from_environment(named)
    assert (found.url, found.model, found.key) == ("http://127.0.0.1:1/v1", "tiny", "secret")
    assert "secret" not in repr(found)
    for change, words in (({"EVOLORA_LLM_URL": "file:///etc/passwd"}, "_URL"), ({"EVOLORA_LLM_MODEL": ""}, "_MODEL")):
        with pytest.raises(ConfigError, match=words):
            endpoint_from_environment(named | change)


def test_a_key_that_cannot_be_sent_is_shown_to_nobody() -> None:
    named = {"EVOLORA_LLM_URL": "http://127.0.0.1:1/v1", "EVOLORA_LLM_MODEL": "tiny"}
    assert endpoint_from_environment(named | {"EVOLORA_LLM_KEY": " secret\r\n"}).key == "secret"
    for wrong in ("secret\r\nmore", "sécret"):
        with pytest.raises(ConfigError, match="EVOLORA_LLM_KEY: holds characters") as caught:
            endpoint_from_environment(named | {"EVOLORA_LLM_KEY": wrong})
        assert "cret" not in str(caught.value)


# From a record


def several(asking: EndpointProposer) -> list[Proposal | tuple[Rejection, Call]]:
    """What becomes of three requests."""
    found: list[Proposal | tuple[Rejection, Call]] = []
    for slot in range(3):
        try:
            found.append(asking.propose(request(scored(), slot=slot)))
        except Unusable as error:
            found.append((error.rejection, error.call))
    return found


def test_a_recorded_run_is_replayed_without_a_server(served: Served, tmp_path: Path) -> None:
    served.answers = [completion(EDIT, USAGE), completion("No.", USAGE), completion(EDIT)]
    asking = proposer(Client(endpoint(served)))
    made = several(asking)
    calls = [own.call if isinstance(own, Proposal) else own[1] for own in made]
    record = tmp_path / "calls.jsonl"
    record.write_text("".join(call_line(call) for call in calls if call is not None), encoding="utf-8")
    assert "secret" not in record.read_text(encoding="utf-8")
    recorded = Recorded(read_calls(record), str(record))
    again = EndpointProposer(Asking("tiny"), recorded, Budget(Limits(), Prices(prompt=1.0, completion=10.0)))
    assert several(again) == made
    assert (again.budget.calls, again.budget.tokens) == (asking.budget.calls, asking.budget.tokens)
    assert len(served.asked) == 3
    with pytest.raises(StageError, match=r"calls.jsonl: no recorded answer to the request [0-9a-f]{16} to tiny"):
        again.propose(request(scored(), slot=3))
    hotter = EndpointProposer(Asking("tiny", temperature=1.0), recorded, Budget(Limits(), Prices()))
    with pytest.raises(StageError, match="no recorded answer"):
        hotter.propose(request(scored()))


def test_a_damaged_record_is_refused_with_its_line(tmp_path: Path) -> None:
    good = Call("tiny", 5, 5, 1.0, 0.0, "used", "0", "text\u2028more")
    path = tmp_path / "calls.jsonl"
    for damaged in ("{", json.dumps(json.loads(call_line(good)) | {"seconds": "1"}), '{"model": "tiny"}'):
        path.write_text(call_line(good) + damaged + "\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="line 2: no recorded call"):
            read_calls(path)
    path.write_text(call_line(good), encoding="utf-8")
    assert read_calls(path) == [good]
    with pytest.raises(ConfigError, match="cannot be read"):
        read_calls(tmp_path / "none.jsonl")
