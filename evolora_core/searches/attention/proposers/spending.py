"""A hard budget of calls, tokens and money: what a question may cost at most is set aside before it is asked."""

from dataclasses import dataclass
from threading import Lock

from evolora_core.errors import EvoloraError
from evolora_core.searches.attention.proposers.base import Call

MILLION = 1_000_000


class BudgetSpent(EvoloraError):
    """The next question could cost more than is left. The search ends here, as it would at its last program."""


@dataclass(frozen=True)
class Prices:
    """Prices of a model, in US dollars per million tokens."""

    prompt: float = 0.0
    completion: float = 0.0

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What these tokens cost."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / MILLION


@dataclass(frozen=True)
class Limits:
    """The most that may be spent; None: without a limit."""

    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None


class Budget:
    """What was spent and what is set aside for questions that are being asked. May be shared by threads."""

    def __init__(self, limits: Limits, prices: Prices) -> None:
        self.limits, self.prices = limits, prices
        self._calls = self._prompt = self._completion = 0
        self._lock = Lock()

    @property
    def calls(self) -> int:
        """Questions that were asked."""
        return self._calls

    @property
    def tokens(self) -> int:
        """Tokens of all prompts and answers."""
        return self._prompt + self._completion

    @property
    def usd(self) -> float:
        """Money, by the prices."""
        return self.prices.usd(self._prompt, self._completion)

    def reserve(self, prompt_tokens: int, completion_tokens: int) -> None:
        """Set aside one call of at most so many tokens. BudgetSpent, and nothing set aside, where that is too many."""
        with self._lock:
            self._add(1, prompt_tokens, completion_tokens)
            spent = (
                ("calls", self.calls, self.limits.calls),
                ("tokens", self.tokens, self.limits.tokens),
                ("usd", self.usd, self.limits.usd),
            )
            for name, value, limit in spent:
                if limit is not None and value > limit:
                    self._add(-1, -prompt_tokens, -completion_tokens)
                    raise BudgetSpent(
                        f"the budget of the proposer is spent: one more call could lead to {value:g} {name}, and "
                        f"{limit:g} are allowed; raise the limit to go on"
                    )

    def settle(self, prompt_tokens: int, completion_tokens: int, call: Call | None) -> None:
        """Put what `reserve` set aside back and count what the call took; None: it was not answered."""
        with self._lock:
            self._add(-1, -prompt_tokens, -completion_tokens)
            if call is not None:
                self._add(1, call.prompt_tokens, call.completion_tokens)

    def count(self, call: Call) -> None:
        """Count a call of an earlier part of the run."""
        with self._lock:
            self._add(1, call.prompt_tokens, call.completion_tokens)

    def _add(self, calls: int, prompt_tokens: int, completion_tokens: int) -> None:
        self._calls += calls
        self._prompt += prompt_tokens
        self._completion += completion_tokens
