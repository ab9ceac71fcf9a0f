"""An ensemble answers by the rules of every other condition: an ensemble of one model answers as that model does."""

from dataclasses import replace

from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import TOO_LONG, answer_items
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.searches.merging.data import Splits, by_name
from evolora_core.searches.merging.judging.answering import answer_together


def both(host: Host, items: list[Item], decoding: DecodingConfig) -> tuple[list[Outcome], list[Outcome]]:
    """Answers of an ensemble of the host alone, and of the host."""
    together = answer_together(host, [host.model], items, decoding, lambda *_: None)
    return together, answer_items(host, None, items, [-1] * len(items), decoding=decoding)


def test_stop_strings_end_the_answers_of_an_ensemble(merge_host: Host, splits: Splits) -> None:
    items = by_name(splits)["search"]
    whole, _ = both(merge_host, items, DecodingConfig(max_new_tokens=16))
    stopping = DecodingConfig(max_new_tokens=16, stop_strings=[" ", '"'])
    together, alone = both(merge_host, items, stopping)
    for one, other in zip(together, alone, strict=True):
        assert (one.answer, one.answer_tokens, one.flops) == (other.answer, other.answer_tokens, other.flops)
    assert sum(one.answer_tokens for one in together) < sum(one.answer_tokens for one in whole)


def test_no_more_items_are_answered_together_than_the_suite_says(merge_host: Host, splits: Splits) -> None:
    """`decoding.batch_rows` is lowered where memory is short, and an ensemble needs the most."""
    items, rows = by_name(splits)["search"], list[int]()
    watched = merge_host.model.register_forward_pre_hook(
        lambda _, args, given: rows.append(len(given["input_ids"])), with_kwargs=True
    )
    try:
        many = answer_together(merge_host, [merge_host.model], items, DecodingConfig(max_new_tokens=4), lambda *_: None)
        wide = max(rows)
        rows.clear()
        few = DecodingConfig(max_new_tokens=4, batch_rows=2)
        narrow = answer_together(merge_host, [merge_host.model], items, few, lambda *_: None)
    finally:
        watched.remove()
    assert wide > 2 == max(rows)
    assert [one.answer for one in narrow] == [one.answer for one in many]


def test_what_does_not_fit_the_context_is_too_long_for_an_ensemble_as_well(merge_host: Host, splits: Splits) -> None:
    items = by_name(splits)["search"]
    lengths = [len(prompt) for prompt in merge_host.encode_prompts([item.prompt for item in items])]
    narrow = replace(merge_host, max_context=sorted(lengths)[len(lengths) // 2] + 16)
    together, alone = both(narrow, items, DecodingConfig(max_new_tokens=16))
    assert [one.grade for one in together] == [one.grade for one in alone]
    assert [one.flops for one in together] == [one.flops for one in alone]
    assert 0 < sum(one.grade == TOO_LONG for one in together) < len(items)
