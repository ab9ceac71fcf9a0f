"""What is wrong with a merge suite is said in one line before anything is computed."""

from pathlib import Path

import pytest
import yaml

from evolora_core.errors import ConfigError
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.registry import load_experiment

PLAIN = {
    "search": "merging",
    "name": "m",
    "conditions": ["base", "uniform"],
    "domains": {"code": {"families": ["code.format"]}, "math": {"families": ["math"]}},
    "evaluation": {"comparisons": [{"a": "uniform", "b": "base"}]},
}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"conditions": ["base", "unifrom"]}, "conditions: 'unifrom' is none of parent-NAME, base"),
        ({"conditions": ["base", "parent-art"]}, "conditions: 'parent-art': the parents are code, math"),
        ({"conditions": ["base", "parent"]}, "'parent' is none of"),
        ({"domains": {"code": {"families": ["code.format"]}}}, "one model alone cannot be merged"),
        ({"domains": {"code": {"families": ["code.formt"]}, "math": {"families": ["math"]}}}, "domains.code.families"),
        ({"arms": {"cma": {"like": "cma"}}}, "arms: 'cma' is taken"),
        ({"arms": {"far": {"like": "uniform"}}}, "arms.far.like: 'uniform' is none of"),
        ({"arms": {"far": {"like": "cma"}}}, "arms.far: not among the conditions"),
        ({"models": {"base": "x", "other": "y"}}, "the name `base` is the host's"),
        ({"pretrain": True, "models": {"one": "x", "two": "y"}}, "your own `models` have a base already"),
        ({"evaluation": {"comparisons": [{"a": "uniform", "b": "cma"}]}}, "cma is not among the conditions"),
        ({"evaluation": {"comparisons": [{"a": "base", "b": "base"}]}}, "base with itself"),
        ({"budgt": {"evaluations": 1}}, "unknown key 'budgt'; did you mean 'budget'"),
        ({"law": {}}, "law.first_predicted: there are 2 parents"),
        ({"pretrain_steps": 3}, "pretrain_steps: no base is trained"),
        ({"pretrain": True, "host": "smollm2-135m-q4"}, "smollm2-135m-q4.yaml: key 'pretrain': missing"),
    ],
)
def test_faults_are_named(change: dict[str, object], fault: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(PLAIN | change))
    with pytest.raises(ConfigError) as caught:
        load_experiment(path)
    assert fault in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[3] / "configs" / "suites").glob("merge-*.yaml")))
def test_shipped_suites_load(file: Path) -> None:
    found = load_experiment(file)
    assert isinstance(found, MergeExperiment) and found.name == file.stem


def test_an_arm_has_a_space_of_its_own() -> None:
    own = PLAIN | {"conditions": ["base", "far"], "arms": {"far": {"like": "evomerge", "space": "routes", "groups": 1}}}
    own["evaluation"] = {"comparisons": [{"a": "far", "b": "base"}]}
    found = MergeExperiment.model_validate(own)
    assert (found.space("far"), found.groups_of("far"), found.kind("far").name) == ("routes", 1, "evomerge")
    assert found.space("base") == ""
