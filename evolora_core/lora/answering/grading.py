"""Ask, answer, grade: items go in, one outcome each comes out, with the budget FLOPs of its answer.

The same function serves every arm, in training and in evaluation; it knows nothing of energy, splits or stores.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import span
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.families.base import Grade, Item
from evolora_core.language.families.registry import grade
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.language.hosts.template import Example
from evolora_core.lora.answering.answered import keep, kept
from evolora_core.lora.answering.outcome import GREEDY, Decoding, Manner, Outcome
from evolora_core.lora.answering.stopping import endings, stop_at, until
from evolora_core.lora.population.generate import Answer, generate
from evolora_core.lora.population.passes import out_of_memory
from evolora_core.lora.population.stack import Population

log = logging.getLogger(__name__)

TOO_LONG = Grade(0.0, False, "too long")
CHUNK = 8  # batches between two progress reports


def answer_items(
    host: Host,
    population: Population | None,
    items: Sequence[Item],
    slots: Sequence[int] | np.ndarray,
    manner: Manner = GREEDY,
    *,
    decoding: Decoding,
    prompts: Sequence[str] | None = None,
    progress: Progress = silent,
    folder: Path | None = None,
) -> list[Outcome]:
    """Answer `items[i]` with `slots[i]`, grade, and count; the outcomes keep the order of `items`.

    An item whose prompt and token cap do not fit the host's context is never sent: it counts as wrong, "too long", and
    costs nothing. `prompts[i]` is asked in the place of the item's own; the grade is that of the item all the same.
    `progress(done, total)` is called now and then. Greedy answers are kept in `folder`, if one is given, and not asked
    for again. When memory runs out, half as many are answered together, with a warning: floating point then differs in
    the last digits.
    """
    slots = np.asarray(slots, dtype=np.int64)
    if len(slots) != len(items):
        raise ValueError(f"{len(items)} items but {len(slots)} slots")
    temperatures = np.broadcast_to(np.asarray(manner.temperatures, dtype=np.float64), (len(items),))
    asked = encode_unique(host, [item.prompt for item in items] if prompts is None else prompts, manner.examples)
    given_tokens = [[] for _ in items] if manner.prefixes is None else [list(prefix) for prefix in manner.prefixes]
    asked = [[*prompt, *prefix] for prompt, prefix in zip(asked, given_tokens, strict=True)]
    lengths = np.array([len(ids) for ids in asked], dtype=np.int64)
    # What is begun with a prefix may be as long, with it, as any other answer.
    caps = np.maximum(1, decoding.max_new_tokens - np.array([len(prefix) for prefix in given_tokens], dtype=np.int64))
    fits = lengths + caps <= host.max_context
    outcomes: list[Outcome | None] = [
        None if fit else Outcome(item, int(slot), "", TOO_LONG, int(length), 0, 0, 0, [], False)
        for item, slot, length, fit in zip(items, slots, lengths, fits, strict=True)
    ]
    # Sorted by length, a chunk of batches pads little; a stable sort keeps equal lengths in the order given.
    order = np.flatnonzero(fits)[np.argsort(lengths[fits], kind="stable")]
    model = FlopModel.from_model(host.model)
    chunk = CHUNK * min(decoding.batch_rows, host.memory_plan.rows)
    stop = stop_at(host, endings(host, decoding.stop_strings))
    done = len(items) - len(order)
    for start in range(0, len(order), chunk):
        rows = order[start : start + chunk]
        path = folder / f"{start:08d}.jsonl" if folder else None
        questions = [(int(row), items[row].task_id, int(slots[row])) for row in rows]
        if path and (before := kept(path, questions)):
            for row, known in zip(rows, before, strict=True):
                outcomes[row] = Outcome(item=items[row], **known)
            done += len(rows)
            continue
        ask = partial(
            generate,
            host,
            population,
            [asked[row] for row in rows],
            slots[rows],
            max_new_tokens=caps[rows],
            temperatures=temperatures[rows].tolist(),
            keys=None if manner.keys is None else np.asarray(manner.keys)[rows],
            alternatives=manner.alternatives,
            sampled=manner.sampled,
            stop=stop,
        )
        answers = _in_room(host, decoding.batch_rows, ask)
        new_tokens = [given.new_tokens for given in answers]
        ranks = 0 if population is None else population.ranks_of(slots[rows])
        flops = model.generate_flops(lengths[rows], new_tokens, ranks).tolist()
        for row, given, cost in zip(rows, answers, flops, strict=True):
            outcomes[row] = _graded(host, items[row], int(slots[row]), given_tokens[row], given, cost, decoding)
        if path:
            keep(path, {row: outcome for row in rows.tolist() if (outcome := outcomes[row])})
        done += len(rows)
        progress(done, len(items))
    return [outcome for outcome in outcomes if outcome is not None]


def _in_room(host: Host, batch_rows: int, ask: Callable[..., list[Answer]]) -> list[Answer]:
    """What `ask(batch_rows=...)` gives; when memory runs out, with half as many rows at a time, from then on."""
    while True:
        together = min(batch_rows, host.memory_plan.rows)
        try:
            with span("generate"):
                return ask(batch_rows=together)
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error) or together == 1:
                raise
            host.memory_plan.rows = max(1, together // 2)
            log.warning("out of memory: going on with %d answers together", host.memory_plan.rows)


def _graded(
    host: Host, item: Item, slot: int, prefix: Sequence[int], given: Answer, flops: int, decoding: Decoding
) -> Outcome:
    """An answer, after its prefix, as text and with its grade. With a prefix too, nothing beyond the cap is graded:
    unaided the answer could not be that long.
    """
    tokens = [*prefix, *given.tokens]
    whole = host.decode(tokens[: decoding.max_new_tokens])
    text = until(whole, endings(host, decoding.stop_strings))
    with span("grade"):
        graded = grade(item, text)
    return Outcome(
        item=item,
        slot=slot,
        answer=text,
        grade=graded,
        prompt_tokens=given.prompt_tokens,
        answer_tokens=given.new_tokens,
        flops=flops,
        executed_flops=given.executed_flops,
        tokens=tokens[: decoding.max_new_tokens],
        finished=(given.finished and len(tokens) < decoding.max_new_tokens) or len(text) < len(whole),
        alternatives=given.alternatives,
        sampled=given.sampled,
    )


def charge(meter: Meter, purpose: str, outcomes: Sequence[Outcome], seconds: float) -> None:
    """Count answers on a meter."""
    meter.add(
        purpose,
        flops=sum(outcome.flops for outcome in outcomes),
        # An item that was too long was not asked, and cost nothing.
        tokens=sum(outcome.prompt_tokens + outcome.answer_tokens for outcome in outcomes if outcome.flops),
        seconds=seconds,
        executed_flops=sum(outcome.executed_flops for outcome in outcomes),
    )


def encode_unique(
    host: Host, prompts: Sequence[str], examples: Sequence[Sequence[Example]] | None = None
) -> list[list[int]]:
    """Token ids of every prompt, its examples before it; each distinct one is encoded once (many samples, or many
    slots, share one).
    """
    shown = [tuple(own) for own in examples] if examples is not None else [()] * len(prompts)
    asked = list(zip(prompts, shown, strict=True))
    distinct = list(dict.fromkeys(asked))
    encoded = host.encode_prompts([prompt for prompt, _ in distinct], [own for _, own in distinct])
    ids = dict(zip(distinct, encoded, strict=True))
    return [ids[one] for one in asked]
