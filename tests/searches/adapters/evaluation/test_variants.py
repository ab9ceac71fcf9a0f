"""Items in other forms: what a form may add, who answers, what is graded, what is left out, and what it costs."""

import re
from contextvars import Context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from random_host import draw_items

from evolora_core.engine.meter import Meter
from evolora_core.engine.strict import config_hash, stated
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Grade, Item
from evolora_core.language.families.names import MODULES
from evolora_core.language.families.registry import enter, get, gold
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.evaluation.forms import FORMS, PLAIN, WORDS_AFTER, fits
from evolora_core.searches.adapters.evaluation.variants import UNFIT, ask_variants
from evolora_core.searches.adapters.experiment import load_suite
from evolora_core.searches.adapters.routing.candidates import learn_router
from evolora_core.searches.adapters.routing.learned import guess_families
from evolora_core.searches.adapters.routing.routes import Routes

DECODING = DecodingConfig(max_new_tokens=6, batch_rows=16)
SLOT_OF = {"logic.bool": 0, "math": 1}
OTHERS = [form for form in FORMS if form != PLAIN]


@pytest.fixture(scope="module")
def population(host: Any) -> Any:
    """Two adapters that answer unlike each other and the host."""
    population = Population.empty(host, 2, 2)
    draw = torch.Generator().manual_seed(0)
    population.ranks[:] = 2
    population.weights[:] = 0.3 * torch.randn(population.weights.shape, generator=draw)
    return population


def answered(host: Any, population: Any, items: Any) -> Any:
    """The items in their own form, each family by its adapter."""
    return answer_items(host, population, items, [SLOT_OF[item.family] for item in items], decoding=DECODING)


def table(routing: str) -> Routes:
    return Routes(routing=routing, table=SLOT_OF)


@pytest.mark.parametrize("form", OTHERS)
def test_a_form_adds_nothing_that_a_family_asks_about(form: str) -> None:
    prompt = "Compute 3 + 4."
    added = FORMS[form](prompt)
    assert added.count(prompt) == 1 and added != prompt
    before, after = added.split(prompt)
    assert not re.search(r"""[\d"'`\[\](){}<>|\\/*+^$]""", before + after)
    words = set(re.findall(r"\w+", (before + after).lower()))
    assert not words & {"true", "false", "and", "or", "not", "yes", "no"} and all(len(word) > 1 for word in words)
    assert bool(after.strip()) == (form in WORDS_AFTER)


def test_the_solver_of_a_family_that_counts_to_the_end_agrees_where_a_form_fits() -> None:
    counting = [name for name in MODULES if get(name).to_the_end]
    assert counting == ["word.count", "word.tokens"]
    for name in counting:
        for item in draw_items(name, 20):
            for form in FORMS:
                text = FORMS[form](item.prompt)
                solved = get(name).solve(text[text.index(item.prompt) :])
                assert (solved == gold(item)) == fits(form, item), (form, item.prompt)
    assert all(fits(form, item) for form in FORMS for item in draw_items("math", 1))


def test_every_form_is_answered_by_who_answers_the_item_and_charged(host: Any, items: Any, population: Any) -> None:
    plain, meter = answered(host, population, items), Meter()
    ids = {0: 17, 1: 4}
    rows = ask_variants(host, population, plain, table("family"), None, meter, organelles=ids, decoding=DECODING)
    assert [row["form"] for row in rows] == [form for form in FORMS for _ in items]
    flops = 0
    for form in FORMS:
        said = [replace(item, prompt=FORMS[form](item.prompt)) for item in items]
        expected = answered(host, population, said)
        mine = [row for row in rows if row["form"] == form]
        assert [row["task_id"] for row in mine] == [item.task_id for item in items]
        assert [row["answer"] for row in mine] == [outcome.answer for outcome in expected]
        assert [row["organelle"] for row in mine] == [ids[outcome.slot] for outcome in expected]
        assert [row["correct"] for row in mine] == [outcome.grade.correct for outcome in expected]
        flops += sum(outcome.flops for outcome in expected) if form != PLAIN else 0
    assert [(row["purpose"], row["flops"]) for row in meter.rows()] == [("evaluation", flops)]
    assert len({row["answer"] for row in rows if row["task_id"] == items[0].task_id}) > 1  # the forms tell


