"""What is wrong with a merge suite is said in one line before anything is computed."""

import dataclasses
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import yaml
from example_suite import suite_id
from tiny_merges import saved, tiny

from evolora_core.engine.stage import HostUse, Suite
from evolora_core.errors import ConfigError
from evolora_core.searches.merging.experiment import MergeExperiment, check
from evolora_core.searches.merging.plan import plan
from evolora_core.searches.registry import load_experiment

FAMILIES = ("code.format", "math", "json_repair")
PLAIN: dict[str, Any] = {
    "search": "merging",
    "name": "m",
    "conditions": ["base", "uniform"],
    "domains": {"code": {"families": ["code.format"]}, "math": {"families": ["math"]}},
    "evaluation": {"comparisons": [{"a": "uniform", "b": "base"}]},
}


def arm(**settings: object) -> dict[str, object]:
    """A suite with one arm of its own."""
    return {"conditions": ["base", "uniform", "far"], "arms": {"far": settings}}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"conditions": ["base", "unifrom"]}, "conditions: 'unifrom' is none of parent-NAME, base"),
        ({"conditions": ["base", "parent-art"]}, "conditions: 'parent-art': the parents are code, math"),
        ({"conditions": ["base", "parent"]}, "'parent' is none of"),
        (
            {"domains": {"code": {"families": ["code.format"]}}},
            "domains: one specialist alone cannot be merged; name two",
        ),
        ({"models": {"one": "x"}}, "models: one model alone cannot be merged"),
        ({"domains": {"code": {"families": ["code.formt"]}, "math": {"families": ["math"]}}}, "domains.code.families"),
        (
            {"domains": PLAIN["domains"] | {"math": {"families": ["math"], "depths": ["short", "long", "short"]}}},
            "'domains.math.depths': short stands twice; keep one",
        ),
        ({"arms": {"cma": {"like": "cma"}}}, "arms: 'cma' is taken"),
        ({"arms": {"far": {"like": "uniform"}}}, "arms.far.like: 'uniform' is none of"),
        ({"arms": {"far": {"like": "cma"}}}, "arms.far: not among the conditions"),
        ({"models": {"base": "x", "other": "y"}}, "models: the name `base` is the host's"),
        (
            {"domains": PLAIN["domains"] | {"base": {"families": ["json_repair"]}}},
            "domains: the name `base` is the host's",
        ),
        ({"models": {"one": "nano-merge", "two": "/nope"}}, "models.two: host '/nope': no such name, folder or GGUF"),
        ({"pretrain": True, "models": {"one": "x", "two": "y"}}, "your own `models` have a base already"),
        ({"evaluation": {"comparisons": [{"a": "uniform", "b": "cma"}]}}, "cma is not among the conditions"),
        ({"evaluation": {"comparisons": [{"a": "base", "b": "base"}]}}, "base with itself"),
        ({"budgt": {"evaluations": 1}}, "unknown key 'budgt'; did you mean 'budget'"),
        ({"law": {}}, "law.first_predicted: there are 2 parents"),
        (
            {"law": {"fitted": 7, "first_predicted": 3}},
            "first_predicted: subsets of 3 are fitted too; name more than 7",
        ),
        ({"law": {"widths": [48, 64, 48]}}, "'law.widths': 48 stands twice; keep one"),
        ({"law": {"methods": ["ties", "ties"]}}, "'law.methods': ties stands twice; keep one"),
        ({"landscape": {"strategies": ["evomrge"]}}, "'evomrge' is none of random, hill-climbing"),
        (
            {"landscape": {"evaluations": 200}},
            "'landscape': read_at: 250 is more than the 200 evaluations of a run",
        ),
        (
            {"models": {"one": "x", "two": "y"}, "specialists": {"steps": 3}},
            "specialists: your own `models` are not trained; leave it out, or compare `multitask` too",
        ),
        (
            {"models": {"one": "x", "two": "y"}, "data": {"train": 64}},
            "data.train: your own `models` are not trained; leave it out, or compare `multitask` too",
        ),
        ({"landscape": {"strategies": ["cma", "cma"]}}, "'landscape.strategies': cma stands twice; keep one"),
        (arm(like="evomerge", space="routes", groups=3), "arms.far.groups: evomerge has no use for it in 'routes'"),
        (arm(like="cma", space="flow", groups=3), "arms.far.groups: cma has no use for it in 'flow'; leave it out"),
        (arm(like="niches", groups=3), "arms.far.groups: niches has no use for it in 'operators'; leave it out"),
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


