"""Double-entry energy accounts in integer micro-energy.

Accounts: `sun` pays rewards and founders' endowments, `sink` takes costs, and one account per organelle (its id as
text). Every entry moves an amount from one account to another, so all accounts sum to zero after every step, exactly.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from evolora_core.searches.adapters.ecology.events import Row

SUN, SINK = "sun", "sink"
MICRO = 1_000_000  # micro-energy in one unit of energy


def micro(units: float) -> int:
    """Energy units as integer micro-energy, rounded to nearest."""
    return round(units * MICRO)


@dataclass
class Ledger:
    """Balances of all accounts that are not empty, and the postings since they were last drained."""

    balances: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    postings: list[Row] = field(default_factory=list)

    def post(self, generation: int, entry: str, payer: str, payee: str, amount: int) -> None:
        """Move `amount` micro-energy from `payer` to `payee`. Two rows are written, which sum to zero."""
        if amount < 0:
            raise ValueError(f"ledger: a posting of {amount} is negative; swap payer and payee")
        if amount == 0:
            return
        for account, change in ((payer, -amount), (payee, amount)):
            self.balances[account] += change
            if self.balances[account] == 0:  # the accounts of the dead stay empty
                del self.balances[account]
        self.postings += [
            {"generation": generation, "entry": entry, "account": payer, "amount": -amount},
            {"generation": generation, "entry": entry, "account": payee, "amount": amount},
        ]

    def split(self, generation: int, entry: str, payers: Iterable[str], payee: str, amount: int) -> None:
        """Let `payers` share one amount evenly; the first pays what does not divide."""
        names = list(payers)
        share, rest = divmod(amount, len(names))
        for position, name in enumerate(names):
            self.post(generation, entry, name, payee, share + (rest if position == 0 else 0))

    def balance(self, account: str | int) -> int:
        """Micro-energy of one account (0 for one never used)."""
        return self.balances.get(str(account), 0)

    def drain(self) -> list[Row]:
        """The postings since the last call."""
        rows, self.postings = self.postings, []
        return rows

    def state(self) -> dict[str, int]:
        """Balances as JSON."""
        return dict(sorted(self.balances.items()))

    @classmethod
    def from_state(cls, state: Mapping[str, int]) -> "Ledger":
        """The ledger whose balances `state()` gave."""
        return cls(balances=defaultdict(int, {name: int(value) for name, value in state.items()}))
