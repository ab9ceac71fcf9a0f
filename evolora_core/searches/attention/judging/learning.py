"""Whether a program can be trained, and at what cost: stages `gradients`, `cost` and `smoke`."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

import torch
from torch import nn

from evolora_core.searches.attention.corpus.alphabet import VOCAB
from evolora_core.searches.attention.corpus.synthetic import MarkovSource, stream_of
from evolora_core.searches.attention.host.flops import Cost, cost_of_step
from evolora_core.searches.attention.host.model import build
from evolora_core.searches.attention.host.sizes import Size
from evolora_core.searches.attention.host.training import TrainSpec, train
from evolora_core.searches.attention.judging.causality import stir
from evolora_core.searches.attention.judging.forms import call, noise
from evolora_core.searches.attention.judging.loading import failed
from evolora_core.searches.attention.limits import MOST_FLOPS, MOST_PARAMETERS
from evolora_core.searches.attention.programs.rejection import Rejected

REACHED = 0.9  # share of all numbers in parameters that have to get a gradient in one of BATCHES batches
BATCHES = 3
SMOKE_STEPS, SMOKE_ROWS, SMOKE_RATE = 50, 256, 3e-3

Program = Callable[[int, int], nn.Module]


def check_gradients(module: nn.Module, dim: int, length: int) -> None:
    """Rejected unless the input and every parameter get finite gradients. The parameters are stirred first, as those
    behind a gate that starts at zero get none before it has opened; the module is of no use afterwards."""
    module.train()
    stir(module, seed=1)
    parameters = dict(module.named_parameters())
    reached = {name: torch.zeros_like(parameter, dtype=torch.bool) for name, parameter in parameters.items()}
    for number in range(BATCHES):
        x = noise(10 + number, 2, length, dim).requires_grad_()
        y = call(module, x, "gradients")
        if not y.requires_grad:
            raise Rejected("gradients", "the output does not differentiate", f"x {list(x.shape)}")
        module.zero_grad()
        try:
            (y * noise(20 + number, *y.shape)).sum().backward()
        except Exception as error:
            raise failed("gradients", error, "in the backward pass") from error
        for name, gradient in [("x", x.grad), *((name, parameter.grad) for name, parameter in parameters.items())]:
            if gradient is not None and not torch.isfinite(gradient).all():
                raise Rejected("gradients", f"the gradient of {name} is NaN or infinite", name)
            if gradient is not None and name in reached:
                reached[name] |= gradient != 0
        if x.grad is None or not bool((x.grad != 0).any()):
            raise Rejected("gradients", "no gradient reaches the input", f"x {list(x.shape)}")
    for name, found in reached.items():
        if not bool(found.any()):
            raise Rejected("gradients", f"no gradient reaches the parameter {name}", name)
    total = sum(found.numel() for found in reached.values())
    share = sum(int(found.sum()) for found in reached.values()) / total if total else 1.0
    if share < REACHED:
        worst = min(reached, key=lambda name: float(reached[name].float().mean()))
        raise Rejected("gradients", f"a gradient reaches only {share:.0%} of the numbers in its parameters", worst)


def costs(program: Program, sizes: Sequence[Size], vocab: int, context: int) -> dict[str, Cost]:
    """What a step with one example costs at each size, by its name."""
    return {size.name: cost_of_step(program, size, vocab, 1, context) for size in sizes}


def check_cost(found: Mapping[str, Cost], baseline: Mapping[str, Cost]) -> str:
    """Rejected if it has too many parameters or takes too many operations at a size; else what it takes, in words."""
    says = []
    for name, cost in found.items():
        parameters = cost.parameters / baseline[name].parameters
        flops = cost.flops / baseline[name].flops
        says.append(f"{name}: {flops:.2f} x FLOPs, {parameters:.3f} x parameters")
        if parameters > MOST_PARAMETERS:
            raise Rejected(
                "cost", f"{parameters:.4f} times the baseline's parameters; {MOST_PARAMETERS} are allowed", name
            )
        if flops > MOST_FLOPS:
            raise Rejected("cost", f"{flops:.2f} times the baseline's FLOPs; {MOST_FLOPS:g} are allowed", name)
    return "; ".join(says)


def check_smoke(program: Program, size: Size, context: int) -> str:
    """Rejected unless the loss of the smallest model falls within 50 steps on a source that is easily learnt."""
    rows = MarkovSource.drawn(0).draw(context, SMOKE_ROWS, stream_of("smoke", 0, held_out=False)).rows
    spec = TrainSpec(steps=SMOKE_STEPS, batch=8, context=context, rate=SMOKE_RATE, warmup=5)
    try:
        losses = train(build(program, size, VOCAB, seed=0), rows, spec, seed=0)
    except Rejected as error:
        raise Rejected("smoke", error.reason, error.place) from error
    except Exception as error:
        raise failed("smoke", error, "while it trains") from error
    first, last = fmean(losses[:10]), fmean(losses[-10:])
    if not last < first:
        place = f"steps 0 to {SMOKE_STEPS - 1}"
        raise Rejected("smoke", f"the loss goes from {first:.3f} to {last:.3f} and does not fall", place)
    return f"the loss goes from {first:.3f} to {last:.3f}"
