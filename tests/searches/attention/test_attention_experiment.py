"""What is wrong with an attention suite is said in one line before anything is computed."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from confinement import confined
from example_suite import suite_id

from evolora_core.engine.stage import StageResult, Suite, Work
from evolora_core.errors import ConfigError
from evolora_core.searches.attention.experiment import AttentionExperiment
from evolora_core.searches.attention.known.registry import KNOWN
from evolora_core.searches.attention.names import STRATEGIES
from evolora_core.searches.attention.plan import plan
from evolora_core.searches.attention.settings import Bounds, Training
from evolora_core.searches.attention.stages.ablate import ABLATE
from evolora_core.searches.attention.stages.mechanism import Mechanism, make
from evolora_core.searches.attention.stages.search import SEARCH
from evolora_core.searches.registry import load_experiment

PLAIN: dict[str, Any] = {
    "search": "attention",
    "name": "a",
    "conditions": ["mha", "rope", "evolution"],
    "sizes": {"measured": ["xs", "s", "m"], "predicted": ["l"]},
    "evaluation": {"contrasts": [{"a": "rope", "b": "mha"}]},
}
MINE = ["mha", "rope", "evolution", "mine"]
FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"budgt": {}}, "unknown key 'budgt'; did you mean 'budget'"),
    ({"training": {"step": 3}}, "unknown key 'training.step'; did you mean 'steps'"),
    ({"framework": "matrix-mixr"}, "'framework'"),
    ({"conditions": ["mha", "rpoe", "rope"]}, "conditions: 'rpoe' is none of "),
    ({"conditions": ["rope", "evolution"], "evaluation": {}}, "conditions: mha, the baseline, has to be among them"),
    ({"conditions": ["mha", "rope", "mha"]}, "conditions: 'mha' stands twice"),
    ({"conditions": MINE, "arms": {"mine": {"like": "rope"}}}, "arms.mine.like: 'rope' is none of "),
    ({"conditions": MINE, "arms": {"mine": {"like": "random", "framework": "none"}}}, "arms.mine.framework"),
    ({"arms": {"rope": {"like": "random"}}}, "arms: 'rope' is taken"),
    ({"arms": {"greedy": {"like": "random"}}}, "arms: 'greedy' is taken"),
    ({"conditions": MINE, "arms": {"mine": {"like": "random"}}, "programs": {"mine": "x"}}, "arms: 'mine' is taken"),
    ({"arms": {"mine": {"like": "random"}}}, "mine: not among the conditions"),
    ({"programs": {"mine": "mine.py"}}, "mine: not among the conditions"),
    ({"programs": {"rope": "mine.py"}}, "programs: 'rope' is taken"),
    ({"programs": {"greedy": "mine.py"}}, "programs: 'greedy' is taken"),
    ({"conditions": MINE, "programs": {"mine": "no-such-file.py"}}, "programs.mine: no-such-file.py is no file"),
    ({"sizes": {"measured": ["s", "xs", "m"]}}, "measured: name each size once, from small to large"),
    ({"sizes": {"measured": ["xs", "s", "s"]}}, "measured: name each size once"),
    ({"sizes": {"measured": ["xs", "huge", "m"]}}, "'huge' is none of xs, s, m"),
    ({"sizes": {"measured": ["xs", "s", "m"], "predicted": ["xl", "l"]}}, "predicted: name each size once"),
    ({"sizes": {"measured": ["xs", "s", "m"], "predicted": ["m"]}}, "predicted: m is not larger than m"),
    (
        {"sizes": {"measured": ["xs", "s", "xxl"], "predicted": ["first-1"]}},
        "predicted: first-1 is not larger than xxl",
    ),
    ({"table": {"sizes": ["xs", "m", "s"]}}, "sizes: name each size once, from small to large"),
    ({"sizes": {"measured": ["xs", "s"], "predicted": []}}, "a search needs three sizes or more"),
    ({"ablation": {"sizes": ["xl"]}}, "ablation.sizes: 'xl' is not among the measured ones"),
    ({"ablation": {"sizes": ["m", "m"]}}, "name each size once"),
    ({"ensemble": {"models": 2, "sizes": ["xl"]}}, "ensemble.sizes: 'xl' is not among the measured ones"),
    ({"ensemble": {"models": 4}}, "ensemble.models: 4 of 3 finalists; raise budget.finalists"),
    ({"ensemble": {"models": 1}}, "one model is no ensemble"),
    ({"ensemble": {"of": ["evolution"]}}, "ensemble.of has no effect with ensemble.models: 0"),
    ({"ablation": {"of": ["rope"]}}, "ablation.of: 'rope' is no search among the conditions"),
    ({"ensemble": {"models": 2, "of": ["greedy"]}}, "ensemble.of: 'greedy' is no search among the conditions"),
    ({"evaluation": {"contrasts": [{"a": "alibi", "b": "mha"}]}}, "alibi is not among the conditions"),
    ({"evaluation": {"contrasts": [{"a": "mha", "b": "mha"}]}}, "mha with itself; compare two conditions"),
    ({"evaluation": {"contrasts": 2 * [{"a": "rope", "b": "mha"}]}}, "rope with mha stands twice; keep one"),
    (
        {"evaluation": {"contrasts": [{"a": "rope", "b": "mha"}, {"a": "mha", "b": "rope"}]}},
        "mha with rope stands twice; keep one",
    ),
    ({"training": {"steps": 10, "warmup": 11}}, "warmup: 11 steps of 10"),
    ({"training": {"rates": [0.1, 0.0]}}, "learning rates are positive"),
    ({"training": {"rates": [0.1, 0.1]}}, "name each learning rate once"),
    ({"training": {"rates": []}}, "rates"),
    ({"budget": {"programs": 3, "finalists": 3, "finalist_seeds": 1}}, "programs: 3 with 1 seeds leave nothing"),
    ({"budget": {"minutes": 0}}, "minutes"),
    ({"corpus": {"held_out": 3}}, "corpus.held_out: 4 texts or more"),
    ({"corpus": {"shares": {"text": 0.5}}}, "they make 0.5 together"),
    ({"corpus": {"shares": {"recall": 1.0}, "source": "tinystories"}}, "source: has no effect without `text`"),
    ({"threads": 2}, "threads: a program is trained by one thread; raise budget.parallel or processes"),
    (
        {"ablation": {"of": ["evolution"]}, "proposer": {"kind": "endpoint"}},
        "ablation.of: 'evolution' has its programs from a model, and they have no genes",
    ),
    ({"conditions": ["mha", "evolution-islands", "rope"], "budget": {"together": 1}}, "`evolution-islands` is `evol"),
    ({"table": {"sizes": ["xs", "s"]}, "budget": {"together": 1}}, "budget.together: with 1 `evolution-islands` is"),
    ({"seeds": [2**60]}, "seeds: 1152921504606846976 is too large"),
]


def loaded(change: dict[str, Any], folder: Path) -> AttentionExperiment:
    """What is read from a file with these settings."""
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(PLAIN | change))
    found = load_experiment(path)
    assert isinstance(found, AttentionExperiment)
    return found


@pytest.mark.parametrize(("change", "fault"), FAULTS, ids=[fault for _, fault in FAULTS])
def test_faults_are_named_in_one_line(
    change: dict[str, Any], fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        loaded(change, tmp_path)
    assert fault in str(caught.value) and "\n" not in str(caught.value)


def test_the_plain_suite_has_no_fault(tmp_path: Path) -> None:
    found = loaded({}, tmp_path)
    assert found.mechanisms == ["mha", "rope"] and found.framework_of("rope") == ""
    assert (found.strategy("evolution"), found.framework_of("evolution")) == ("evolution", "coefficient-dynamics")


def test_two_sizes_are_enough_where_nothing_is_searched(tmp_path: Path) -> None:
    few = {"conditions": ["rope", "mha"], "sizes": {"measured": ["xs", "m"], "predicted": []}}
    assert loaded(few, tmp_path).mechanisms == ["mha", "rope"]  # the baseline comes first


def test_an_arm_has_a_framework_of_its_own(tmp_path: Path) -> None:
    arms = {"mixed": {"like": "greedy", "framework": "matrix-mixer"}, "plain": {"like": "random"}}
    found = loaded({"conditions": ["mha", "rope", "mixed", "plain"], "arms": arms}, tmp_path)
    assert (found.strategy("mixed"), found.framework_of("mixed")) == ("greedy", "matrix-mixer")
    assert (found.strategy("plain"), found.framework_of("plain")) == ("random", "coefficient-dynamics")


def test_what_is_measured_of_searches_that_have_ended_may_be_for_some_of_them(tmp_path: Path) -> None:
    conditions = {"conditions": ["mha", "rope", "evolution", "random"]}
    for of, names in (([], ["evolution", "random"]), (["evolution"], ["evolution"])):
        own = conditions | {"seeds": [0], "ablation": {"of": of}, "ensemble": {"models": 2, "of": of}}
        config = loaded(own, tmp_path)
        steps = [step.name for step in plan(Suite(config, suite_id("a-0a1b2c3d")))]
        for stage in ("ablate", "ensemble"):
            assert [name for name in steps if name.endswith(stage)] == [f"{name}.s0.{stage}" for name in names]


def test_how_many_are_measured_at_a_time_is_no_part_of_what_is_searched(tmp_path: Path) -> None:
    """A finished search is taken over by a suite that measures more at a time; OpenEvolve's depends on the number."""

    def identities(condition: str, parallel: int) -> list[str]:
        conditions = ["mha", "rope", "evolution", "openevolve"]
        config = loaded({"conditions": conditions, "budget": {"parallel": parallel}}, tmp_path)
        suite, done = Suite(config, suite_id("a-0a1b2c3d")), finished_stage()
        asked = SEARCH.request(suite, condition, 0, corpus=done, rates=done, baseline=done)
        without = ABLATE.request(suite, condition, 0, corpus=done, rates=done, chosen=done)
        assert {vars(own.config)["parallel"] for own in (asked, without)} == {parallel}
        return [asked.identity, without.identity]

    assert identities("evolution", 1) == identities("evolution", 2)
    (alone, ablated), (together, still) = identities("openevolve", 1), identities("openevolve", 2)
    assert alone != together and ablated == still


