"""The recipes and queries of docs/merging.md are taken as they stand, and its tables name everything that there is."""

import re
from pathlib import Path

import yaml
from merge_suite import write_suite

from evolora_core.searches.merging.names import CONTROLS, STRATEGIES
from evolora_core.searches.merging.operators.registry import operators
from evolora_core.searches.merging.recipe_file import load_recipe
from evolora_core.searches.merging.spaces.names import NAMES
from evolora_core.store import query, rebuild

TEXT = (Path(__file__).parents[4] / "docs" / "merging.md").read_text(encoding="utf-8")


def test_the_recipes_are_recipes(tmp_path: Path) -> None:
    blocks = [
        block for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL) if "recipe:" in block
    ]
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        (tmp_path / f"{number}.yaml").write_text(block)
        assert load_recipe(tmp_path / f"{number}.yaml").genome.id


def test_the_queries_are_answered(tmp_path: Path) -> None:
    write_suite(tmp_path, seeds=(0,), conditions=("uniform", "base", "evomerge"), items=4)
    rebuild(tmp_path)
    queries = re.findall(r'^evolora sql "(.*?)"', TEXT, re.MULTILINE)
    assert len(queries) > 5
    for sql in queries:
        assert query(tmp_path, sql).rows, sql


def test_everything_is_named() -> None:
    named = set(re.findall(r"`([\w-]+)`", TEXT))
    assert {*CONTROLS, *STRATEGIES, *operators(), *NAMES} - {"parent"} <= named
    for name, operator in operators().items():
        (row,) = re.findall(rf"^\|[^|]*`{name}`[^|]*\|(.*)\|$", TEXT, re.MULTILINE)
        assert {parameter.name for parameter in operator.parameters} | set(operator.options) == set(
            re.findall(r"`(\w+)`", row)
        ), name
    assert {kind.space for kind in STRATEGIES.values()} <= set(NAMES)
    for kind in STRATEGIES.values():
        (row,) = re.findall(rf"^\| `{kind.name}` \|(.*)\|$", TEXT, re.MULTILINE)
        assert row.split("|")[-1].strip() == f"`{kind.space}`", kind.name


def test_the_arms_of_the_page_are_yaml() -> None:
    (block,) = re.findall(r"^```yaml\n(conditions:.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    assert set(yaml.safe_load(block)) == {"conditions", "arms"}
