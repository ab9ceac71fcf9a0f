"""No token sees what comes after it: three tests, since each of them alone lets a kind of leak pass.

- gradient: the output at a position has no gradient at a later input. Blind to what was detached.
- perturbation: with all later inputs changed, the output is the same. Blind to the length.
- prefix: the output for a text that is cut off is that for the whole text, to 1e-5. Blind to small leaks.

The first two allow four millionths of the largest number: so much of later inputs comes into honest outputs by rounding
where numbers of many positions are mixed before they cancel, as in a convolution by Fourier transforms (0.4 millionths)
or in least squares of a triangular system (1.1).

The lengths are primes, no multiples of any block, up to twice the context, and the context itself, at which a leak
would pay. The work of the perturbation would grow as the third power of the length: of a text longer than WHOLE it
tries POSITIONS places, and a context above LONG has one length beyond it. A leak behind a gate that starts at zero
shows once the parameters are stirred; one that training opens, in `check_trained`. Whatever passes all this gains
nothing from it: a target is never in the process (`sealed.py`).
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from evolora_core.searches.attention.judging.forms import LAYERS, call, noise
from evolora_core.searches.attention.programs.rejection import Rejected

ROUNDING = 4e-6  # greatest gradient at a later input, and difference by later inputs, relative to the largest number
PREFIX = 1e-5  # greatest difference, relative to 1 + the largest number of the output
STIR = 0.5  # standard deviation of what is added to a parameter, relative to its own, and a fifth of it at least
CELLS = 2**24  # pairs of positions in a batch: softmax attention holds a number for each and each head
WHOLE = 521  # tokens up to which every position is perturbed: the longest length of a context of LONG
LONG, POSITIONS = 256, 256  # a context above which there are fewer lengths; positions of a text longer than WHOLE
PLACES = 5  # positions at which gradients and long prefixes are tried

Call = Callable[[torch.Tensor], torch.Tensor]


def lengths_for(context: int) -> tuple[int, ...]:
    """The lengths that are tried for a context: primes below, around and above it, and itself."""
    beyond = [_prime_above(context)] + ([_prime_above(2 * context)] if context <= LONG else [])
    return tuple(sorted({7, 31, 67, *beyond, context}))


def check_causality(module: nn.Module, dim: int, lengths: Sequence[int]) -> None:
    """Rejected unless a module passes all three tests at each length: as it was built, and with its parameters
    stirred. The module's parameters are left as they were."""
    module.eval()
    kept = [parameter.detach().clone() for parameter in module.parameters()]

    def forward(x: torch.Tensor) -> torch.Tensor:
        return call(module, x, "causality")

    try:
        for seed in (0, 1):
            if seed:
                stir(module, seed)
            for length in lengths:
                x = noise(seed, 1, length, dim)
                _gradient(forward, x, seed)
                with torch.no_grad():
                    _perturbation(forward, x, noise(seed + 1, 1, length, dim))
                    _prefix(forward, x, seed)
    finally:
        with torch.no_grad():
            for parameter, value in zip(module.parameters(), kept, strict=True):
                parameter.copy_(value)


def check_trained(model: Call, tokens: torch.Tensor, others: torch.Tensor) -> None:
    """Rejected unless a whole trained model, whose call maps tokens `[B, T]` to logits, passes the tests that need no
    gradient. `tokens` and `others` are two different texts `[1, T]`."""
    with torch.no_grad():
        _perturbation(model, tokens, others, LAYERS)
        _prefix(model, tokens, 0, LAYERS)


def stir(module: nn.Module, seed: int) -> None:
    """Add noise to every parameter, so that none is at a value which hides what it multiplies."""
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = max(STIR * float(parameter.square().mean().sqrt()), 0.2 * STIR)
            parameter.add_(scale * torch.randn(parameter.shape, generator=random))


def _gradient(forward: Call, x: torch.Tensor, seed: int) -> None:
    x = x.clone().requires_grad_()
    y = forward(x)
    if not y.requires_grad:
        return  # it does not differentiate at all, which the stage `gradients` says
    weights = noise(seed + 2, *y.shape)
    for place in _places(x.shape[1], seed):
        (found,) = torch.autograd.grad((y * weights)[:, place].sum(), x, retain_graph=True, allow_unused=True)
        if found is None or place + 1 == x.shape[1]:
            continue
        sizes = found[0].abs().amax(dim=1)
        leaks = ~(sizes[place + 1 :] <= ROUNDING * sizes.nan_to_num().max())  # NaN is no rounding
        if bool(leaks.any()):
            later = place + 1 + int(leaks.nonzero()[0, 0])
            _refuse("the gradient", place, later, x.shape[1], float(sizes[place + 1 :].max()))


