"""Who answers everything, where nobody was made for it: on the shipped host with a fault that adapters undo."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from random_host import draw_items

from evolora_core.engine.meter import Meter
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Grade
from evolora_core.language.hosts.host import load_host
from evolora_core.language.hosts.layers import adapted_layers
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.population.adapter import Adapter
from evolora_core.lora.population.merge import add_up
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.routing.candidates import PROOF, _ahead, choose_among
from evolora_core.searches.adapters.routing.routes import read_routes

torch.set_num_threads(1)
DECODING = DecodingConfig(max_new_tokens=20)


@pytest.fixture(scope="module")
def faulty() -> Any:
    """The nano host with a fault of rank 2 in every layer, and the adapter that undoes it."""
    host = load_host("nano")
    draw = np.random.default_rng(0)
    A, B = {}, {}
    for name, layer in adapted_layers(host.model).items():
        A[name] = torch.from_numpy(draw.normal(0, 0.2, (2, layer.in_features)).astype(np.float32))
        B[name] = torch.from_numpy(draw.normal(0, 0.2, (layer.out_features, 2)).astype(np.float32))
        with torch.no_grad():
            layer.weight -= 2.0 * B[name] @ A[name]
    return host, Adapter(2, 2.0, A, B)


def chosen(folder: Path, routing: Any) -> Any:
    return read_routes(folder, routing).table


@pytest.mark.parametrize("summed", [True, False])
def test_those_that_lead_in_their_families_are_added_up(faulty: Any, tmp_path: Path, summed: bool) -> None:
    host, mend = faulty
    selection = draw_items("string.sort", 24) + draw_items("word.count", 24)
    population = Population.empty(host, 3, 2)
    population.put(0, mend)
    population.put(1, mend)
    population.put(2, mend.scaled(-1.0))  # twice the fault
    listed = {"string.sort": [0, 2], "word.count": [1]}
    asked = []

    def sum_of_halves(slots: Any) -> Any:
        asked.append(sorted(slots))
        return population.joined_by(host, add_up([population.get(slot) for slot in slots], 0.5))

    meter = Meter()
    given = (host, population, selection, listed, ["family", "single"], tmp_path, meter)
    choose_among(*given, decoding=DECODING, add_up=sum_of_halves if summed else None)
    assert chosen(tmp_path, "family") == {"string.sort": 0, "word.count": 1 if summed else 0}  # which is as good
    assert asked == ([[0, 1]] if summed else [])
    everything = read_routes(tmp_path, "single").accuracy[""]
    if summed:  # two halves are one whole
        assert chosen(tmp_path, "single") == {"": 3}
        family = read_routes(tmp_path, "family").accuracy
        assert everything["3"] == pytest.approx((family["string.sort"]["0"] + family["word.count"]["1"]) / 2)
        assert everything["3"] > everything["-1"]
    else:
        assert chosen(tmp_path, "single") in ({"": 0}, {"": 1})
    assert [row["purpose"] for row in meter.rows() if row["flops"]] == ["routing"]


def test_who_leads_by_less_than_two_standard_errors_is_not_added_up() -> None:
    items = [*draw_items("string.sort", 24), *draw_items("word.count", 24)]

    def answers(slot: int, right: Any) -> Any:
        grades = [Grade(float(n in right), n in right, "") for n in range(48)]
        return {
            (slot, n): Outcome(items[n], slot, "", grade, 10, 2, 100, 100, [], True) for n, grade in enumerate(grades)
        }

    given = answers(-1, ()) | answers(0, range(3)) | answers(1, range(24, 29))  # 1.7 and 2.2 standard errors
    listed = {"string.sort": [0], "word.count": [1]}
    assert _ahead(items, listed, given, 1.0) == [1, 0]
    assert _ahead(items, listed, given, PROOF) == [1]


def test_an_adapter_that_changes_nothing_is_flagged_and_leaves_the_choice_to_others(
    faulty: Any, tmp_path: Path
) -> None:
    host, mend = faulty
    population = Population.empty(host, 2, 2)
    population.put(0, mend.scaled(0.0))
    population.put(1, mend)
    given = (host, population, draw_items("string.sort", 24), {"string.sort": [0, 1]}, ["family"], tmp_path, Meter())
    choose_among(*given, decoding=DECODING)
    assert read_routes(tmp_path, "family").no_op == (0,)
    assert chosen(tmp_path, "family") == {"string.sort": 1}


def test_where_nobody_leads_the_host_answers_everything(faulty: Any, tmp_path: Path) -> None:
    host, mend = faulty
    population = Population.empty(host, 1, 2)
    population.put(0, mend.scaled(-1.0))
    given = (host, population, draw_items("string.sort", 12), {"string.sort": [0]}, ["single"], tmp_path, Meter())
    choose_among(*given, decoding=DECODING, add_up=lambda slots: pytest.fail("there is nothing to add up"))
    assert chosen(tmp_path, "single") == {"": -1}
