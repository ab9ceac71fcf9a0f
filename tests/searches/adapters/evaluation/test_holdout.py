import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from random_host import random_host

from evolora_core.engine.meter import Meter
from evolora_core.errors import AdapterError, ConfigError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.base import Item
from evolora_core.lora.answering.grading import answer_items
from evolora_core.lora.answering.outcome import evaluation_rows
from evolora_core.lora.population.peft_io import export_peft
from evolora_core.lora.population.slots import HOST
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.evaluation.holdout import arm_names, evaluate_holdout
from evolora_core.searches.adapters.evolved import Evolved
from evolora_core.searches.adapters.finished import TrainedRun
from evolora_core.searches.adapters.routing.reselected import reselect
from evolora_core.searches.adapters.routing.routes import Routes, route
from evolora_core.statistics.inference import wilson

DECODING = DecodingConfig(max_new_tokens=4, batch_rows=16)


@pytest.fixture(scope="module")
def population(host: Any) -> Any:
    made = Population.empty(host, 3, 2)
    for slot in (0, 2):
        made.init_slot(slot, 2, np.random.default_rng(slot))
        for B in made.B.values():
            B[slot] = 0.2 * (slot + 1)
    return made


@pytest.fixture(scope="module")
def answerable(host: Any, population: Any) -> Any:
    """Items whose target is what slot 2 says, where its answer can be graded as correct; the host says something
    else."""
    prompts = [f"say {i}" for i in range(12)]
    asked = [Item(prompt, "?", "code.format", "short", prompt) for prompt in prompts]
    said = answer_items(host, population, asked, [2] * 12, decoding=DECODING)
    return [Item(o.item.prompt, o.answer.strip(), "code.format", "short", o.item.task_id) for o in said]


def expected(host: Any, population: Any, items: Any, slots: Any) -> Any:
    correct = sum(o.grade.correct for o in answer_items(host, population, items, slots, decoding=DECODING))
    lo, hi = wilson(correct, len(items))
    return {"n": len(items), "correct": correct, "acc": correct / len(items), "lo": lo, "hi": hi}


def test_host_adapters_and_organelles_are_arms(host: Any, population: Any, answerable: Any, tmp_path: Path) -> None:
    export_peft(population.get(0), host, tmp_path / "zero" / "adapter")
    export_peft(population.get(2), host, tmp_path / "two" / "adapter")
    seen = []
    rows = evaluate_holdout(
        host,
        answerable,
        decoding=DECODING,
        adapters=[tmp_path / "zero" / "adapter", tmp_path / "two" / "adapter"],
        evolved=TrainedRun("run", population, {7: 2}),
        organelle=7,
        progress=lambda done, total, text="": seen.append((done, total)),
    )
    assert [row["arm"] for row in rows] == ["base", "zero/adapter", "two/adapter", "run (organelle 7)"]
    for row, slot in zip(rows, (HOST, 0, 2, 2), strict=True):
        assert {key: row[key] for key in ("n", "correct", "acc", "lo", "hi")} == expected(
            host, population, answerable, [slot] * 12
        )
    assert seen[-1] == (48, 48) and seen == sorted(seen)


