"""Log-likelihoods are those of the model's own loss; solved items are those that greedy decoding answers rightly."""

import weakref

import numpy as np
import pytest
import torch
from searches.merging.small_pool import DATA, DOMAINS

from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.registry import gold
from evolora_core.lora.answering.grading import answer_items
from evolora_core.searches.merging.data import Splits, by_name
from evolora_core.searches.merging.judging.judge import Failed, Judge
from evolora_core.searches.merging.judging.scoring import Questions
from evolora_core.searches.merging.judging.scoring import judge as judged
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.recipe import Genome, Merge


def test_a_domain_s_score_is_the_mean_over_its_tokens(judge: Judge, pool: Pool, splits: Splits) -> None:
    found = judged(pool.host.model, judge.questions["search"])
    for number, items in enumerate(splits["search"].values()):
        total, tokens = 0.0, 0
        for item in items:  # one row at a time, the whole logits
            (prompt,), (answer,) = pool.host.encode_prompts([item.prompt]), pool.host.encode_answers([gold(item)])
            logits = pool.host.model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
            total -= torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="sum").item()
            tokens += len(answer)
        assert found.domains[number] == pytest.approx(total / tokens, abs=1e-5)
    weights = np.array([domain.weight for domain in DOMAINS.values()])
    assert found.score == pytest.approx(float(found.domains @ weights / weights.sum()))


def test_solved_items_are_those_that_greedy_decoding_answers_with_the_gold(
    judge: Judge, pool: Pool, splits: Splits
) -> None:
    items = by_name(splits)["search"]
    found = judged(pool.host.model, judge.questions["search"])
    outcomes = answer_items(pool.host, None, items, [-1] * len(items), decoding=DecodingConfig(max_new_tokens=64))
    exact = [outcome.answer == gold(outcome.item) and outcome.finished for outcome in outcomes]
    assert found.solved.tolist() == exact and 0 < sum(exact) < len(exact)


def test_weights_that_give_no_numbers_fail(judge: Judge, pool: Pool) -> None:
    far = Genome(recipe=Merge(op="task_arithmetic", inputs=["code"], params={"weight": 10.0, "scale": 10.0}))
    broken = {name: torch.full_like(pool.models["code"].get(name), float("nan")) for name in pool.models["code"].names}
    pool.models["broken"] = type(pool.models["code"])(pool.models["code"].config, broken)  # type: ignore[call-arg]
    try:
        with pytest.raises(Failed, match="not finite"):
            judge.measure(Genome(recipe="broken"))
    finally:
        del pool.models["broken"]
    assert np.isfinite(judge.measure(far).score)  # far off, but a number


def test_one_model_is_in_memory_whatever_its_depth(judge: Judge) -> None:
    def deep(layers: int) -> Genome:
        route = [{"input": 0, "layer": number % 4} for number in range(layers)]
        return Genome.model_validate({"recipe": {"op": "layers", "inputs": ["code"], "route": route}})

    models = [weakref.ref(judge.merged(deep(layers))) for layers in (3, 6, 5)]
    assert [model() is None for model in models] == [True, True, False]
    assert judge.measure(deep(3)).score == judge.measure(deep(3)).score


def test_everything_is_charged(judge: Judge) -> None:
    first = Genome(recipe="code")
    judge.measure(first)
    judge.measure(first, "selection")
    rows = {row["purpose"]: row for row in judge.meter.rows()}
    assert rows["rollout"]["flops"] == judge.plain_cost("search")
    assert rows["selection"]["flops"] == judge.plain_cost("selection")
    assert rows["rollout"]["tokens"] == judge.questions["search"].tokens
    deeper = Genome.model_validate(
        {"recipe": {"op": "layers", "inputs": ["code"], "route": [{"input": 0, "layer": n % 4} for n in range(6)]}}
    )
    assert judge.cost(deeper) > 1.3 * judge.plain_cost()


def test_what_does_not_fit_the_base_costs_nothing(judge: Judge) -> None:
    """Six layers have no difference from the base's four: such a recipe fails, and must not look like one too dear."""
    deep = {"op": "layers", "inputs": ["code"], "route": [{"input": 0, "layer": number % 4} for number in range(6)]}
    far = Genome.model_validate({"recipe": {"op": "task_arithmetic", "inputs": [deep], "params": {"weight": 1.0}}})
    assert judge.cost(far) == 0
    with pytest.raises(Failed, match="Misfit"):
        judge.measure(far)
    assert judge.meter.total() == 0


def test_splits_are_disjoint_and_train_holds_nothing_reserved(splits: Splits) -> None:
    from evolora_core.language.datasets import leak_counts
    from evolora_core.language.families.canonical import reserved

    assert {row["shared"] for row in leak_counts(by_name(splits))} == {0}
    for split, items in by_name(splits).items():
        assert len(items) == 3 * getattr(DATA, split)
        assert {reserved(item.prompt) for item in items} == {split != "train"}


def test_questions_keep_the_order_of_their_items(judge: Judge, splits: Splits, pool: Pool) -> None:
    weights = dict.fromkeys(splits["search"], 1.0)
    alone = Questions.of(pool.host, {"math": splits["search"]["math"]}, weights)
    whole = judged(pool.host.model, judge.questions["search"])
    assert judged(pool.host.model, alone).solved.tolist() == whole.solved[12:24].tolist()
