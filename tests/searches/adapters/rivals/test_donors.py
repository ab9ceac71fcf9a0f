"""A specialist may begin with the weights of an earlier one."""

from pathlib import Path
from typing import Any

import pytest
from random_host import draw_items
from small_runs import PRACTICE, short_words, train

from evolora_core.engine import artifacts
from evolora_core.engine.meter import Meter
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.pricing import price
from evolora_core.lora.population.candidates import load_candidates, write_candidates
from evolora_core.lora.population.peft_io import import_peft
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.rivals.donors import best_start
from evolora_core.searches.adapters.rivals.supervised import fine_tune_and_route
from evolora_core.searches.adapters.rivals.terms import Terms
from evolora_core.searches.adapters.settings.sft import SftSettings
from tasks.stage import SCRATCH

DECODING = DecodingConfig(max_new_tokens=20, batch_rows=64)


def right(host: Host, folder: Path | None, items: Any) -> int:
    """Right answers of the host, or of it with an adapter."""
    population, slot = None, -1
    if folder:
        adapter = import_peft(folder, host)
        population, slot = Population.empty(host, 1, adapter.rank, scale=adapter.scale), 0
        population.put(0, adapter)
    answers = answer_items(host, population, items, [slot] * len(items), decoding=DECODING)
    return sum(answer.grade.correct for answer in answers)


def test_the_best_lends_its_weights_and_the_host_wins_a_tie(nano: Host, tmp_path: Path) -> None:
    words = short_words(60)
    items = words[:30]
    idle = train(nano, words, tmp_path / "idle", steps=1.5, rate=1e-12).adapter_folder
    wild = train(nano, words, tmp_path / "wild", steps=4.5, rate=0.5).adapter_folder
    able = train(nano, words, tmp_path / "able", steps=28.5, rate=6e-3).adapter_folder
    counts = [right(nano, folder, items) for folder in (None, idle, wild, able)]
    assert counts[0] == counts[1] and counts[2] < counts[0] < counts[3]
    meter = Meter()
    assert best_start(nano, [idle, wild], items, DECODING, meter) is None
    assert meter.flops("selection") == meter.total() > 0
    assert best_start(nano, [idle, wild, able], items, DECODING, meter) == able
    assert best_start(nano, [], items, DECODING, meter) is None


def test_a_family_may_be_called_as_what_is_thrown_away(nano: Host, tmp_path: Path) -> None:
    """`work` was the name of the folders from which a killed stage goes on."""
    partial = artifacts.partial_folder(tmp_path / "a")
    for name in ("work", "answered"):
        train(nano, short_words(20), partial / name, steps=1.5)
    write_candidates(partial, ["work", "answered"], [1.0])
    assert list(partial.rglob(".work"))
    artifacts.commit(tmp_path / "a", {"stage": "sft"}, SCRATCH)
    assert len(load_candidates(nano, tmp_path / "a").ranks) == 2 and not list((tmp_path / "a").rglob(".work"))


@pytest.mark.parametrize("count", [0, 24])
def test_each_family_has_its_share_with_the_choice_of_its_donor(nano: Host, tmp_path: Path, count: int) -> None:
    items = draw_items("string.sort", 60, 0) + draw_items("string.repeats", 60, 1)
    selection = draw_items("string.sort", 20, 2) + draw_items("string.repeats", 20, 3)
    prices = price(nano, items, PRACTICE, DECODING, 0)
    terms = Terms(nano, items, selection, prices, DECODING, ["family"], 0, 6 * 10**10, lambda *_: None)
    config = SftSettings(rank=2, batch_rows=16, checkpoints=1, specialists=True, donor_items=count)
    made = fine_tune_and_route(config, terms, tmp_path, {"string.sort": 0.5, "string.repeats": 0.5})
    assert made.meter.total() <= terms.budget_flops
    spent = {name: sum(float(row["flops"]) for row in made.steps if row["adapter"] == name) for name in made.chosen}
    assert (spent["string.repeats"] < spent["string.sort"]) == (count > 0)
    assert (made.meter.flops("selection") > 0) == (count > 0)