def test_an_adapter_that_names_another_base_is_warned_about(
    host: Any, population: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings(base: Any, asked: Any) -> list[str]:
        caplog.clear()
        document = json.loads((tmp_path / "adapter_config.json").read_text())
        (tmp_path / "adapter_config.json").write_text(json.dumps(document | {"base_model_name_or_path": base}))
        evaluate_holdout(asked, [], decoding=DECODING, adapters=[tmp_path])
        return [record.getMessage() for record in caplog.records]

    export_peft(population.get(2), host, tmp_path)
    for silent in (host.name, f"somebody/{host.name.upper()}", f"/models/{host.name}/", None):
        assert not warnings(silent, host)
    (said,) = warnings("meta-llama/Llama-3.2-1B", host)
    assert f"base_model_name_or_path is meta-llama/Llama-3.2-1B, the host is {host.name};" in said and "\n" not in said
    described = replace(host, name="smollm2-135m")
    assert not warnings("HuggingFaceTB/SmolLM2-135M-Instruct", described)
    for hostile in ("/" + "a" * 5000, "/a\0b", f"{tmp_path}"):  # the last one holds no model
        assert len(warnings(hostile, host)) == 1


def test_where_the_base_of_an_adapter_lies_on_this_machine_its_weights_decide(
    population: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    host = random_host(tmp_path / "host")
    copy = shutil.copytree(tmp_path / "host", tmp_path / "copy")
    other = shutil.copytree(tmp_path / "host", tmp_path / "elsewhere" / "host")
    weights = (other / "model.safetensors").read_bytes()
    (other / "model.safetensors").write_bytes(weights[:-1] + bytes([weights[-1] ^ 1]))
    for base, warned in ((copy, False), (other, True)):
        caplog.clear()
        export_peft(population.get(2), host, tmp_path / "adapter", str(base))
        evaluate_holdout(host, [], decoding=DECODING, adapters=[tmp_path / "adapter"])
        assert bool(caplog.records) == warned


def test_a_run_answers_by_its_own_routes_or_by_new_ones(host: Any, population: Any, answerable: Any) -> None:
    given = Routes("family", {"code.format": 0})
    own = TrainedRun("run", population, {1: 0, 7: 2}, routes=given, selection_items=answerable)
    (_, row) = evaluate_holdout(host, answerable, decoding=DECODING, evolved=own, routing="family")
    assert row["arm"] == "run (family)"
    assert row["correct"] == expected(host, population, answerable, [0] * 12)["correct"]
    (base, chosen) = evaluate_holdout(host, answerable, decoding=DECODING, evolved=own, routing="single")
    best = max(expected(host, population, answerable, [slot] * 12)["correct"] for slot in (HOST, 0, 2))
    assert chosen["correct"] == best >= base["correct"]
    few = replace(own, shortlist=[0])
    (_, chosen) = evaluate_holdout(host, answerable, decoding=DECODING, evolved=few, routing="single")
    best = max(expected(host, population, answerable, [slot] * 12)["correct"] for slot in (HOST, 0))
    assert chosen["correct"] == best


def test_what_cannot_be_done_is_said(host: Any, population: Any, answerable: Any, tmp_path: Path) -> None:
    run = TrainedRun("run", population, {1: 0})
    with pytest.raises(ConfigError, match="--organelle 9: not alive at the end of run; choose from 1"):
        evaluate_holdout(host, answerable, decoding=DECODING, evolved=run, organelle=9)
    nobody = replace(run, organelles={})  # as of a run that died out, or shows examples
    with pytest.raises(ConfigError, match="--organelle 9: .* end of run; no organelle is, so leave --organelle out"):
        evaluate_holdout(host, answerable, decoding=DECODING, evolved=nobody, organelle=9)
    with pytest.raises(ConfigError, match="organelle 9: not alive at the end of run; no organelle is, so name none"):
        Evolved("run", host, nobody, DECODING, None).asking(9)
    with pytest.raises(ConfigError, match="--routing family: run has no selection items"):
        evaluate_holdout(host, answerable, decoding=DECODING, evolved=run)
    with pytest.raises(AdapterError):
        evaluate_holdout(host, answerable, decoding=DECODING, adapters=[tmp_path / "nothing"])


def test_rows_of_the_table_name_the_organelle(host: Any, population: Any, answerable: Any) -> None:
    outcomes = answer_items(host, population, answerable[:2], [2, HOST], decoding=DECODING)
    rows = evaluation_rows("holdout_id", "ecology", outcomes, {2: 7})
    assert [row["organelle"] for row in rows] == [7, -1]
    columns = "split task_id family depth arm organelle prompt answer score correct reason prompt_tokens answer_tokens"
    assert set(rows[0]) == {*columns.split(), "flops"}


def test_arm_names_are_as_short_as_they_can_be(tmp_path: Path) -> None:
    assert arm_names([]) == []
    assert arm_names([tmp_path / "a"]) == ["a"]
    assert arm_names([tmp_path / "x" / "adapter", tmp_path / "y" / "adapter"]) == ["x/adapter", "y/adapter"]


def test_foreign_families_may_be_chosen_for_anew(host: Any, population: Any, answerable: Any) -> None:
    """Among all adapters that the arm had to choose from, by the usual rule; its own families stay as they were."""
    routes = Routes("family", {"math": 0}, accuracy={"math": {"-1": 0.1, "0": 0.5, "2": 0.2}}, n={"math": 10})
    meter = Meter()
    found = reselect(host, population, routes, answerable, meter, decoding=DECODING)
    assert found.routing == "reselected" and found.table == {"math": 0, "code.format": 2}
    assert route(answerable, found).tolist() == [2] * len(answerable)
    outcomes = [
        o for slot in (HOST, 0, 2) for o in answer_items(host, population, answerable, [slot] * 12, decoding=DECODING)
    ]
    assert meter.flops("evaluation") == meter.total() == sum(outcome.flops for outcome in outcomes)
    nobody = reselect(host, None, Routes("family", {}), answerable, meter, decoding=DECODING)
    assert nobody.table == {"code.format": HOST}
