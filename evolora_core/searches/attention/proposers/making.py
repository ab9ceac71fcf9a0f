"""The proposer of a search that asks a model: an endpoint, or the record of one.

Every call is a line of `calls.jsonl` as soon as it is answered. A search that was killed and goes on does not ask again
what it finds there, so that no answer is paid twice and the search ends as if nothing had been.
"""

import os
from pathlib import Path

from evolora_core.errors import ConfigError
from evolora_core.searches.attention.proposers.base import Call, Proposal, Proposer, Request, Unusable
from evolora_core.searches.attention.proposers.client import Ask, Client, Endpoint, endpoint_from_environment
from evolora_core.searches.attention.proposers.endpoint import Asking, EndpointProposer
from evolora_core.searches.attention.proposers.replay import Recorded, call_line, read_calls
from evolora_core.searches.attention.proposers.settings import ProposerSettings
from evolora_core.searches.attention.proposers.spending import Budget, Limits, Prices

CALLS = "calls.jsonl"


def make_proposer(settings: ProposerSettings, folder: Path) -> tuple[Proposer, Budget]:
    """The proposer, which keeps its calls in `folder`, and what it may still ask. The model has to be named."""
    assert settings.model is not None
    file = folder / CALLS
    before = _whole(file)
    ask: Ask
    if settings.recorded is not None:
        ask = Recorded(read_calls(Path(settings.recorded)), settings.recorded)
    else:
        ask = Client(endpoint_of(settings))
    limits = Limits(settings.calls, settings.tokens, settings.usd)
    budget = Budget(limits, Prices(settings.prices.prompt, settings.prices.completion))
    asking = Asking(settings.model, settings.temperature, settings.max_tokens)
    proposer = EndpointProposer(asking, Recorded(before, str(file), otherwise=ask), budget)
    return Keeping(proposer, file, {call.request_hash for call in before}), budget


class Keeping:
    """A proposer that leaves its calls in a file."""

    def __init__(self, proposer: Proposer, file: Path, known: set[str]) -> None:
        self._proposer, self._file, self._known = proposer, file, known

    def propose(self, request: Request) -> Proposal:
        """What the proposer makes of a request."""
        try:
            made = self._proposer.propose(request)
        except Unusable as error:
            self._keep(error.call)
            raise
        if made.call is not None:
            self._keep(made.call)
        return made

    def _keep(self, call: Call) -> None:
        if call.request_hash in self._known:
            return
        self._known.add(call.request_hash)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(call_line(call))
            file.flush()
            os.fsync(file.fileno())


def named(settings: ProposerSettings) -> ProposerSettings:
    """The settings with the name of the model, where they leave it to the environment or to the record. ConfigError
    where there is no endpoint, or no record.
    """
    if settings.recorded is None:
        model = endpoint_of(settings).model
    else:
        calls = read_calls(Path(settings.recorded))
        if not calls:
            raise ConfigError(f"{settings.recorded}: holds no recorded call")
        model = settings.model or calls[0].model
    return settings.model_copy(update={"model": model})


def endpoint_of(settings: ProposerSettings) -> Endpoint:
    """The endpoint of the environment, for the model of the settings if they name one. ConfigError if it is not set."""
    model = {"EVOLORA_LLM_MODEL": settings.model} if settings.model else {}
    return endpoint_from_environment({**os.environ, **model})


def _whole(file: Path) -> list[Call]:
    """The calls that a killed search left; a line that it did not finish is taken out of the file."""
    if not file.exists():
        return []
    content = file.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        file.write_bytes(whole)
    return read_calls(file)
