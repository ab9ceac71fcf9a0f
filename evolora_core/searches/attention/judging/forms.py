"""What a module returns: its form, the same each time, each row of a batch on its own. Stage `shapes`."""

from collections.abc import Callable, Sequence

import torch
from torch import nn

from evolora_core.searches.attention.judging.loading import failed
from evolora_core.searches.attention.judging.state import check_unchanged, snapshot
from evolora_core.searches.attention.programs.rejection import Rejected

CALLS = 3  # of one input, which have to give the same
LAYERS = 10  # times as much of any difference is allowed to a whole model, whose layers add to it
TOLERANCE = 1e-5  # of a row in another batch, relative to the largest number of the output
ALONE = 5  # rows of a batch that are asked once more, without the others


def noise(seed: int, *shape: int) -> torch.Tensor:
    """float32 of that shape from N(0, 1), as the layer norm before an attention gives it."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def call(module: nn.Module, x: torch.Tensor, stage: str) -> torch.Tensor:
    """The output `[B, T, D]` for `x [B, T, D]`. Rejected where it raises or returns anything else."""
    place = f"x {list(x.shape)}"
    try:
        y = module(x)
    except Exception as error:
        raise failed(stage, error, place) from error
    if not isinstance(y, torch.Tensor):
        raise Rejected(stage, f"forward returns a {type(y).__name__} and no tensor", place)
    if y.shape != x.shape or y.dtype != x.dtype:
        given = f"{str(y.dtype).removeprefix('torch.')} {list(y.shape)}"
        raise Rejected(stage, f"forward returns {given} instead of float32 {list(x.shape)}", place)
    if not torch.isfinite(y).all():
        row, token, channel = torch.isfinite(y).logical_not().nonzero()[0].tolist()
        raise Rejected(
            stage, "forward returns NaN or infinity", f"{place}: row {row}, position {token}, channel {channel}"
        )
    return y


def check_shapes(module: nn.Module, dim: int, lengths: Sequence[int]) -> None:
    """Rejected unless batches of one and of three rows of every length give what they should, in both modes."""
    for mode in (False, True):
        module.train(mode)
        for length in lengths:
            for rows in (1, 3):
                with torch.no_grad():
                    call(module, noise(length, rows, length, dim), "shapes")
    module.eval()


def check_repeats(module: nn.Module, dim: int, length: int) -> None:
    """Rejected if a call leaves a trace, draws random numbers, or gives something else the next time or in the other
    mode, of which operations are not counted.
    """
    x = noise(1, 2, length, dim)
    place = f"x {list(x.shape)}"
    before = snapshot(module)
    outputs: list[torch.Tensor] = []
    for mode in (False, True):
        module.train(mode)
        with torch.set_grad_enabled(mode), torch.random.fork_rng(devices=[]):
            drawn = torch.get_rng_state()
            first = call(module, x, "shapes")
            if not torch.equal(drawn, torch.get_rng_state()):
                raise Rejected("shapes", "forward draws random numbers", place)
            for number in range(1, CALLS):
                if not torch.equal(first, call(module, x, "shapes")):
                    raise Rejected("shapes", f"call {number + 1} with the same input gives something else", place)
        check_unchanged(before, module, "shapes", place)
        outputs.append(first.detach())
    module.eval()
    apart = float((outputs[0] - outputs[1]).abs().max())
    if apart > TOLERANCE * (1 + float(outputs[0].abs().max())):
        raise Rejected("shapes", f"training mode gives something else than evaluation, by {apart:.2g}", place)


def check_rows(module: nn.Module, dim: int, length: int) -> None:
    """Rejected if a row of a batch depends on the others: on their order, their content or their number."""
    x = noise(2, 4, length, dim)
    order = torch.tensor([2, 0, 3, 1])
    others = x.clone()
    others[1:] = noise(3, 3, length, dim)
    with torch.no_grad():
        y = call(module, x, "shapes")
        limit = TOLERANCE * (1 + float(y.abs().max()))
        for says, found, wanted in (
            ("changes when the rows of its batch change places", call(module, x[order], "shapes"), y[order]),
            ("changes with the content of other rows", call(module, others, "shapes")[:1], y[:1]),
            ("is another without other rows", call(module, x[:1], "shapes"), y[:1]),
        ):
            apart = (found - wanted).abs().amax(dim=(1, 2))
            if float(apart.max()) > limit:
                raise Rejected("shapes", f"a row {says}, by {float(apart.max()):.2g}", f"row {int(apart.argmax())}")


def check_modes(trains: torch.Tensor, answers: torch.Tensor) -> None:
    """Rejected unless a trained model's logits in training mode are those in evaluation: a mode that parameters open as
    they learn is none that `check_repeats` saw.
    """
    apart = float((trains - answers).detach().abs().max())
    if apart > LAYERS * TOLERANCE * (1 + float(answers.detach().abs().max())):
        raise Rejected(
            "shapes", f"training mode gives something else than evaluation once it is trained, by {apart:.2g}"
        )


def check_alone(model: Callable[[torch.Tensor], torch.Tensor], tokens: torch.Tensor) -> torch.Tensor:
    """The logits `[B, T, vocab]` of a whole model for a batch of tokens `[B, T]`, as large as it is
    used. Rejected unless some of its rows, which are drawn, get the same alone: the ladder's batches are few and small.
    """
    whole = model(tokens)
    limit = LAYERS * TOLERANCE * (1 + float(whole.detach().abs().max()))
    for row in torch.randperm(len(tokens), generator=torch.Generator().manual_seed(len(tokens)))[:ALONE].tolist():
        apart = float((model(tokens[row : row + 1]) - whole[row : row + 1]).detach().abs().max())
        if apart > limit:
            raise Rejected(
                "shapes", f"a row is another without other rows, by {apart:.2g}", f"tokens {[*tokens.shape]}"
            )
    return whole
