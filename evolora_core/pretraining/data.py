"""Rows for pretraining: (prompt, gold) pairs of the families, never a reserved prompt, each batch of its own stream."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evolora_core.engine.rng import stream
from evolora_core.errors import ConfigError
from evolora_core.foreign.nearest import did_you_mean
from evolora_core.language.families.base import Item
from evolora_core.language.families.canonical import canonical, reserved
from evolora_core.language.families.names import MODULES
from evolora_core.language.families.registry import get as get_family
from evolora_core.language.families.registry import gold
from evolora_core.language.hosts.pretrain_config import PretrainConfig

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

_DRAWS = 2000  # far beyond what a tenth reserved needs; more means that a cell has hardly any free prompt


@dataclass(frozen=True)
class Mixture:
    """The cells that are seen and how often: `probability[i]` for `cells[i]` = (family, depth)."""

    cells: tuple[tuple[str, str], ...]
    probability: np.ndarray


def read_mixture(config: PretrainConfig) -> Mixture:
    """Check the mixture's names against the families and normalise it. ConfigError names the key."""
    cells: list[tuple[str, str]] = []
    weights = []
    for name, depths in config.mixture.items():
        family, known = get_family(name).name, get_family(name).depths
        if any(family == seen for seen, _ in cells):
            raise ConfigError(f"pretrain.mixture.{name}: stands twice, it is {family}; keep one")
        for depth, weight in depths.items():
            if depth not in known:
                raise ConfigError(f"pretrain.mixture.{name}.{depth}: unknown depth{did_you_mean(depth, known)}")
            if weight > 0:
                cells.append((family, depth))
                weights.append(weight)
    return Mixture(tuple(cells), np.array(weights) / sum(weights))


def draw_rows(config: PretrainConfig, mixture: Mixture, step: int) -> list[Item]:
    """The items of one step, `[schedule.rows]`: a function of (seed, step) alone."""
    rng = stream(config.seed, step, 0, "pretrain")
    chosen = rng.choice(len(mixture.cells), size=config.schedule.rows, p=mixture.probability)
    return [_draw(mixture.cells[index], rng, wanted=False) for index in chosen]


def draw_measured(config: PretrainConfig) -> list[Item]:
    """The reserved items of every cell of every family, seen in training or not, in the order of their names' list."""
    cells = [(name, depth) for name in MODULES for depth in get_family(name).depths]
    return [item for cell in cells for item in draw_reserved(config, *cell)]


def that_fit(tokenizer: "PreTrainedTokenizerBase", items: list[Item], config: PretrainConfig) -> list[Item]:
    """The items that leave room in the context for an answer of `measurement.max_new_tokens`."""
    room = config.architecture.context - config.measurement.max_new_tokens
    prompts = _templated(tokenizer, items)
    fitting = [item for item, prompt in zip(items, prompts, strict=True) if len(prompt) <= room]
    if len(fitting) < len(items):
        left_out = len(items) - len(fitting)
        log.warning("%d of %d reserved prompts do not fit the context: not measured", left_out, len(items))
    return fitting


def draw_reserved(config: PretrainConfig, family: str, depth: str) -> list[Item]:
    """Distinct reserved items of one cell, at most `measurement.items_per_cell`, that the model card grades."""
    rng = stream(config.seed, 0, 0, "pretrain-measure", family, depth)
    items: dict[str, Item] = {}
    for _ in range(20 * config.measurement.items_per_cell):
        if len(items) == config.measurement.items_per_cell:
            break
        item = _draw((family, depth), rng, wanted=True)
        items.setdefault(canonical(item.prompt), item)
    return list(items.values())


def encode_rows(
    tokenizer: "PreTrainedTokenizerBase", items: list[Item], context: int
) -> list[tuple[list[int], list[int]]]:
    """(templated prompt ids, answer ids with EOS) of each item. ConfigError where a row exceeds the context."""
    prompts = _templated(tokenizer, items)
    answers = tokenizer([gold(item) for item in items], add_special_tokens=False)["input_ids"]
    rows = [(prompt, [*answer, tokenizer.eos_token_id]) for prompt, answer in zip(prompts, answers, strict=True)]
    longest = max(range(len(rows)), key=lambda index: len(rows[index][0]) + len(rows[index][1]))
    if len(rows[longest][0]) + len(rows[longest][1]) > context:
        item = items[longest]
        raise ConfigError(
            f"pretrain.architecture.context: {context} is too short for a prompt of {item.family}:{item.depth}"
        )
    return rows


def _templated(tokenizer: "PreTrainedTokenizerBase", items: list[Item]) -> list[list[int]]:
    """Ids of the prompts, in the chat template."""
    chats = [[{"role": "user", "content": item.prompt}] for item in items]
    ids: Any = tokenizer.apply_chat_template(chats, add_generation_prompt=True, return_dict=False) if items else []
    return cast(list[list[int]], ids)


def micro_batches(
    rows: list[tuple[list[int], list[int]]], parts: int, pad: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Cut rows, sorted by length, into parts: (ids `[n, T]`, flat places `[k]` before answer tokens, those tokens).

    Padding is on the right, where causal attention never looks, so no mask is needed.
    """
    order = sorted(range(len(rows)), key=lambda index: (len(rows[index][0]) + len(rows[index][1]), index))
    for part in np.array_split(np.array(order), min(parts, len(rows))):
        width = max(len(rows[index][0]) + len(rows[index][1]) for index in part)
        ids = np.full((len(part), width), pad, dtype=np.int64)
        positions: list[int] = []
        targets: list[int] = []
        for place, index in enumerate(part):
            prompt, answer = rows[index]
            ids[place, : len(prompt) + len(answer)] = prompt + answer
            first = place * width + len(prompt) - 1
            positions.extend(range(first, first + len(answer)))
            targets.extend(answer)
        yield (ids, np.array(positions, dtype=np.int64), np.array(targets, dtype=np.int64))


def _draw(cell: tuple[str, str], rng: np.random.Generator, *, wanted: bool) -> Item:
    family = get_family(cell[0])
    for _ in range(_DRAWS):
        item = family.make(rng, cell[1])
        if reserved(item.prompt) == wanted:
            return item
    kind = "reserved" if wanted else "unreserved"
    raise ConfigError(f"pretrain.mixture.{cell[0]}.{cell[1]}: no {kind} prompt in {_DRAWS} draws; leave the cell out")
