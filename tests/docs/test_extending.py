"""The code of docs/extending.md runs as it stands, block after block, on the shipped host."""

import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from evolora_core.language.families.names import MODULES
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.adapters.arms.foresight import foresee
from evolora_core.searches.adapters.ecology.rules.names import RULES
from evolora_core.searches.adapters.experiment import load_suite
from evolora_core.statistics.inference import Comparison

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
SECTIONS = ["A task family", "A learning rule", "A rival", "A search"]
torch.set_num_threads(1)


def blocks() -> list[tuple[str, int, str]]:
    """(section, line of the page, code) of each Python block, in order."""
    found, section = [], ""
    for match in re.finditer(r"^## ([^\n]+)$|^```python\n(.*?)^```$", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL):
        section = match[1] or section
        if match[2]:
            found.append((section, PAGE.read_text()[: match.start()].count("\n") + 1, match[2]))
    return found


@pytest.fixture(scope="module")
def ran() -> dict[str, Any]:
    """The names that all blocks leave, run as one module. What they register is taken out again."""
    module = ModuleType("extending_page")
    sys.modules[module.__name__] = module  # dataclasses look their module up
    families, rules = dict(MODULES), dict(RULES)
    try:
        for section, line, code in blocks():
            exec(compile("\n" * line + code, f"{PAGE.name} ({section})", "exec"), vars(module))
        return vars(module)
    finally:
        del sys.modules[module.__name__]
        for registry, before in ((MODULES, families), (RULES, rules)):
            registry.clear()
            registry.update(before)  # type: ignore[arg-type]


def test_nano_answers_some_of_the_rows_of_its_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The suite with 300 rows of one's own: where the host is never right, a search learns nothing."""
    monkeypatch.chdir(tmp_path)
    (suite,) = [
        text for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S) if "mine.jsonl" in text
    ]
    row = json.loads(re.findall(r"mine\.jsonl has (\{.*?\})", suite)[0])
    first, second = map(int, re.findall(r"[0-9]+", row["question"]))
    assert row == {"question": f"Compute {first} + {second}.", "answer": str(first + second)}
    sums = [(100 + 3 * place, 10 + place % 90) for place in range(300)]
    rows = [{"question": f"Compute {a} + {b}.", "answer": str(a + b)} for a, b in sums]
    Path("mine.jsonl").write_text("".join(json.dumps(own) + "\n" for own in rows))
    Path("mine.yaml").write_text(suite)
    load_suite("mine.yaml")
    untrained = load_suite("mine.yaml", ["conditions=[frozen]", "evaluation.comparisons=[]"])
    ((own,), _) = foresee(untrained, load_host("nano"), lambda *_: None)
    assert own.rows == 300 and 0.3 < own.accuracy < 0.9


def test_every_kind_of_extension_has_an_example() -> None:
    assert list(dict.fromkeys(section for section, _, _ in blocks())) == SECTIONS


def test_the_family_is_drawn_into_every_split_and_the_host_can_be_asked(ran: dict[str, Any]) -> None:
    train = ran["splits"]["train"]
    assert {item.family for item in train} == {"string.rotate", "string.sort"}
    assert all(len(own) == 100 for own in ran["right"].values())
    prompt, target = ran["draw"](ran["np"].random.default_rng(1), "short")
    assert ran["solution"](target) == ran["solve"](prompt) == target[1:] + target[0]


def test_the_rule_teaches_an_organelle(ran: dict[str, Any]) -> None:
    assert ran["shortest"](3, [(1, 2), (1,), (4, 4, 4)], [True, False, True], ()) == [ran["Memory"](3, (1, 2), 1.0)]
    assert ran["evolved"].generations == 2 and not ran["evolved"].extinct
    assert any(row["delta_norm"] > 0 for row in ran["organelles"])


def test_the_rival_leaves_an_adapter_and_routes_within_its_budget(ran: dict[str, Any]) -> None:
    assert (ran["rival"] / "all" / "adapter" / "adapter_model.safetensors").is_file()
    assert (ran["rival"] / "routes-single.json").is_file()
    assert 0 < ran["luck"].meter.total() <= ran["budget"] and ran["luck"].steps


def test_the_search_is_judged_on_items_that_it_has_not_seen(ran: dict[str, Any]) -> None:
    asked = {item.prompt for item in ran["splits"]["train"]}
    assert not asked & {item.prompt for item in ran["unseen"]}
    assert isinstance(
        ran["compare"]("x", "a", "b", {0: ran["found"]}, {0: ran["average"]}, ran["np"].random.default_rng(0)),
        Comparison,
    )
    assert ran["meter"].flops("selection") > 0
