"""Greedy answers of an ensemble: at every place the token whose mean probability over the members is highest."""

from collections.abc import Sequence

import torch

from evolora_core.engine.progress import Progress
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.families.registry import grade
from evolora_core.language.flops import FlopModel
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import TOO_LONG
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.answering.stopping import endings, stop_at, until
from evolora_core.lora.population.slots import HOST
from evolora_core.searches.merging.controls.ensemble import mean_log_probabilities

ROWS = 128  # answered together at most: every member keeps a cache of them


@torch.inference_mode()
def answer_together(
    host: Host, models: Sequence[torch.nn.Module], items: Sequence[Item], decoding: DecodingConfig, report: Progress
) -> list[Outcome]:
    """One outcome an item, in their order. Prompts of equal length are answered together, with a key-value cache a
    member. As for one model, an item whose prompt and token cap do not fit the context is not asked, "too long".
    """
    prompts = host.encode_prompts([item.prompt for item in items])
    found: dict[int, Outcome] = {}
    by_length: dict[int, list[int]] = {}
    for row, prompt in enumerate(prompts):
        if len(prompt) + decoding.max_new_tokens > host.max_context:
            found[row] = Outcome(items[row], HOST, "", TOO_LONG, len(prompt), 0, 0, 0, [], False)
        else:
            by_length.setdefault(len(prompt), []).append(row)
    most = min(ROWS, decoding.batch_rows)
    cost, ends = FlopModel.from_model(host.model), endings(host, decoding.stop_strings)
    for length, rows in sorted(by_length.items()):
        for start in range(0, len(rows), most):
            own = rows[start : start + most]
            answers = _decode(host, models, [prompts[row] for row in own], decoding)
            for row, tokens in zip(own, answers, strict=True):
                text = until(host.decode(tokens), ends)
                flops = len(models) * int(cost.generate_flops(length, len(tokens)))
                graded = grade(items[row], text)
                found[row] = Outcome(items[row], HOST, text, graded, length, len(tokens), flops, 0, [], False)
            report(len(found), len(items), "answers")
    return [found[row] for row in range(len(items))]


def _decode(
    host: Host, models: Sequence[torch.nn.Module], prompts: list[list[int]], decoding: DecodingConfig
) -> list[list[int]]:
    """Token ids of each answer, the ending one included."""
    stop = stop_at(host, endings(host, decoding.stop_strings))
    ids = torch.tensor(prompts, device=host.device)
    new = ids[:, :0]  # tokens of all answers, behind ends too
    caches = [None] * len(models)
    answers: list[list[int]] = [[] for _ in prompts]
    going = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(decoding.max_new_tokens):
        scores = []
        for place, model in enumerate(models):
            given = model(input_ids=ids, past_key_values=caches[place], use_cache=True, logits_to_keep=1)
            caches[place] = given.past_key_values
            scores.append(torch.log_softmax(given.logits[:, -1].float(), dim=-1))
        ids = mean_log_probabilities(scores).argmax(dim=-1)[:, None]
        new = torch.cat([new, ids], dim=1)
        stopped = stop(new).tolist() if stop else [False] * len(prompts)
        for row, token in enumerate(ids[:, 0].tolist()):
            if going[row]:
                answers[row].append(token)
                going[row] = token not in host.eos_ids and not stopped[row]
        if not going.any():
            break
    return answers
