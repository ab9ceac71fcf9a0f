"""Of several specialists one may be too dear for its share of the budget: then nothing is trained."""

from pathlib import Path

import pytest
from random_host import draw_items
from small_runs import PRACTICE

from evolora_core.engine import rng
from evolora_core.errors import Unaffordable
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import load_host
from evolora_core.lora.answering.pricing import price
from evolora_core.searches.adapters.labels import solved
from evolora_core.searches.adapters.rivals.sft import plan_sft
from evolora_core.searches.adapters.rivals.supervised import fine_tune_and_route
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.settings.sft import SftSettings


def test_nothing_is_trained_where_one_specialist_cannot_be(tmp_path: Path) -> None:
    host, decoding = load_host("nano"), DecodingConfig(max_new_tokens=6, batch_rows=64)
    items = draw_items("math.multi_step", 40, 0) + draw_items("string.sort", 40, 1)  # the second are longer
    prices = price(host, items, PRACTICE, decoding, 0)
    config = SftSettings(specialists=True, sum_weight=0.0, rank=2, batch_rows=8, checkpoints=1, strengths=[1.0])

    def first_step(family: str, number: int) -> int:
        own = [item for item in items if item.family == family]
        seed = rng.key(0, 0, number, "specialist")
        return int(plan_sft(host, solved(own), config, budget_flops=10**13, seed=seed, asked=[])[1].flops[0])

    cheap, dear = first_step("math.multi_step", 0), first_step("string.sort", 1)
    assert cheap < dear
    terms = Terms(host, items, [], prices, decoding, ["family"], 0, cheap + dear, lambda *_: None)
    assert cheap <= terms.for_training([2]) // 2 < dear
    with pytest.raises(Unaffordable, match="sft: the budget of .* does not pay for one optimizer step of 8 rows"):
        fine_tune_and_route(config, terms, tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_trained_where_the_choice_of_a_donor_would_take_a_step(tmp_path: Path) -> None:
    """What the answers of earlier specialists leave is known before the first one is trained."""
    host, decoding = load_host("nano"), DecodingConfig(max_new_tokens=6, batch_rows=64)
    items = draw_items("string.sort", 40, 0) + draw_items("math.multi_step", 40, 1)
    prices = price(host, items, PRACTICE, decoding, 0)
    selection = draw_items("string.sort", 8, 2) + draw_items("math.multi_step", 8, 3)
    terms = Terms(host, items, selection, prices, decoding, ["family"], 0, 10**10, lambda *_: None)
    shares = {"string.sort": 0.5, "math.multi_step": 0.5}

    def tune(donor_items: int, folder: Path) -> None:
        config = SftSettings(specialists=True, donor_items=donor_items, rank=2, batch_rows=8, checkpoints=1)
        fine_tune_and_route(config, terms, folder, shares)

    tune(0, tmp_path / "host")
    with pytest.raises(Unaffordable, match="does not pay for one optimizer step of 8 rows"):
        tune(40, tmp_path / "donor")
    assert not (tmp_path / "donor").exists()
