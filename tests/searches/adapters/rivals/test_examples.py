"""The rival that trains nothing: gold answers become examples, all that choosing takes is charged, a budget is kept."""

from dataclasses import replace
from pathlib import Path

import pytest
from random_host import draw_items
from small_runs import PRACTICE

from evolora_core.errors import Unaffordable
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.registry import gold
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.pricing import price
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.trained import load_trained
from evolora_core.searches.adapters.rivals.examples import choose_examples
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.routing.shots import read_shots
from evolora_core.searches.adapters.settings.examples import ExamplesConfig


@pytest.fixture(scope="module")
def terms() -> Terms:
    host, decoding = load_host("nano"), DecodingConfig(max_new_tokens=6, batch_rows=64)
    items = draw_items("math", 20, 0) + draw_items("string.sort", 20, 1)
    selection = draw_items("math", 8, 2) + draw_items("string.sort", 8, 3)
    prices = price(host, items, PRACTICE, decoding, 0)
    return Terms(host, items, selection, prices, decoding, ["family", "single"], 0, 10**15, lambda *_: None)


def test_it_has_so_many_labels_and_says_what_each_way_was_worth(terms: Terms, tmp_path: Path) -> None:
    config = ExamplesConfig(labels=3, shown=[1, 2], chosen=["same"])
    shown = choose_examples(config, terms, tmp_path)
    shots = read_shots(tmp_path)
    assert shots is not None
    assert shown.labels == len(shots.solved[HOST]) == 6 and shown.ways == len(shots.ways) == 2
    true = {(item.prompt, gold(item)) for item in terms.items}
    assert {(one.prompt, one.answer) for one in shots.solved[HOST]} <= true
    assert load_trained(terms.host, tmp_path) == (None, {})
    buckets = {(row["routing"], row["bucket"]) for row in shown.rows}
    assert buckets == {("family", "math"), ("family", "string.sort"), ("single", "")}
    for bucket in buckets:
        own = [row for row in shown.rows if (row["routing"], row["bucket"]) == bucket]
        assert sorted(row["shown"] for row in own) == [0, 1, 2]
        (chosen,) = (row for row in own if row["chosen"])
        bare = next(row for row in own if not row["shown"])
        assert chosen["accuracy"] >= bare["accuracy"]
    assert 0 < shown.meter.total() == shown.meter.flops("routing") <= terms.budget_flops


def test_wrong_labels_are_wrong_examples(terms: Terms, tmp_path: Path) -> None:
    config = ExamplesConfig(label_error=0.5, shown=[1], chosen=["same"])
    choose_examples(config, replace(terms, routings=["family"]), tmp_path)
    shots = read_shots(tmp_path)
    assert shots is not None
    true = {(item.prompt, gold(item)) for item in terms.items}
    wrong = sum((one.prompt, one.answer) not in true for one in shots.solved[HOST])
    assert 8 <= wrong <= 32


def test_the_dearest_ways_are_left_out_where_the_budget_might_not_pay(terms: Terms, tmp_path: Path) -> None:
    config = ExamplesConfig(shown=[4, 1, 2], chosen=["same"])
    for name in ("all", "fewer", "none"):
        (tmp_path / name).mkdir()
    whole = choose_examples(config, terms, tmp_path / "all")
    assert [way.count for way in read_shots(tmp_path / "all").ways.values()] == [1, 2, 4]  # type: ignore[union-attr]
    budget = whole.meter.total()
    fewer = choose_examples(config, replace(terms, budget_flops=budget), tmp_path / "fewer")
    shots = read_shots(tmp_path / "fewer")
    assert shots is not None and 0 < fewer.ways == len(shots.ways) < 3
    assert [way.count for way in shots.ways.values()] == [1, 2][: fewer.ways]
    assert fewer.meter.total() <= budget
    with pytest.raises(Unaffordable, match="might not pay for trying one way of showing examples, which takes up to"):
        choose_examples(config, replace(terms, budget_flops=budget // 10), tmp_path / "none")
    assert not list((tmp_path / "none").iterdir())
