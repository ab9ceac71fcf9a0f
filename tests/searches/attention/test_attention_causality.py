"""The three tests of causality: each is needed, each names the positions, and honest mechanisms pass."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from evolora_core.searches.attention.judging import causality
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


def by_fourier(x: torch.Tensor) -> torch.Tensor:
    """A convolution over all tokens up to each; the numbers behind them cancel but for rounding."""
    length = x.shape[1]
    taps = torch.exp(-torch.arange(length) / 4)[None, :, None]
    product = torch.fft.rfft(x, n=2 * length, dim=1) * torch.fft.rfft(taps, n=2 * length, dim=1)
    found: torch.Tensor = torch.fft.irfft(product, n=2 * length, dim=1)[:, :length]
    return found


def by_a_system(x: torch.Tensor) -> torch.Tensor:
    """x less what it holds of earlier tokens: (1 + L) y = x, solved by reflections, which mix all positions."""
    below = (x @ x.transpose(1, 2)).tanh().tril(-1) / 8
    found: torch.Tensor = torch.linalg.lstsq(torch.eye(x.shape[1]) + below, x)[0]
    return found


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
        lambda x, gate: gate * by_fourier(x),
        lambda x, gate: gate * by_a_system(x),
    ],
    ids=["itself", "mean so far", "the token before", "largest so far", "Fourier transforms", "a linear system"],
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


def test_where_memory_is_short_positions_are_tried_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causality, "CELLS", 5 * 31**2)
    batches = set()

    def looks(x: torch.Tensor, gate: torch.Tensor, back: int = 0) -> torch.Tensor:
        if x.shape[1] == 31:
            batches.add(len(x))
        later = torch.zeros_like(x)
        if x.shape[1] > 23 + back:
            later[:, 23] = x[:, 23 + back].detach()
        return gate * (x + later)

    check_causality(By(looks), DIM, LENGTHS)
    assert batches == {1, 5}
    assert refused(By(partial(looks, back=1))).place == "position 23 depends on position 24, of 31"


def test_of_a_long_text_some_positions_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first, the last but one, and some between them: else a context of 1,024 tokens took more than an hour."""
    assert lengths_for(256) == (7, 31, 67, 256, 257, causality.WHOLE) and lengths_for(512) == (7, 31, 67, 512, 521)
    assert torch.equal(causality._tried(causality.WHOLE), torch.arange(causality.WHOLE - 1))
    monkeypatch.setattr(causality, "WHOLE", 30)
    monkeypatch.setattr(causality, "POSITIONS", 9)
    tried = causality._tried(67)
    assert len(set(tried.tolist())) == 9 and tried[0] == 0 and tried[-1] == 65
    rows = []

    def leak(x: torch.Tensor, gate: torch.Tensor, ahead: bool = False) -> torch.Tensor:
        if x.shape[1] == 67:
            rows.append(len(x))
        later = torch.zeros_like(x)
        if x.shape[1] == 67 and ahead:
            later[:, -2] = x[:, -1].detach()
        return gate * (x + later)

    check_causality(By(leak), DIM, LENGTHS)
    assert set(rows) == {1, 9}
    assert refused(By(partial(leak, ahead=True))).place == "position 65 depends on position 66, of 67"


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
    assert refused(By(lambda x, gate: gate * x + 3e-5 * x.mean(dim=1, keepdim=True).detach()))


@pytest.mark.parametrize("share", [1e-3, 1e-4])
def test_a_small_leak_beside_rounding_is_found(share: float) -> None:
    def leak(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return gate * by_fourier(x + share * F.pad(x, (0, 0, 0, 1))[:, 1:])

    assert refused(By(leak)).place == "position 0 depends on position 1, of 7"
    assert "the output there" in refused(By(lambda x, gate: leak(x.detach(), gate.detach()) + 0 * x)).reason


def test_a_leak_that_is_all_there_is_is_found_however_small() -> None:
    assert refused(By(lambda x, gate: 1e-9 * gate * F.pad(x, (0, 0, 0, 1))[:, 1:]))


def test_a_trained_model_is_looked_at_again() -> None:
    table = torch.randn(11, DIM, generator=torch.Generator().manual_seed(1))
    tokens, others = torch.arange(9)[None] % 11, (torch.arange(9)[None] * 3 + 1) % 11
    check_trained(lambda ids: mean_so_far(table[ids]), tokens, others)
    with pytest.raises(Rejected, match="position 0 depends on position 1, of 9"):
        check_trained(lambda ids: table[ids] + 1e-3 * table[ids].mean(dim=1, keepdim=True), tokens, others)
    with pytest.raises(Rejected, match="how long"):
        check_trained(lambda ids: table[ids] / ids.shape[1], tokens, others)
