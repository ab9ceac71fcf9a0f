"""All adapters of a population in one tensor, one row ("slot") each; lower ranks are padded with zeros."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from evolora_core.errors import AdapterError
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.population.adapter import Adapter, squared_norms

Factors = dict[str, tuple[Tensor, Tensor]]  # module name -> (A [G, r, in], B [G, out, r])


class Population:
    """`capacity` slots for adapters of rank up to `max_rank`, float32, on the host's device or paged to CPU memory.

    weights   [P, D]: every factor of a slot in one row, so that the optimizer works on all modules at once
    A, B      views into it: module name -> [P, max_rank, in], [P, out, max_rank]; write into them, never replace them
    ranks     [P]; 0 = an empty slot, which changes nothing. Whatever lies beyond a slot's rank is zero and stays so
    scale     ΔW = scale · B @ A, the same for all slots
    """

    def __init__(
        self, shapes: Mapping[str, tuple[int, int]], capacity: int, max_rank: int, scale: float, device: torch.device
    ) -> None:
        self.shapes = dict(shapes)
        self.max_rank = max_rank
        self.scale = scale
        sizes, columns = [], []
        for out_features, in_features in self.shapes.values():
            sizes += [max_rank * in_features, out_features * max_rank]
            columns += [
                torch.arange(max_rank).repeat_interleave(in_features),
                torch.arange(max_rank).repeat(out_features),
            ]
        self._sizes = sizes
        self._component = torch.cat(columns).to(device)  # [D] which of the ranks an element belongs to
        self.weights = torch.zeros(capacity, sum(sizes), device=device)
        self.ranks = torch.zeros(capacity, dtype=torch.long, device=device)
        views = self.factors(self.weights)
        self.A = {name: A for name, (A, _) in views.items()}
        self.B = {name: B for name, (_, B) in views.items()}

    @classmethod
    def empty(cls, host: Host, capacity: int, max_rank: int, scale: float = 2.0) -> "Population":
        """Empty slots that adapt every linear layer of the host but the LM head."""
        layers = adapted_layers(host.model)
        shapes = {name: (layer.out_features, layer.in_features) for name, layer in layers.items()}
        device = torch.device("cpu") if host.memory_plan.paged else next(iter(layers.values())).weight.device
        return cls(shapes, capacity, max_rank, scale, device)

    @property
    def capacity(self) -> int:
        """Number of slots P."""
        return len(self.ranks)

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.weights.device

    def factors(self, rows: Tensor) -> Factors:
        """Factors of flat rows `[G, D]` as views; differentiable in one step."""
        parts = iter(rows.split(self._sizes, dim=1))
        return {
            name: (
                next(parts).view(-1, self.max_rank, in_features),
                next(parts).view(-1, out_features, self.max_rank),
            )
            for name, (out_features, in_features) in self.shapes.items()
        }

    def ranks_of(self, slots: np.ndarray) -> np.ndarray:
        """Rank of each of these slots `[N]`; 0 for the bare host, slot -1."""
        return np.where(slots >= 0, self.ranks.numpy(force=True)[slots], 0)

    def rank_mask(self, slots: Tensor | None = None, part: slice = slice(None)) -> Tensor:
        """`[G, D]` bool, or the columns `part` of it: which elements of each slot lie within its rank."""
        ranks = self.ranks if slots is None else self.ranks[slots]
        return self._component[None, part] < ranks[:, None]

    def init_slot(self, slot: int, rank: int, rng: np.random.Generator) -> None:
        """Start a slot as PEFT does: A Kaiming-uniform with a = √5, that is U(-1/√in, 1/√in); B zero, so ΔW = 0."""
        self._check_rank(rank)
        self.clear(slot)
        self.ranks[slot] = rank
        for A in self.A.values():
            bound = A.shape[2] ** -0.5
            drawn = rng.uniform(-bound, bound, size=(rank, A.shape[2])).astype(np.float32)
            A[slot, :rank] = torch.from_numpy(drawn).to(self.device)

    def get(self, slot: int) -> Adapter:
        """A copy of the adapter in a slot."""
        rank = int(self.ranks[slot])
        return Adapter(
            rank=rank,
            scale=self.scale,
            A={name: A[slot, :rank].clone() for name, A in self.A.items()},
            B={name: B[slot, :, :rank].clone() for name, B in self.B.items()},
        )

    def put(self, slot: int, adapter: Adapter) -> None:
        """Write an adapter into a slot; modules that it does not name get ΔW = 0, another scale goes into B.

        AdapterError: a rank above `max_rank`, a module that the host has not, another shape.
        """
        self._check_rank(adapter.rank)
        for name, shape in adapter.shapes().items():
            if name not in self.shapes:
                raise AdapterError(
                    f"adapter: module {name!r}: the host has no such linear layer; use the host it was made for"
                )
            if shape != self.shapes[name]:
                raise AdapterError(
                    f"adapter: module {name!r}: it is {shape[0]} x {shape[1]}, the host's layer "
                    f"{self.shapes[name][0]} x {self.shapes[name][1]} (out x in); use the host it was made for"
                )
        self.clear(slot)
        self.ranks[slot] = adapter.rank
        for name in adapter.A:
            self.A[name][slot, : adapter.rank] = adapter.A[name]
            self.B[name][slot, :, : adapter.rank] = adapter.B[name] * (adapter.scale / self.scale)

    def joined_by(self, host: Host, adapter: Adapter) -> "Population":
        """The same slots and one more at the end, with `adapter`, whatever its rank."""
        more = Population.empty(host, self.capacity + 1, max(self.max_rank, adapter.rank), scale=self.scale)
        for slot in range(self.capacity):
            more.put(slot, self.get(slot))
        more.put(self.capacity, adapter)
        return more

    def clear(self, slot: int) -> None:
        """Empty a slot."""
        self.weights[slot] = 0.0
        self.ranks[slot] = 0

    def delta_norms(self) -> Tensor:
        """Frobenius norm of ΔW over all modules, `[P]` float64; NaN or infinite where the weights are."""
        total = torch.zeros(self.capacity, dtype=torch.float64, device=self.device)
        for name in self.shapes:
            total += squared_norms(self.A[name], self.B[name])
        return abs(self.scale) * total.sqrt()

    def state_dict(self) -> dict[str, Tensor]:
        """Everything but scale and shapes, for safetensors: `ranks`, `A.<module>`, `B.<module>`. To be written at once:
        what changes in the population may change here too.
        """
        return {name: own.contiguous() for name, own in self._tensors().items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Take over what `state_dict` gave. AdapterError when it belongs to another host, capacity or rank."""
        own = self._tensors()
        for name in {**own, **state}:
            if name not in own or name not in state or own[name].shape != state[name].shape:
                there, here = (tuple(part[name].shape) if name in part else "nothing" for part in (state, own))
                raise AdapterError(
                    f"population state: {name}: {there} stored, {here} needed; it is of another host or config"
                )
        for name, tensor in own.items():
            tensor.copy_(state[name])

    def _tensors(self) -> dict[str, Tensor]:
        """What is saved, by name."""
        factors = {f"{side}.{n}": own[n] for n in self.shapes for side, own in (("A", self.A), ("B", self.B))}
        return {"ranks": self.ranks, **factors}

    def _check_rank(self, rank: int) -> None:
        if not 0 <= rank <= self.max_rank:
            raise AdapterError(f"adapter: rank {rank} does not fit slots of rank {self.max_rank}; resize it first")
