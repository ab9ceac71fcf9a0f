"""How much each entry of a module's ΔW matters to what an adapter knows: the diagonal of its Fisher information.

The diagonal is as large as the dense ΔW, so it is kept as the product of two vectors a module, as in K-FAC (Martens and
Grosse 2015, arXiv 1503.05671): F[i, j] = E[(δᵢxⱼ)²] ≈ E[δᵢ²]·E[xⱼ²], with x the module's input at a token and δ the
gradient of the answer's log-likelihood at its output. Tokens count as so many samples ("expand" in Eschenhagen et al.
2023, arXiv 2311.00636). It is the empirical Fisher: the answers are given, not drawn from the model.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population.passes import in_room
from evolora_core.lora.population.stack import Population
from evolora_core.lora.population.train import Batch, watched_gradients


@dataclass(frozen=True)
class Fisher:
    """F[i, j] = outputs[i] · inputs[j] for entry (i, j) of a module's ΔW; module name -> [out], [in], float64."""

    outputs: dict[str, Tensor]
    inputs: dict[str, Tensor]

    def norm(self) -> float:
        """Frobenius norm of F over all modules."""
        squares = [self.outputs[name].square().sum() * self.inputs[name].square().sum() for name in self.outputs]
        return float(torch.stack(squares).sum().sqrt())


def fishers_of(host: Host, population: Population, batch: Batch) -> list[Fisher]:
    """The Fisher of every slot in the batch, ascending, at its weights and on its rows; of norm 1 over all modules.

    One forward and backward for all slots, as in training. Without the norm, who is less sure of longer answers would
    outweigh the others everywhere (the authors of Fisher merging divide by it too). A Fisher that is zero or not finite
    says nothing about the entries: it is replaced by one that is the same in all. A row counts by its weight squared.
    """
    return in_room(host, batch.lengths, lambda: _fishers(host, population, batch))


def _fishers(host: Host, population: Population, batch: Batch) -> list[Fisher]:
    present, group = torch.unique(batch.slots, return_inverse=True)
    layers = adapted_layers(host.model)
    device = batch.ids.device
    outputs = {
        n: torch.zeros(len(present), m.out_features, dtype=torch.float64, device=device) for n, m in layers.items()
    }
    inputs = {
        n: torch.zeros(len(present), m.in_features, dtype=torch.float64, device=device) for n, m in layers.items()
    }
    lengths = torch.from_numpy(batch.lengths).to(device)

    @contextmanager
    def watch(rows: Tensor) -> Iterator[None]:
        of_slot = (group[rows] == torch.arange(len(present), device=device)[:, None])[:, :, None]
        # A row's last token is no input to a prediction: its gradient is zero, and padding's too.
        reads = (torch.arange(int(lengths[rows].max()), device=device) < lengths[rows, None] - 1)[:, :, None]

        def hook_of(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], None]:
            def hook(layer: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> None:
                with torch.no_grad():
                    squares = _by_slot(torch.where(reads, args[0].float(), 0.0), of_slot)

                def backward(gradient: Tensor) -> None:
                    # Both here: where activations are computed twice, the second pass has no gradient of its own.
                    inputs[name] += squares
                    outputs[name] += _by_slot(gradient.float(), of_slot)

                output.register_hook(backward)

            return hook

        handles = [layer.register_forward_hook(hook_of(name)) for name, layer in layers.items()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    watched_gradients(host, population, batch, watch)
    return [
        _normed(Fisher({n: v[i] for n, v in outputs.items()}, {n: v[i] for n, v in inputs.items()}))
        for i in range(len(present))
    ]


def _by_slot(values: Tensor, of_slot: Tensor) -> Tensor:
    """Sums of squares of `[rows, T, d]` over the tokens of each slot's rows, `[G, d]`; NaN stays with its slot."""
    return torch.where(of_slot, values.square().sum(dim=1).double(), 0.0).sum(dim=1)


def _normed(fisher: Fisher) -> Fisher:
    """The Fisher scaled to norm 1; a uniform one where the norm is 0 or not finite."""
    norm = fisher.norm()
    if not 0 < norm < float("inf"):
        ones = ({name: torch.ones_like(v) for name, v in part.items()} for part in (fisher.outputs, fisher.inputs))
        fisher = Fisher(*ones)
        norm = fisher.norm()
    return Fisher({name: v / norm for name, v in fisher.outputs.items()}, fisher.inputs)
