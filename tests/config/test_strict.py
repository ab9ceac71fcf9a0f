"""Every fault of a config file is one line that names file, line, key and mend."""

from pathlib import Path

import pytest

from evolora_core.config.strict import load_yaml
from evolora_core.config.suite import SuiteConfig, load_suite
from evolora_core.errors import ConfigError

SUITE = (Path(__file__).parents[2] / "configs" / "suites" / "tiny.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("generations: 2", "generatoins: 2", r"suite.yaml:\d+: unknown key 'ecology.generatoins'; did you mean 'gener"),
        (
            "generations: 2",
            "generations: two",
            r"suite.yaml:\d+: key 'ecology.generations': input should be a valid int",
        ),
        ("name: tiny", "nmae: tiny", r"suite.yaml:\d+: unknown key 'nmae'; did you mean 'name'"),
        ("name: tiny\n", "", r"suite.yaml:1: key 'name' is missing; add it"),
        ("b: sft, split", "b: sft, splt", r"unknown key 'evaluation.comparisons.1.splt'; did you mean 'split'"),
        ("b: sft, split: retention", "b: sft, split: retention, routing: cell", r"routing': input should be 'single'"),
        ("host: nano", "host: nano\nhost: other", r"suite.yaml:\d+: key 'host' stands twice; keep one"),
        ("[math, string.sort]", "[math, string.srot]", r"unknown family 'string.srot': did you mean 'string.sort'"),
        ("seeds: [0, 1]", "seeds: [0, 0]", r"each seed may stand once"),
        ("seeds: [0, 1]", "seeds: [0, one]", r"suite.yaml:\d+: key 'seeds.1': input should be a valid integer"),
        ("data:\n", "data: [\n", r"suite.yaml:\d+: not valid YAML"),
    ],
)
def test_a_fault_is_named_with_its_place_and_its_mend(tmp_path, old, new, message):
    path = tmp_path / "suite.yaml"
    assert old in SUITE
    path.write_text(SUITE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_suite(path)
    assert "\n" not in str(caught.value)


def test_a_comparison_under_a_routing_that_is_not_evaluated_is_refused(tmp_path):
    path = tmp_path / "suite.yaml"
    text = SUITE.replace("split: retention}", "split: retention, routing: single}")
    path.write_text(text.replace("evaluation:\n", "evaluation:\n  routings: [family]\n"), encoding="utf-8")
    with pytest.raises(ConfigError, match="single is not among the routings"):
        load_yaml(path, SuiteConfig)
