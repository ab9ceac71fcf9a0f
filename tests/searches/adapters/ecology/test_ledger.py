from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evolora_core.searches.adapters.ecology.ledger import Ledger, micro

ACCOUNTS = st.sampled_from(["sun", "sink", "0", "1", "2"])
POSTINGS = st.lists(st.tuples(ACCOUNTS, ACCOUNTS, st.integers(0, 10**12)))


@given(POSTINGS)
def test_all_accounts_sum_to_zero_after_every_posting(postings: Any) -> None:
    ledger = Ledger()
    for payer, payee, amount in postings:
        ledger.post(0, "x", payer, payee, amount)
        assert sum(ledger.balances.values()) == 0
    assert sum(row["amount"] for row in ledger.drain()) == 0
    assert ledger.drain() == []


@given(st.integers(0, 10**9), st.integers(1, 7))
def test_a_split_is_paid_in_full(amount: Any, payers: Any) -> None:
    ledger = Ledger()
    ledger.split(0, "birth", [str(i) for i in range(payers)], "child", amount)
    assert ledger.balance("child") == amount
    assert sum(ledger.balances.values()) == 0
    shares = [-ledger.balance(i) for i in range(payers)]
    assert max(shares) - min(shares) < payers


@given(POSTINGS)
def test_state_round_trip(postings: Any) -> None:
    ledger = Ledger()
    for payer, payee, amount in postings:
        ledger.post(0, "x", payer, payee, amount)
    assert Ledger.from_state(ledger.state()).balances == ledger.balances


def test_units_are_micro_energy() -> None:
    assert micro(1.5) == 1_500_000
