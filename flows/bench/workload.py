"""The work that the engine is measured by: random prompts for a population of random adapters on a real host."""

import dataclasses
from dataclasses import dataclass

import numpy as np

from evolora_core.engine import rng
from evolora_core.errors import ConfigError
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.lora.population.stack import Population

NEVER = -1  # an end token that no model samples, so that every answer has the length that was asked for
STRENGTH = 0.02  # of the factors B: adapters that change what the host says


@dataclass(frozen=True)
class Workload:
    """`rows` prompts for each of the population's organelles, and answers to learn from; rows in a mixed order."""

    host: Host
    population: Population
    prompts: list[list[int]]
    answers: list[list[int]]
    slots: np.ndarray
    new_tokens: int
    batch_rows: int

    def of(self, slot: int) -> list[int]:
        """Row numbers of one organelle."""
        return np.flatnonzero(self.slots == slot).tolist()


@dataclass(frozen=True)
class Size:
    """How much of it."""

    population: int
    rows: int
    rank: int
    prompt_tokens: int  # on average: lengths are uniform within a quarter of it
    new_tokens: int
    batch_rows: int
    shared_tokens: int = 0  # that all prompts begin with, like a template


def make_workload(word: str, device: str, dtype: str, size: Size) -> Workload:
    """Load the host and draw everything from a fixed seed."""
    host = dataclasses.replace(load_host(word, device=device, dtype=dtype), eos_ids=(NEVER,))
    longest = size.prompt_tokens + size.prompt_tokens // 4 + size.new_tokens
    if longest > host.max_context:
        raise ConfigError(
            f"--prompt-tokens {size.prompt_tokens}: a prompt, a quarter longer, and {size.new_tokens} new tokens are "
            f"{longest}, more than the context of {word}, {host.max_context}; name fewer"
        )
    draw = rng.stream(0, 0, 0, "bench engine")
    population = Population.empty(host, size.population, size.rank)
    for slot in range(size.population):
        population.init_slot(slot, size.rank, draw)
    for B in population.B.values():
        B.copy_(B.new_tensor(draw.standard_normal(tuple(B.shape))) * STRENGTH)
    rows = size.population * size.rows
    spread = size.prompt_tokens // 4
    lengths = draw.integers(size.prompt_tokens - spread, size.prompt_tokens + spread + 1, size=rows)
    vocabulary = host.model.config.get_text_config().vocab_size
    common = draw.integers(3, vocabulary, size=size.shared_tokens).tolist()
    prompts = [[*common, *draw.integers(3, vocabulary, size=length).tolist()][:length] for length in lengths]
    answers = draw.integers(3, vocabulary, size=(rows, size.new_tokens)).tolist()
    slots = draw.permutation(np.repeat(np.arange(size.population), size.rows))
    return Workload(host, population, prompts, answers, slots, size.new_tokens, size.batch_rows)