def test_models_of_a_suite_are_looked_at_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    models = {"one": "owner/not-fetched-yet", "two": str(tmp_path / "empty")}
    path = tmp_path / "suite.yaml"
    path.write_text(yaml.safe_dump(PLAIN | {"models": models}))
    with pytest.raises(ConfigError, match=r"models\.two: host .*empty: no weights .* save_pretrained") as caught:
        load_experiment(path)
    assert "\n" not in str(caught.value)
    saved(tiny(), tmp_path / "empty")
    assert load_experiment(path)


@pytest.mark.parametrize("file", sorted((Path(__file__).parents[3] / "configs" / "suites").glob("merge-*.yaml")))
def test_shipped_suites_load(file: Path) -> None:
    found = load_experiment(file)
    assert isinstance(found, MergeExperiment) and found.name == file.stem


def test_an_arm_has_a_space_of_its_own() -> None:
    found = MergeExperiment.model_validate(PLAIN | arm(like="evomerge", space="smooth", groups=1))
    assert (found.space("far"), found.groups_of("far"), found.kind("far").name) == ("smooth", 1, "evomerge")
    assert found.space("base") == ""
    by_vector = MergeExperiment.model_validate(PLAIN | arm(like="cma", space="operators", groups=3))
    assert by_vector.groups_of("far") == 3


def test_a_landscape_of_too_many_routes_is_refused_before_anything_is_computed(tmp_path: Path) -> None:
    """Thirty layers of two parents are 5^30 routes; the four of the shipped base are 624."""
    deep = str(saved(tiny(num_hidden_layers=30), tmp_path / "deep"))
    for host, refused in ((deep, True), ("nano-merge", False)):
        config = MergeExperiment.model_validate(PLAIN | {"host": host, "landscape": {}})
        suite = Suite(config, suite_id("m-0a1b2c3d"), HostUse(host, "cpu", "float32", 1, "", {}))
        if refused:
            with pytest.raises(ConfigError, match=r"30 layers of 2 parents have 5\^30 routes, and at most 1,000,000"):
                plan(suite)
        else:
            assert any(step.stage.name == "landscape" for step in plan(suite))
            crumbs = MergeExperiment.model_validate(PLAIN | {"host": host, "landscape": {"shards": 700}})
            with pytest.raises(ConfigError, match=r"landscape\.shards: 700 shards for 624 models"):
                plan(dataclasses.replace(suite, config=crumbs))


def test_a_search_among_scales_is_refused_where_weights_cannot_have_them(tmp_path: Path) -> None:
    """Gemma's branches end in a norm, so none of its recipes in `flow` could be measured."""
    for architecture, refused in (("gemma3_text", True), ("qwen3", False)):
        host = str(saved(tiny(architecture), tmp_path / architecture))
        for space in ("flow", "routes"):
            config = MergeExperiment.model_validate(PLAIN | {"host": host} | arm(like="evomerge", space=space))
            suite = Suite(config, suite_id("m-0a1b2c3d"), HostUse(host, "cpu", "float32", 1, "", {}))
            said = (
                r"^arms\.far\.space: scales of gemma3_text layers cannot be .*; take the space `routes`, or a base of "
            )
            with pytest.raises(ConfigError, match=said) if refused and space == "flow" else nullcontext():
                assert plan(suite)


def test_bases_whose_heads_cannot_be_are_refused() -> None:
    """`nano-merge` has four heads, whose rotary positions turn pairs."""
    families = {f"d{number}": {"families": [name]} for number, name in enumerate(FAMILIES)}
    law = {"fitted": 2, "first_predicted": 3}
    for widths, refused in (([48, 64], False), ([48, 52], True), ([0], True)):
        changed = {"host": "nano-merge", "pretrain": True, "domains": families, "law": law | {"widths": widths}}
        config = MergeExperiment.model_validate(PLAIN | changed)
        with pytest.raises(ConfigError, match=f"law.widths: {widths[-1]}: each") if refused else nullcontext():
            check(config)
