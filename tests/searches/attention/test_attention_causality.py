"""The three tests of causality: each is needed, each names the positions, and honest mechanisms pass."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from evolora_core.searches.attention.judging.causality import check_causality, check_trained, lengths_for
from evolora_core.searches.attention.programs.rejection import Rejected

LENGTHS = lengths_for(16)
DIM = 4


class By(nn.Module):
    """A function of x [B, T, D], with one parameter."""

    def __init__(self, function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], start: float = 1.0) -> None:
        super().__init__()
        self.function = function
        self.gate = nn.Parameter(torch.tensor(start))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.gate)


def mean_so_far(x: torch.Tensor) -> torch.Tensor:
    """Of all tokens up to each."""
    return x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1)[None, :, None]


def refused(module: nn.Module) -> Rejected:
    """Why a module is refused."""
    with pytest.raises(Rejected) as caught:
        check_causality(module, DIM, LENGTHS)
    assert caught.value.stage == "causality"
    return caught.value


def test_lengths_divide_nothing() -> None:
    for context in (16, 64, 128):
        lengths = lengths_for(context)
        primes = [length for length in lengths if length != context]
        assert context in lengths and max(lengths) > 2 * context and len(primes) >= 4
        assert all(length % block for length in primes for block in range(2, length))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, gate: gate * x,
        lambda x, gate: gate * mean_so_far(x),
        lambda x, gate: gate * torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], dim=1),
        lambda x, gate: gate * x.cummax(dim=1).values,
    ],
    ids=["itself", "mean so far", "the token before", "largest so far"],
)
def test_what_only_looks_back_passes(function: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
    module = By(function)
    check_causality(module, DIM, LENGTHS)
    assert module.gate.item() == 1.0  # left as it was


def test_a_leak_names_who_sees_whom() -> None:
    error = refused(By(lambda x, gate: gate * torch.cat([x[:, 1:], x[:, :1]], dim=1)))
    assert "the gradient there changes" in error.reason and error.place == "position 0 depends on position 1, of 7"


def test_only_the_perturbation_finds_what_was_detached() -> None:
    error = refused(By(lambda x, gate: gate * (x - x.mean(dim=1, keepdim=True).detach())))
    assert "the output there changes" in error.reason and error.place.startswith("position 0 depends on position 1")


def test_only_the_prefix_finds_the_length() -> None:
    error = refused(By(lambda x, gate: gate * x / x.shape[1]))
    assert "how long the text is" in error.reason and "of 7" in error.place


def test_a_leak_at_a_single_position_is_found() -> None:
    def leak(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        later = torch.zeros_like(x)
        if x.shape[1] > 30:
            later[:, 23] = x[:, 24].detach()
        return gate * (x + later)

    assert refused(By(leak)).place == "position 23 depends on position 24, of 31"


def test_a_leak_that_needs_two_later_tokens_is_found() -> None:
    """No single later token changes anything: both have to."""

    def leak(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        old = torch.randn(1, 7, DIM, generator=torch.Generator().manual_seed(0))  # the input of the first test
        if x.shape[1] != 7:
            return gate * x
        return gate * x + ((x[:, 5:6] != old[:, 5:6]).all() & (x[:, 6:7] != old[:, 6:7]).all()).float()

    assert "positions" in refused(By(leak)).place


def test_a_leak_behind_a_gate_at_zero_is_found() -> None:
    module = By(lambda x, gate: x + gate * x.mean(dim=1, keepdim=True), start=0.0)
    assert "depends on position" in refused(module).place and module.gate.item() == 0.0


def test_a_leak_smaller_than_the_tolerance_of_prefixes_is_found() -> None:
    assert refused(By(lambda x, gate: gate * x + 1e-6 * x.mean(dim=1, keepdim=True).detach()))


def test_a_trained_model_is_looked_at_again() -> None:
    table = torch.randn(11, DIM, generator=torch.Generator().manual_seed(1))
    tokens, others = torch.arange(9)[None] % 11, (torch.arange(9)[None] * 3 + 1) % 11
    check_trained(lambda ids: mean_so_far(table[ids]), tokens, others)
    with pytest.raises(Rejected, match="position 0 depends on position 1, of 9"):
        check_trained(lambda ids: table[ids] + 1e-3 * table[ids].mean(dim=1, keepdim=True), tokens, others)
    with pytest.raises(Rejected, match="how long"):
        check_trained(lambda ids: table[ids] / ids.shape[1], tokens, others)
