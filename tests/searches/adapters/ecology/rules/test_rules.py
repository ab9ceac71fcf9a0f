"""Rules are looked up by name, and each says what kind of rule it is."""

import subprocess
import sys
from typing import Any

import pytest
from small_ecologies import founded

from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.ecology.rules.names import RULES
from evolora_core.searches.adapters.ecology.rules.registry import rule
from evolora_core.searches.adapters.settings.ecology import PlasticityConfig


def test_every_rule_of_a_suite_has_a_file_of_its_name() -> None:
    allowed = PlasticityConfig.model_json_schema()["properties"]["rule"]["enum"]
    assert set(allowed) == set(RULES)
    assert all(module == f"evolora_core.searches.adapters.ecology.rules.{name}" for name, module in RULES.items())
    assert all(rule(name).source for name in RULES)


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ConfigError, match="'osmosis' is none of none, reinforce, search"):
        rule("osmosis")


def test_a_run_imports_its_own_rule_and_no_other() -> None:
    code = (
        "import sys; from evolora_core.searches.adapters.ecology import evolve, first_generations; "
        "from evolora_core.searches.adapters.ecology.rules.registry import RULES, rule\n"
        "loaded = lambda: {name for name, module in RULES.items() if module in sys.modules}\n"
        "assert not loaded()\n"
        "for number, name in enumerate(RULES): rule(name); assert loaded() == {*list(RULES)[: number + 1]}, name\n"
    )
    subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)


def test_gold_is_shown_to_the_rule_that_declares_it(small: Any) -> None:
    seen = [name for name in RULES if rule(name).sees_gold]
    assert seen == ["gold"]
    run = founded(small)
    (memory,) = rule("gold").memories(run.task, 3, [])
    assert memory.tokens == run.task.gold_tokens[3]
    cap = run.task.decoding.max_new_tokens
    assert rule("gold").longest(run.task) == max(cap, *map(len, run.task.gold_tokens))
    assert rule("search").longest(run.task) == cap


def test_what_a_row_costs_how_fast_it_learns_and_whether_it_cools() -> None:
    config = PlasticityConfig(pairs=5, learning_rate=0.01, hebbian_rate=2.0, cooldown=0.3)
    assert {name: rule(name).row_cost(config) for name in RULES} == dict.fromkeys(RULES, 2) | {"es": 10, "none": 0}
    assert {name: rule(name).rate(config) for name in RULES} == dict.fromkeys(RULES, 0.01) | {"hebbian": 2.0}
    kept = {name for name in RULES if rule(name).cooldown(config) == 0.3}
    assert kept == {"reinforce", "search", "gold"}
    assert all(rule(name).cooldown(config) == 0 for name in set(RULES) - kept)


def test_only_unaided_answers_are_evidence() -> None:
    answers = [False, False, True]
    assert {name: len(rule(name).evidence(answers)) for name in RULES} == dict.fromkeys(RULES, 3) | {"search": 1}
