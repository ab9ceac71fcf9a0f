"""What an organelle remembers: answers worth learning, each with the weight at which it is rehearsed."""

from dataclasses import dataclass, field
from itertools import zip_longest

import numpy as np


@dataclass(frozen=True)
class Memory:
    """One answer to one item of the training set, as token ids without EOS; `weight` > 0 is its share in rehearsal."""

    item: int
    tokens: tuple[int, ...]
    weight: float


@dataclass
class Buffer:
    """Memories without doubles, oldest first."""

    memories: dict[tuple[int, tuple[int, ...]], Memory] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.memories)

    def __contains__(self, memory: Memory) -> bool:
        return (memory.item, memory.tokens) in self.memories

    def add(self, memory: Memory, limit: int) -> None:
        """Remember; a memory seen again moves to the end, and the oldest beyond `limit` are forgotten."""
        key = (memory.item, memory.tokens)
        self.memories.pop(key, None)
        self.memories[key] = memory
        while len(self.memories) > limit:
            del self.memories[next(iter(self.memories))]

    def draw(self, rows: int, rng: np.random.Generator, worth: np.ndarray) -> list[Memory]:
        """`rows` memories, with replacement, by their weight and what their item is worth (`[items]`)."""
        memories = list(self.memories.values())
        weights = np.array([memory.weight * worth[memory.item] for memory in memories])
        return [memories[i] for i in rng.choice(len(memories), size=rows, p=weights / weights.sum())]

    def sample(self, rows: int, rng: np.random.Generator) -> list[Memory]:
        """At most `rows` different memories, each as likely as any other."""
        memories = list(self.memories.values())
        return [memories[i] for i in rng.choice(len(memories), size=min(rows, len(memories)), replace=False)]

    def merged(self, other: "Buffer", limit: int) -> "Buffer":
        """What a child of two inherits: the other's memories, then these; of more than `limit`, the newest of each in
        turn.
        """
        theirs, own = [*other.memories.values()], [*self.memories.values()]
        if len(theirs) + len(own) > limit:
            turns = zip_longest(reversed(theirs), reversed(own))
            newest = [memory for turn in turns for memory in turn if memory is not None]
            theirs, own = [], newest[::-1]
        child = Buffer()
        for memory in [*theirs, *own]:
            child.add(memory, limit)
        return child

    def state(self) -> list[list[object]]:
        """JSON rows."""
        return [[m.item, list(m.tokens), m.weight] for m in self.memories.values()]

    @classmethod
    def from_state(cls, rows: list[tuple[int, list[int], float]]) -> "Buffer":
        """The buffer whose rows `state()` gave."""
        buffer = cls()
        for item, tokens, weight in rows:
            memory = Memory(item, tuple(tokens), weight)
            buffer.memories[(memory.item, memory.tokens)] = memory
        return buffer
