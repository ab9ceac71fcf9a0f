"""The meter that every call is charged to: floating-point operations, tokens and seconds by purpose."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PURPOSES = ("calibration", "rollout", "update", "selection", "assimilation", "routing", "evaluation", "tuning")


@dataclass
class Account:
    """What was spent on one purpose."""

    flops: int = 0  # budget
    executed_flops: int = 0  # with padding, without what shared prefixes save
    tokens: int = 0  # prompt and new tokens
    seconds: float = 0.0


@dataclass
class Meter:
    """Compute by purpose. Adding is all it does; what a call costs is for the caller to say."""

    accounts: dict[str, Account] = field(default_factory=dict)

    def add(self, purpose: str, flops: int, tokens: int, seconds: float, executed_flops: int | None = None) -> None:
        """Charge a purpose of `PURPOSES`. Executed FLOPs count as the budget's where they were not measured."""
        if purpose not in PURPOSES:
            raise ValueError(f"purpose {purpose!r} is none of {', '.join(PURPOSES)}")
        account = self.accounts.setdefault(purpose, Account())
        account.flops += int(flops)
        account.executed_flops += int(flops if executed_flops is None else executed_flops)
        account.tokens += int(tokens)
        account.seconds += float(seconds)

    def merge(self, other: "Meter") -> None:
        """Add all that another meter has."""
        for row in other.rows():
            self.add(**row)

    def flops(self, purpose: str) -> int:
        """Budget FLOPs of one purpose."""
        return self.accounts[purpose].flops if purpose in self.accounts else 0

    def total(self) -> int:
        """Budget FLOPs over all purposes."""
        return sum(account.flops for account in self.accounts.values())

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table `compute`, in the order of `PURPOSES`: purpose, flops, executed_flops, tokens, seconds."""
        return [
            {"purpose": purpose, **vars(self.accounts[purpose])} for purpose in PURPOSES if purpose in self.accounts
        ]

    def state(self) -> dict[str, Any]:
        """Everything, as JSON values."""
        return {"rows": self.rows()}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> "Meter":
        """What `state` gave; an empty mapping is an empty meter."""
        meter = cls()
        for row in state.get("rows", []):
            meter.add(**row)
        return meter