def finished_stage() -> StageResult:
    """What a request needs of a stage before it."""
    return StageResult(
        stage="made", condition="shared", seed=0, folder="", identity="0", seconds=0.0, flops=0, summary={}
    )


@confined
def test_a_program_of_your_own_is_a_mechanism(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(KNOWN["rope"].source)
    found = loaded({"conditions": MINE, "programs": {"mine": str(tmp_path / "mine.py")}}, tmp_path)
    assert found.mechanisms == ["mha", "rope", "mine"]


def test_a_program_that_cannot_be_named_is_refused_before_it_is_trained(tmp_path: Path) -> None:
    """Afterwards all that was measured would be lost."""
    own = Mechanism(
        condition="mine", source="x = 0x" + "f" * 5000, trusted=False, sizes=["xs"], predicted=[], seeds=[0],
        training=Training(), bounds=Bounds(),
    )  # fmt: skip
    work = Work(config=own, seed=0, folder=tmp_path)
    with pytest.raises(ConfigError, match="mine: the program is refused at stage syntax: Python cannot write"):
        make(work)


def test_no_mechanism_is_called_like_a_strategy() -> None:
    assert not set(KNOWN) & set(STRATEGIES)


SHIPPED = sorted((Path(__file__).parents[3] / "configs" / "suites").glob("attention-*.yaml"))


def test_a_quickstart_is_shipped() -> None:
    assert "attention-quickstart.yaml" in {file.name for file in SHIPPED}


@pytest.mark.parametrize("file", SHIPPED, ids=[file.stem for file in SHIPPED])
def test_shipped_suites_load(file: Path) -> None:
    found = load_experiment(file)
    assert isinstance(found, AttentionExperiment) and found.name == file.stem
