"""What an operator is: it makes one tensor of tensors of the same name and shape."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Draw = Callable[[int], "torch.Generator"]  # the random stream of an input, for the tensor at hand


@dataclass(frozen=True)
class Parameter:
    """A number that a recipe may set. `each`: one for each input. `most`: a search tries none above it."""

    name: str
    default: float
    low: float
    high: float
    each: bool = False
    most: float = math.inf


@dataclass(frozen=True)
class Operator:
    """One way to merge.

    base      whether it works on differences from the common base
    fewest    inputs that it needs
    most      inputs that it can take; 0: any number
    options   its choices by name; the first is the default
    apply     (inputs, base or None, parameters, options, streams) -> tensor; all float32 and of one shape; the inputs
              are not written to
    """

    name: str
    apply: Callable[
        [Sequence["torch.Tensor"], "torch.Tensor | None", Mapping[str, Any], Mapping[str, str], Draw], "torch.Tensor"
    ]
    parameters: tuple[Parameter, ...] = ()
    options: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    base: bool = True
    fewest: int = 1
    most: int = 0

    def check(self, inputs: int, params: Mapping[str, Any], options: Mapping[str, str]) -> None:
        """Raise ValueError, one line, for what does not fit the operator."""
        if inputs < self.fewest or (self.most and inputs > self.most):
            wanted = f"{self.fewest}" if self.most == self.fewest else f"{self.fewest} or more"
            raise ValueError(f"operator {self.name!r} takes {wanted} inputs; this one has {inputs}")
        known = {parameter.name: parameter for parameter in self.parameters}
        for name, value in params.items():
            if name not in known:
                raise ValueError(f"params: operator {self.name!r} has no parameter {name!r}; it has {_listed(known)}")
            _check_value(known[name], value, inputs)
        for name, choice in options.items():
            if name not in self.options:
                raise ValueError(
                    f"options: operator {self.name!r} has no option {name!r}; it has {_listed(self.options)}"
                )
            if choice not in self.options[name]:
                raise ValueError(f"options: {name}: {choice!r} is none of {', '.join(self.options[name])}")

    def resolve(self, params: Mapping[str, Any], inputs: int, at: Callable[[Any], float]) -> dict[str, Any]:
        """Every parameter as a float, those of each input as a list of them; `at` picks the value of a layer group."""
        found: dict[str, Any] = {}
        for parameter in self.parameters:
            value = params.get(parameter.name, parameter.default)
            if parameter.each:
                found[parameter.name] = [at(own) for own in (value if isinstance(value, list) else [value] * inputs)]
            else:
                found[parameter.name] = at(value)
        return found

    def choices(self, options: Mapping[str, str]) -> dict[str, str]:
        """Every option, defaults filled in."""
        return {name: options.get(name, known[0]) for name, known in self.options.items()}


def _check_value(parameter: Parameter, value: Any, inputs: int) -> None:
    if parameter.each and isinstance(value, list) and len(value) != inputs:
        raise ValueError(f"params: {parameter.name}: {len(value)} values for {inputs} inputs; give one for each")
    values = value if isinstance(value, list) else [value]
    flat = [number for own in values for number in (own if isinstance(own, list) else [own])]
    empty = not values or any(isinstance(own, list) and not own for own in values)
    if empty or (not parameter.each and any(isinstance(own, list) for own in values)):
        raise ValueError(f"params: {parameter.name}: give a number, or one for each group of layers")
    for number in flat:
        if not parameter.low <= number <= parameter.high:
            raise ValueError(f"params: {parameter.name}: {number} is not from {parameter.low:g} to {parameter.high:g}")


def _listed(names: Mapping[str, Any]) -> str:
    return ", ".join(names) or "none"