def test_the_learned_router_guesses_each_form_anew(host: Any, items: Any, population: Any) -> None:
    classifier, meter = learn_router(host, items), Meter()
    plain = answered(host, population, items)
    rows = ask_variants(host, population, plain, table("learned"), classifier, meter, decoding=DECODING)
    flops, elsewhere = 0, 0
    for form in OTHERS:
        said = [replace(item, prompt=FORMS[form](item.prompt)) for item in items]
        guessed, asking = guess_families(host, classifier, said)
        slots = [SLOT_OF.get(guess, HOST) for guess in guessed]
        elsewhere += sum(slot != outcome.slot for slot, outcome in zip(slots, plain, strict=True))
        expected = answer_items(host, population, said, slots, decoding=DECODING)
        assert [row["organelle"] for row in rows if row["form"] == form] == slots
        assert [row["answer"] for row in rows if row["form"] == form] == [outcome.answer for outcome in expected]
        flops += sum(outcome.flops for outcome in expected) + int(asking.sum())
    assert elsewhere > 0 and meter.flops("evaluation") == flops
    with pytest.raises(ValueError, match="needs its classifier"):
        ask_variants(host, population, plain, table("learned"), None, Meter(), decoding=DECODING)


def test_the_item_is_graded_and_not_the_form(host: Any) -> None:
    """A verifier of a user may read the prompt."""

    def verify(item: Item, answer: str) -> Grade:
        return Grade(1.0, item.prompt.startswith("echo "), item.prompt)

    def asked() -> list[dict[str, Any]]:
        enter([replace(get("math"), name="mine", verify=verify)])
        items = [Item(f"echo {i}", None, "mine", "all", f"mine-{i}") for i in range(3)]
        plain = answer_items(host, None, items, [HOST] * 3, decoding=DECODING)
        return ask_variants(host, None, plain, None, None, Meter(), decoding=DECODING)

    rows = Context().run(asked)
    spoken = [row for row in rows if row["reason"] != "no answer"]
    assert len(spoken) > 6 and all(row["correct"] and row["reason"].startswith("echo ") for row in spoken)


def test_what_does_not_fit_is_left_out_with_the_reason_and_costs_nothing(host: Any) -> None:
    items = [*draw_items("math", 3), *draw_items("word.count", 3)]
    short = replace(host, max_context=max(len(ids) for ids in host.encode_prompts([i.prompt for i in items[:3]])) + 24)
    plain, meter = answer_items(short, None, items, [HOST] * 6, decoding=DECODING), Meter()
    rows = ask_variants(short, None, plain, None, None, meter, decoding=DECODING)
    unfit = [row for row in rows if row["reason"] == UNFIT]
    assert {(row["form"], row["task_id"]) for row in unfit} == {
        (f, item.task_id) for f in WORDS_AFTER for item in items[3:]
    }
    long = [row for row in rows if row["reason"] == "too long"]
    assert {(row["form"], row["task_id"]) for row in long} >= {("aside", item.task_id) for item in items}
    assert all(row["correct"] is row["answer"] is row["organelle"] is None for row in unfit + long)
    there = {(row["form"], row["task_id"]) for row in rows if row["correct"] is not None and row["form"] != PLAIN}
    assert {("dialogue", item.task_id) for item in items[:3]} <= there
    said = [replace(i, prompt=FORMS[form](i.prompt)) for form in OTHERS for i in items if (form, i.task_id) in there]
    expected = answer_items(short, None, said, [HOST] * len(said), decoding=DECODING)
    assert meter.flops("evaluation") == sum(outcome.flops for outcome in expected)


def test_answers_that_were_kept_are_not_asked_again(host: Any, items: Any, population: Any, tmp_path: Path) -> None:
    plain = answered(host, population, items)

    def asked() -> tuple[Any, list[int]]:
        meter = Meter()
        done: list[int] = []
        rows = ask_variants(
            host, population, plain, table("family"), None, meter, decoding=DECODING, folder=tmp_path,
            progress=lambda now, total, text="": done.append(now),
        )  # fmt: skip
        return [rows, meter.flops("evaluation")], done

    (first, calls), (again, nothing) = asked(), asked()
    assert again == first and calls[-1] == 5 * len(items) and nothing == []


def test_a_suite_that_does_not_ask_for_other_forms_is_the_suite_that_it_was() -> None:
    tiny = Path(__file__).parents[4] / "configs" / "suites" / "tiny.yaml"
    assert "variants" not in stated(load_suite(tiny))["evaluation"]
    assert config_hash(load_suite(tiny)) != config_hash(load_suite(tiny, ["evaluation.variants=true"]))
