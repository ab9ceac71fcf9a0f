"""One split for several routers: each goes by what it may see, and what two have in common is answered once."""

from typing import Any

import pytest
import torch

from evolora_core.engine.meter import Meter
from evolora_core.language.decoding import DecodingConfig
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.evaluation.routed import NOBODY, answer_by_router
from evolora_core.searches.adapters.routing.candidates import learn_router
from evolora_core.searches.adapters.routing.learned import guess_families
from evolora_core.searches.adapters.routing.routes import Routes

DECODING = DecodingConfig(max_new_tokens=6)
SLOT_OF = {"logic.bool": 0, "math": 1}


def table(routing: Any) -> Routes:
    return Routes(routing=routing, table=SLOT_OF, accuracy={}, n={})


@pytest.fixture(scope="module")
def population(host: Any) -> Any:
    """Two adapters that answer unlike each other and the host."""
    population = Population.empty(host, 2, 2)
    draw = torch.Generator().manual_seed(0)
    population.ranks[:] = 2
    population.weights[:] = 0.3 * torch.randn(population.weights.shape, generator=draw)
    return population


def test_the_learned_router_goes_by_its_guess_and_not_by_the_family(host: Any, items: Any, population: Any) -> None:
    classifier = learn_router(host, items)
    guessed, flops = guess_families(host, classifier, items)
    lied = dict(zip(SLOT_OF, reversed(SLOT_OF), strict=True))
    disguised = [type(item)(**{**vars(item), "family": lied.get(item.family, item.family)}) for item in items]
    routes = {"learned": table("learned"), "family": table("family")}
    answers = answer_by_router(host, population, disguised, routes, classifier, Meter(), decoding=DECODING)
    assert set(guessed) >= set(SLOT_OF)
    assert [o.slot for o in answers["learned"]] == [SLOT_OF.get(guess, HOST) for guess in guessed]
    assert [o.slot for o in answers["family"]] == [SLOT_OF[item.family] for item in disguised]
    assert [o.slot for o in answers["family"]] != [o.slot for o in answers["learned"]]
    plain = answer_items(host, population, disguised, [o.slot for o in answers["learned"]], decoding=DECODING)
    dearer = [routed.flops - own.flops for routed, own in zip(answers["learned"], plain, strict=True)]
    assert dearer == flops.tolist() and min(dearer) > 0
    assert [o.answer for o in answers["learned"]] == [o.answer for o in plain]


def test_a_question_that_two_routers_share_is_answered_and_charged_once(host: Any, items: Any, population: Any) -> None:
    some = Routes(routing="single", table={"": 0}, accuracy={}, n={})
    meters = {}
    for names in (("family",), ("single",), ("family", "single")):
        meters[names] = Meter()
        routes = {name: some if name == "single" else table(name) for name in names}
        answers = answer_by_router(host, population, items, routes, None, meters[names], decoding=DECODING)
        assert list(answers) == list(names) and all(len(own) == len(items) for own in answers.values())
    shared = [o for o, item in zip(answers["single"], items, strict=True) if SLOT_OF[item.family] == 0]
    assert 0 < len(shared) < len(items)
    both, family, single = (
        meters[names].flops("evaluation") for names in (("family", "single"), ("family",), ("single",))
    )
    assert both == family + single - sum(outcome.flops for outcome in shared)


def test_without_routes_the_host_answers(host: Any, items: Any) -> None:
    answers = answer_by_router(host, None, items, {}, None, Meter(), decoding=DECODING)
    assert list(answers) == [NOBODY] and {o.slot for o in answers[NOBODY]} == {HOST}


def test_learned_without_its_classifier_is_refused(host: Any, items: Any, population: Any) -> None:
    with pytest.raises(ValueError, match="needs its classifier"):
        answer_by_router(host, population, items, {"learned": table("learned")}, None, Meter(), decoding=DECODING)