def _perturbation(forward: Call, x: torch.Tensor, other: torch.Tensor, layers: int = 1) -> None:
    """For every position, or those that are tried of a long text, as many at once as memory allows: the row of a batch
    for position t keeps the inputs up to t and has others behind.
    """
    length = x.shape[1]
    for rows in _tried(length).split(max(1, CELLS // length**2)):
        _perturbed(forward, x, other, rows, layers)


def _tried(length: int) -> torch.Tensor:
    """Positions below the last one, in order: all of them, or the first, the last but one and some that are drawn."""
    if length <= WHOLE:
        return torch.arange(length - 1)
    drawn = torch.randperm(length - 3, generator=torch.Generator().manual_seed(length))[: POSITIONS - 2] + 1
    return torch.cat([torch.tensor([0, length - 2]), drawn]).sort().values


def _perturbed(forward: Call, x: torch.Tensor, other: torch.Tensor, last: torch.Tensor, layers: int) -> None:
    """For these positions at once: each is the last whose inputs its row keeps."""
    length = x.shape[1]
    same = x.expand(len(last), *x.shape[1:]).contiguous()  # a batch as large, as a kernel may depend on that
    kept = torch.arange(length)[None, :] <= last[:, None]  # [row, position]
    changed = torch.where(kept.view(len(last), length, *[1] * (x.dim() - 2)), same, other)
    before, after = forward(same), forward(changed)
    apart = torch.where(kept, (before - after).abs().flatten(2).amax(dim=2), 0.0)
    limit = layers * ROUNDING * float(before.abs().max())
    if bool((apart <= limit).all()):
        return
    row, place = (apart > limit).nonzero()[0].tolist()
    first = int(last[row]) + 1
    for later in range(first, length):  # which of them was it? One at a time, each in the row where the batch had it
        single = same.clone()
        single[row, later] = other[0, later]
        difference = float((forward(single)[row, place] - before[row, place]).abs().max())
        if difference > limit:
            _refuse("the output", place, later, length, difference)
    size = float(apart.max())
    raise Rejected(
        "causality",
        f"a position sees what comes after it: the output changes by {size:.2g} when several later inputs change",
        f"position {place} depends on positions {first} to {length - 1} together, of {length}",
    )


def _prefix(forward: Call, x: torch.Tensor, seed: int, layers: int = 1) -> None:
    length = x.shape[1]
    whole = forward(x)
    limit = layers * PREFIX * (1 + float(whole.abs().max()))
    ends = range(1, length) if length <= 31 else sorted({1, length - 1, *_places(length, seed + 3)} - {0})
    for end in ends:
        apart = (forward(x[:, :end].contiguous()) - whole[:, :end]).abs().flatten(2).amax(dim=2)[0]
        if float(apart.max()) > limit:
            raise Rejected(
                "causality",
                f"a position sees how long the text is or what comes after it: the output for a prefix differs by "
                f"{float(apart.max()):.2g}",
                f"position {int(apart.argmax())} depends on positions {end} to {length - 1}, of {length}",
            )


def _refuse(what: str, place: int, later: int, length: int, size: float) -> None:
    raise Rejected(
        "causality",
        f"a position sees what comes after it: {what} there changes by {size:.2g}",
        f"position {place} depends on position {later}, of {length}",
    )


def _places(length: int, seed: int) -> list[int]:
    """Positions below the last one: the first, the last but one, and some that are drawn."""
    random = torch.Generator().manual_seed(seed + length)
    drawn = torch.randperm(max(length - 1, 1), generator=random)[: PLACES - 2].tolist()
    return sorted({0, max(length - 2, 0), *drawn})


def _prime_above(number: int) -> int:
    """The least prime above a number, 2 and 3 apart."""
    found = max(number + 1, 5)
    while any(found % divisor == 0 for divisor in range(2, int(found**0.5) + 1)):
        found += 1
    return found
