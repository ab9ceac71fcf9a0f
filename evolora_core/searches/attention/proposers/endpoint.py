"""The proposer that asks a language model for a program, within a hard budget."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from evolora_core.engine.identity import digest
from evolora_core.engine.rng import key
from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.programs.normal import program_id
from evolora_core.searches.attention.programs.rejection import Rejected
from evolora_core.searches.attention.proposers.answers import read_answer
from evolora_core.searches.attention.proposers.base import Call, Proposal, Request, Scored, Unusable
from evolora_core.searches.attention.proposers.client import Answer, Ask
from evolora_core.searches.attention.proposers.prompting import system_prompt, user_prompt
from evolora_core.searches.attention.proposers.spending import Budget

TEMPLATE_TOKENS = 64  # that a server's chat template may add to two messages


@dataclass(frozen=True)
class Asking:
    """How a model is asked. All of it is part of the request's hash."""

    model: str
    temperature: float = 0.8
    max_tokens: int = 4096


class EndpointProposer:
    """The proposer. `ask` answers requests: an endpoint, or the record of one."""

    def __init__(self, asking: Asking, ask: Ask, budget: Budget) -> None:
        self.asking = asking
        self.budget = budget
        self._ask = ask

    def propose(self, request: Request) -> Proposal:
        """The program of one answer. Unusable, with the call, if none can be made of it; BudgetSpent before a call that
        could cost more than is left; StageError if nobody answers.
        """
        framework = get_framework(request.framework)
        baseline = Scored(program_id(framework.source), framework.source, score=0.0)
        parent = request.parents[0] if request.parents else baseline
        used = tuple(own.program_id for own in request.parents)
        payload = self._payload(request, parent)
        call = self._asked(payload)
        try:
            source, form = read_answer(call.response, parent.source, framework)
        except Rejected as error:
            raise Unusable(error.rejection, replace(call, outcome="unusable"), used) from error
        return Proposal(source, None, f"ask: {form}", used, call)

    def _payload(self, request: Request, parent: Scored) -> dict[str, Any]:
        """The chat completion that is asked for."""
        return {
            "model": self.asking.model,
            "messages": [
                {"role": "system", "content": system_prompt(get_framework(request.framework))},
                {"role": "user", "content": user_prompt(request, parent)},
            ],
            "temperature": self.asking.temperature,
            "max_tokens": self.asking.max_tokens,
            "seed": key(*request.rng_key, "ask") % 2**31,
        }

    def _asked(self, payload: Mapping[str, Any]) -> Call:
        """One call, set aside in the budget before it is made and counted afterwards."""
        prompt = sum(_most_tokens(message["content"]) for message in payload["messages"]) + TEMPLATE_TOKENS
        self.budget.reserve(prompt, self.asking.max_tokens)
        call = None
        try:
            answer = self._ask(payload)
            call = self._call(answer, prompt, digest(payload))
        finally:
            self.budget.settle(prompt, self.asking.max_tokens, call)
        return call

    def _call(self, answer: Answer, prompt: int, request_hash: str) -> Call:
        """What is stored of an answer. Tokens that the server did not count are taken for as many as there can be."""
        sent = prompt if answer.prompt_tokens is None else answer.prompt_tokens
        came = answer.completion_tokens
        came = min(_most_tokens(answer.text), self.asking.max_tokens) if came is None else came
        usd = self.budget.prices.usd(sent, came)
        return Call(self.asking.model, sent, came, answer.seconds, usd, "used", request_hash, answer.text)


def _most_tokens(text: str) -> int:
    """No tokenizer with all bytes in its vocabulary makes more tokens of a text than it has bytes."""
    return len(text.encode())
