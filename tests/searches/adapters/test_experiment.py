"""Every fault of a config file is one line that names file, line, key and mend."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evolora_core.engine.strict import config_hash, load_yaml
from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.experiment import SuiteConfig, load_suite
from evolora_core.searches.registry import load_experiment

SUITES = Path(__file__).parents[3] / "configs" / "suites"
SUITE = (SUITES / "tiny.yaml").read_text(encoding="utf-8")
PILOTS = SUITES.parents[1] / "docs" / "pilots"
SHIPPED = [path for path in SUITES.glob("*.yaml") if not path.name.startswith(("attention-", "merge-"))]


@pytest.mark.parametrize("file", sorted([*SHIPPED, *PILOTS.glob("*.yaml")]), ids=lambda path: path.stem)
def test_every_kept_suite_can_be_read(file: Path) -> None:
    assert load_suite(file).name == file.stem


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
        ("b: sft, split: retention", "b: sft, split: retention, routing: sell", r"routing': input should be 'single'"),
        (
            "b: frozen, split: holdout_id",
            "b: frozen, split: holdout_id, regime: no rival",
            r"regime 'no rival' compares ecology with frozen; the map asks where ecologies win",
        ),
        ("bootstrap: 500", "strengths: [0.5, 0]", r"key 'evaluation.strengths.1': input should be greater than 0"),
        (
            "[family, single, cell, learned]",
            "[family]\n  strengths: [0.5]",
            r"strengths: it is the router `single` that is scaled; add it to the routings",
        ),
        (
            "[math, string.sort]",
            "[math, string.sort, logic.bool, math.sequence, json_repair]",
            r"ecology: population 4: at least one for each training family",
        ),
        ("seeds: [0, 1]", "seeds: [-1]", r"suite.yaml:\d+: key 'seeds.0': input should be greater than or equal to 0"),
        (
            "a: ecology, b: frozen",
            "a: ecology, b: ecology",
            r"comparisons: ecology with itself; compare two conditions",
        ),
        ("b: frozen, split: holdout_id", "b: sft, split: retention", r"ecology with sft on retention stands twice"),
        ("split: retention", "split: retained", r"comparisons: split 'retained' is none of holdout_id, holdout_ood"),
        ("bootstrap: 500", "holdouts: [none.jsonl]", r"evaluation.holdouts: none.jsonl: cannot be read"),
        ("bootstrap: 500", "holdouts: [{file: a.jsonl, itms: 2}]", r"'evaluation.holdouts.0.itms'; did you mean 'ite"),
        ("bootstrap: 500", "holdouts: [{file: a.jsonl, seed: 2}]", r"and all are; add `items`, or take it out"),
        ("bootstrap: 500", "holdouts: [data/train.jsonl]", r"'train' cannot name a split, and its file's name does"),
        ("bootstrap: 500", "holdouts: [a/x.jsonl, b/x.jsonl]", r"holdouts: two files are called 'x'; give one another"),
        ("host: nano", "host: nano\nhost: other", r"suite.yaml:\d+: key 'host' stands twice; keep one"),
        ("[math, string.sort]", "[math, string.srot]", r"unknown family 'string.srot': did you mean 'string.sort'"),
        ("seeds: [0, 1]", "seeds: [0, 0]", r"suite.yaml:[2-9]\d*: seeds: 0 stands twice; keep one"),
        ("seeds: [0, 1]", "seeds: [0, one]", r"suite.yaml:\d+: key 'seeds.1': input should be a valid integer"),
        ("data:\n", "data: [\n", r"suite.yaml:\d+: not valid YAML"),
        ("data:\n", "data:\n\tdepths: [short]\n", r"suite.yaml:\d+: not valid YAML \(a tab; indent with blanks\)"),
        (
            "sft]",
            "stf]",
            r"'stf' is none of frozen, single, ecology, .*, expert-iteration; define it in `arms`",
        ),
        (
            "sft]",
            "sft, quick]\narms:\n  quick: {like: sft, changes: {rnak: 4}}",
            r"arms.quick.changes: unknown key 'rnak'",
        ),
        ("sft]", "sft]\narms:\n  quick: {like: sft}", r"arms.quick: not among the conditions"),
        (
            "sft]",
            "sft, heirs]\narms:\n  heirs: {like: ecology, changes: {inheritance: {donor: best}}}",
            r"heirs: inheritance.donor: has no effect where all families are there at once",
        ),
        (
            "sft]",
            "sft, warm]\narms:\n  warm: {like: sft, changes: {specialists: true, donor_items: 64}}",
            r"warm: donor_items: has no effect where all families are there at once",
        ),
        (
            "sft]",
            "sft, warm]\narms:\n  warm: {like: sft, changes: {donor_items: 64}}",
            r"donor_items: one adapter goes on with its own weights; set specialists",
        ),
        ("sft]", "sft, sft]", r"conditions: 'sft' stands twice"),
        (
            "sft]",
            "sft, main]\nbudget_of: main\narms:\n  main: {like: ecology, budget: 4}",
            r"arms.main.budget: all budgets are shares of its compute; leave it out",
        ),
        ("[family, single, cell, learned]", "[family, single, family]", r"evaluation.routings: 'family' stands twice"),
        ("[math, string.sort]", "[math, string.sort, math]", r"data.train_families: 'math' stands twice; keep one"),
        ("\nsft:\n", "\nsft:\n  betas: [0.9, 1.0]\n", r"key 'sft.betas.1': input should be less than 1"),
        (
            "selection_items: ",
            "selection_items: 3 # ",
            r"data.selection_items: 3 are too few for the families and depth",
        ),
        ("sft]", "sft, quick]\narms:\n  quick: {lik: sft}", r"unknown key 'arms.quick.lik'; did you mean 'like'"),
        (
            "sft]",
            "sft, Quick]\narms:\n  Quick: {like: sft}",
            r"key 'arms.Quick.*beginning with a letter, such as 'quick'",
        ),
        ("sft]", "sft]\narms:\n  single: {like: sft}", r"arms: 'single' is taken"),
        ("sft]", "sft, undecided]\narms:\n  undecided: {like: sft}", r"conditions: 'undecided' is taken"),
        ("sft]", "sft]\narms:\n  ecology: {like: ecology}", r"arms: 'ecology' is taken"),
        (
            "sft]",
            "sft, quick]\narms:\n  quick: {like: sft, changes: {trials: []}}",
            r"quick: 0 trials, but ecology has 2; all arms are tuned alike",
        ),
    ],
)
def test_a_fault_is_named_with_its_place_and_its_mend(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = tmp_path / "suite.yaml"
    assert old in SUITE
    path.write_text(SUITE.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ConfigError, match=message) as caught:
        load_suite(path)
    assert "\n" not in str(caught.value)


def test_a_rule_about_several_keys_names_the_setting_that_broke_it() -> None:
    with pytest.raises(ConfigError, match="^--set seeds: 0 stands twice"):
        load_suite(SUITES / "tiny.yaml", ["processes=1", "seeds=[0, 0]"])


def test_a_comparison_under_a_routing_that_is_not_evaluated_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    text = SUITE.replace("split: retention}", "split: retention, routing: single}")
    path.write_text(text.replace("routings: [family, single, cell, learned]", "routings: [family]"), encoding="utf-8")
    with pytest.raises(ConfigError, match="single is not among the routings"):
        load_yaml(path, SuiteConfig)


def test_a_verifier_errs_for_all_that_learn_from_it_or_for_none() -> None:
    path = SUITES / "rewards.yaml"
    with pytest.raises(ConfigError, match="ecology.verifier_error: 'grpo' always hears a true verifier"):
        load_suite(path, ["ecology.verifier_error=0.1"])


@pytest.mark.parametrize(
    ("suite", "override", "said"),
    [
        (
            "tiny",
            "ecology.trials=[{}, {inheritance: {donor: best}}]",
            "single: inheritance.donor: has no effect where all families are there at once",
        ),
        (
            "tiny",
            "sft.trials=[{}, {specialists: true, donor_items: 8}]",
            "sft: donor_items: has no effect where all families are there at once",
        ),
        (
            "arrivals",
            "ecology.assimilation={attempts: 1}",
            "ecology: assimilation.attempts: with data.arrivals one niche",
        ),
        ("arrivals", "ecology.assimilation={rehearsal: 0.1}", "conditions: 'ecology' cannot follow data.arrivals"),
        (
            "arrivals",
            "sft.trials=[{}, {contenders: 2, prior: {learning_rate: [0.001, 0.1]}}, {rank: 2}]",
            "conditions: 'sft' cannot follow data.arrivals",
        ),
        ("arrivals", "sft.shots=4", "conditions: 'sft' cannot follow data.arrivals"),
        (
            "labels",
            "ecology.plasticity.buffer=100",
            "single-128: memory.labels: a founder begins with 128 answers of a family and remembers 100; raise ",
        ),
        (
            "rewards",
            "ecology.trials=[{}, {verifier_error: 0.1}, {samples: 3}, {ranks: [4]}]",
            "ecology.verifier_error: 'grpo' always hears a true verifier",
        ),
        (
            "tiny",
            "ecology.trials=[{}, {contest: {contenders: 3}}]",
            "ecology: contest.contenders 3: a population of 4 has fewer in each of 2 training families; raise "
            "population to 6",
        ),
    ],
)
def test_what_a_suite_may_not_ask_for_no_trial_may(suite: str, override: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_suite(SUITES / f"{suite}.yaml", [override])


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["ecology.contest.contenders=3"], "contest.contenders 3: a population of 4 has fewer"),
        (["ecology.contest.contenders=17"], "episodes must be at least contest.contenders × samples"),
        (["ecology.samples=1", "ecology.plasticity.rule=reinforce"], "samples: the rule reinforce learns from how"),
        (["ecology.samples=1", "ecology.plasticity.rule=grpo"], "samples: the rule grpo learns from how"),
        (
            ["ecology.memory.shown=2", "ecology.plasticity.calls=1"],
            "memory.shown: with plasticity.calls: 1 an item is asked once, which is without examples",
        ),
    ],
)
def test_settings_that_could_have_no_effect_together_are_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        load_suite(SUITES / "tiny.yaml", overrides)


def test_a_rule_without_memories_cannot_merge_by_what_is_remembered() -> None:
    path = SUITES / "tiny.yaml"
    with pytest.raises(ConfigError, match="fisher measures on remembered answers, and the rule es remembers none"):
        load_suite(path, ["ecology.plasticity.rule=es", "ecology.assimilation.methods=[fisher]"])


def test_an_arm_that_practises_at_another_temperature_is_calibrated_by_itself() -> None:
    from evolora_core.searches.adapters.stages.price import stage_name

    config = load_suite(SUITES / "ablations.yaml")
    suite: Any = SimpleNamespace(config=config)
    own = {arm for arm in config.conditions if arm != "frozen" and stage_name(suite, arm) != "price"}
    assert own == {"reinforce", "grpo-rule", "hebbian", "es-rule", "gold"}
    assert stage_name(suite, "gold") == "price-gold"
    trial = "ecology.trials=[{plasticity: {rule: reinforce}}]"
    with pytest.raises(ConfigError, match=r"ecology: trials.0 asks at another temperature than the arm"):
        load_suite(SUITES / "ablations.yaml", [trial])


def test_an_arm_is_another_with_its_changes(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    arms = """sft, lone, long]
arms:
  lone: {like: ecology, budget: 0.5, changes: {assimilation: {attempts: 0}}}
  long: {like: sft, budget: 2, changes: {rank: 4}}
"""
    path.write_text(SUITE.replace("sft]\n", arms, 1), encoding="utf-8")
    suite = load_yaml(path, SuiteConfig)
    assert suite.kind("lone").name == "ecology" and suite.budget("lone") == 0.5 and suite.budget("sft") == 1
    settings: Callable[..., Any] = suite.settings
    lone = settings("lone")
    assert lone.assimilation == suite.ecology.assimilation.model_copy(update={"attempts": 0})
    assert lone.plasticity == suite.ecology.plasticity
    assert settings("lone", 1).plasticity.learning_rate == 0.004
    assert settings("long").rank == 4 and settings("sft") == suite.sft


def test_a_suite_may_have_an_arm_that_stays_near_the_host(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    arms = "sft, sft-kl]\narms:\n  sft-kl: {like: sft, changes: {kl: 0.1}}\n"
    path.write_text(SUITE.replace("sft]\n", arms, 1), encoding="utf-8")
    suite = load_yaml(path, SuiteConfig)
    assert suite.kind("sft-kl").name == "sft"
    settings: Callable[..., Any] = suite.settings
    assert settings("sft-kl") == suite.sft.model_copy(update={"kl": 0.1}) and suite.sft.kl == 0
    assert [settings("sft-kl", trial).kl for trial in range(suite.trials)] == [0.1] * suite.trials


@pytest.mark.parametrize(("arm", "rate"), [("ecology", 0.001), ("single", 0.002), ("sft", 0.004)])
def test_the_quickstart_differs_from_the_suite_that_tuned_its_rates_in_trials_alone(arm: str, rate: float) -> None:
    """The rates are those that its fifth run chose, on seeds 1000 and 1001 as each. `single` has one of its own."""
    suite, tuned = load_suite(SUITES / "quickstart.yaml"), load_suite(SUITES / "evo-vs-sft.yaml")
    assert suite.trials == 0 and suite.kind("single").name == "single"
    tried: list[Any] = [tuned.settings(arm, number) for number in range(tuned.trials)]
    (there,) = [own for own in tried if rate in (getattr(own, "learning_rate", 0), _rate(own))]
    assert suite.settings(arm) == there.model_copy(update={"trials": []})


def _rate(settings: Any) -> float:
    """Of an evolution."""
    return float(settings.plasticity.learning_rate) if hasattr(settings, "plasticity") else 0.0


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ("ecology.population=1", "--set ecology.population: key 'ecology.population': "),
        ("ecology.plasticity={rule: none, steps: -1}", "--set ecology.plasticity: key 'ecology.plasticity.steps': "),
        ("data.train_families=[string.srt]", "--set data.train_families: unknown family 'string.srt': did you mean"),
        ("conditions=[frozen, ecolgy]", "--set conditions: 'ecolgy' is none of frozen, single, ecology, sft, "),
    ],
)
def test_an_overridden_key_is_a_fault_of_the_override(tmp_path: Path, override: str, place: str) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE, encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^{re.escape(place)}"):
        load_experiment(path, [override])


def test_a_rule_about_a_section_names_the_file_and_the_overrides_below_it(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE, encoding="utf-8")
    with pytest.raises(
        ConfigError,
        match=r"suite.yaml:\d+ with --set ecology.memory.shown, --set ecology.plasticity.rule: key 'ecology': memory.s",
    ):
        load_suite(path, ["ecology.memory.shown=2", "ecology.plasticity.rule=none", "host=nano"])


@pytest.mark.parametrize(
    ("override", "fault"),
    [
        ("sft.learning_rate=0.01", "sft.learning_rate: every trial replaces it"),
        (
            "ecology.plasticity.rule=hebbian",
            "ecology.trials: 0 and 1 are the same run: 'single' by 'hebbian' reads no setting in which they differ",
        ),
        (
            "es={update: best, trials: [{learning_rate: 0.1}, {learning_rate: 0.2}]}",
            "es.trials: 0 and 1 are the same run: 'es' by 'best' reads no setting in which they differ",
        ),
        (
            "ecology.trials=[{variation: {births: 1}}, {variation: {births: 2}}]",
            "ecology.trials: 0 and 1 are the same run: 'single' by 'search' reads no setting in which they differ",
        ),
        (
            "ecology.trials=[{plasticity: {clip_ratio: 0.1}}, {plasticity: {clip_ratio: 0.3}}]",
            "ecology.trials: 0 and 1 are the same run: 'single' by 'search' reads no setting in which they differ",
        ),
        (
            "ecology.trials=[{plasticity: {kl: 0.0}}, {plasticity: {kl: 0.5}}]",
            "ecology.trials: 0 and 1 are the same run",
        ),
        ("ecology.trials=[{temperature: 0.5}, {temperature: 0.9}]", "ecology.trials: 0 and 1 are the same run"),
        (
            "arms={lone: {like: single, changes: {variation: {births: 0}}}}",
            "arms.lone.changes.variation.births: has no effect with like: single; take it out, or change that",
        ),
        (
            "arms={lone: {like: single, changes: {economy: {cull: lots}}}}",
            "arms.lone.changes.economy.cull: has no effect with like: single",
        ),
        ("ecology.contest.ends=4", "ecology.contest.ends: has no effect with contest.contenders: 1; take it out, or"),
        (
            "ecology.contest={contenders: 2, alpha: 0.1}",
            "ecology.contest.alpha: has no effect with contest.loser: reti",
        ),
        ("ecology.plasticity.kl=0.5", "ecology.plasticity.kl: has no effect with plasticity.rule: search"),
        ("ecology.temperature=0.5", "ecology.temperature: has no effect with plasticity.rule: search"),
        (
            "ecology.trials=[{}, {plasticity: {pairs: 4, learning_rate: 0.1}}]",
            "ecology.trials: plasticity.pairs has no effect with plasticity.rule: search",
        ),
        (
            "ecology.variation={births: 0, sigma: 0.1}",
            "ecology.variation.sigma: has no effect with variation.births: 0",
        ),
        ("ecology.assimilation.attempts=0", "ecology.assimilation.every: has no effect with assimilation.attempts: 0"),
        ("ecology.memory.chosen=drawn", "ecology.memory.chosen: has no effect with memory.shown: 0"),
        ("sft.sum_weight=0.5", "sft.sum_weight: has no effect with specialists: false"),
        (
            "arms={lone: {like: sft, changes: {prior: {learning_rate: [0.001, 0.1]}, learning_rate: 0.1, trials: "
            "[{rank: 2}, {rank: 4}]}}}",
            "arms.lone.changes.learning_rate: has no effect with prior.learning_rate",
        ),
        (
            "arms={lone: {like: ecology, changes: {plasticity: {single_batch_rows: 8}}}}",
            "arms.lone.changes.plasticity.single_batch_rows: has no effect with like: ecology",
        ),
        (
            "arms={lone: {like: ecology, changes: {unrewarded: go_on}}}",
            "arms.lone.changes.unrewarded: has no effect with budget_of: ecology",
        ),
        (
            "ecology.economy={pool: 500, break_even_accuracy: 0.1}",
            "ecology.economy.break_even_accuracy: has no effect with economy.pool",
        ),
        (
            "arms={lone: {like: ecology, changes: {economy: {allocation: uniform}, curriculum: {uniform: 0.5}}}}",
            "arms.lone.changes.curriculum.uniform: has no effect with economy.allocation: uniform",
        ),
        (
            "arms={lone: {like: ecology, changes: {plasticity: {rule: grpo}, economy: {answer_price: 3}}}}",
            "arms.lone.changes.economy.answer_price: has no effect with plasticity.rule: grpo",
        ),
        (
            "arms={lone: {like: single, changes: {economy: {answer_price: 3}}}}",
            "arms.lone.changes.economy.answer_price: has no effect with like: single",
        ),
        (
            "arms={lone: {like: single, changes: {economy: {ticket: 0}}}}",
            "arms.lone.changes.economy.ticket: has no effect with like: single",
        ),
        (
            "ecology.assimilation={attempts: 1, methods: [ties, dare], fisher_rows: 8}",
            r"ecology.assimilation.fisher_rows: has no effect with assimilation.methods: \[ties, dare\]",
        ),
        (
            "arms={lone: {like: ecology, changes: {prior: {learning_rate: [0.001, 0.1]}, assimilation: {attempts: 0}, "
            "variation: {births: 0, trait_sigma: 0.2}, trials: [{economy: {ticket: 1}}, {economy: {ticket: 2}}]}}}",
            "arms.lone.changes.variation.trait_sigma: has no effect with prior.learning_rate",
        ),
        ("evaluation.frontier_items=64", r"evaluation.frontier_items: has no effect with strengths: \[\]"),
        ("evaluation.strengths=[1.0]", "evaluation.strengths: 1 is always among them; name others, or none"),
        ("ecology.plasticity.learning_rate=0.01", "ecology.plasticity.learning_rate: every trial replaces it"),
        ("ecology.trials=[{generations: 2}, {generations: 4}]", "ecology.trials: generations: no trial changes"),
        ("arms={lone: {like: sft, changes: {learning_rate: 0.1}}}", "arms.lone.changes.learning_rate: every trial"),
        (
            "arms={lone: {like: ecology, changes: {generations: 9}}}",
            "evolves until its budget is spent; set arms.",
        ),
    ],
)
def test_a_setting_that_would_have_no_effect_is_refused(tmp_path: Path, override: str, fault: str) -> None:
    path = tmp_path / "suite.yaml"
    further = next((name for name in ("lone", "es") if override.startswith(f"{name}=") or f"{{{name}:" in override), "")
    path.write_text(SUITE.replace("sft]\n", f"sft, {further}]\n", 1) if further else SUITE, encoding="utf-8")
    with pytest.raises(ConfigError, match=fault):
        load_suite(path, [override])
    free = "arms={lone: {like: sft, changes: {learning_rate: 0.1, trials: [{rank: 2}, {rank: 4}]}}}"
    if "lone: {like: sft" in override:
        settings: Any = load_suite(path, [free]).settings("lone", 1)
        assert settings.learning_rate == 0.1


@pytest.mark.parametrize(
    "overrides",
    [
        ["arms={lone: {like: ecology, changes: {plasticity: {rule: reinforce}}}}", "ecology.temperature=0.5"],
        ["arms={lone: {like: single}}", "ecology.plasticity.single_batch_rows=8", "conditions=[frozen, ecology, lone]"],
        ["ecology.plasticity.single_batch_rows=8", "conditions=[frozen, ecology]"],
        ["ecology.trials=[{}, {contest: {contenders: 2}}]", "ecology.contest.items=64"],
        ["conditions=[frozen]"],
    ],
)
def test_what_one_run_reads_or_a_condition_that_was_left_out_would_is_accepted(
    tmp_path: Path, overrides: list[str]
) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(SUITE.replace("sft]\n", "sft, lone]\n", 1) if "lone" in overrides[0] else SUITE, encoding="utf-8")
    assert load_suite(path, [*overrides, "evaluation.comparisons=[]"]).name == "tiny"


def test_a_small_rate_is_a_number_in_a_file_a_setting_and_what_is_written_of_them(tmp_path: Path) -> None:
    path, resolved = tmp_path / "suite.yaml", tmp_path / "suite.json"
    path.write_text(SUITE.replace("{learning_rate: 0.001}", "{learning_rate: 5e-5}"), encoding="utf-8")
    suite = load_suite(path, ["grpo.trials=[{learning_rate: 2E-5}, {learning_rate: .5e-4}]"])
    assert suite.sft.trials[0] == {"learning_rate": 0.00005}
    assert [trial["learning_rate"] for trial in suite.grpo.trials] == [0.00002, 0.00005]
    resolved.write_text(json.dumps(suite.model_dump(mode="json")), encoding="utf-8")
    assert config_hash(load_suite(resolved)) == config_hash(suite)


def test_what_we_wrote_is_read_as_json(tmp_path: Path) -> None:
    """YAML takes the escapes of a character beyond the first plane for two halves."""
    path = tmp_path / "suite.json"
    suite = load_suite(SUITES / "tiny.yaml", ['decoding.stop_strings=["\U0001f600"]'])
    path.write_text(json.dumps(suite.model_dump(mode="json")), encoding="utf-8")
    assert load_suite(path) == suite
    path.write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"suite.json:1: not valid JSON .*run the suite's file again"):
        load_suite(path)


def test_a_day_that_no_calendar_has_is_no_value() -> None:
    with pytest.raises(ConfigError, match="--set host=2024-13-45: the value is not valid YAML"):
        load_suite(SUITES / "tiny.yaml", ["host=2024-13-45"])


def test_a_data_set_is_not_taken_for_a_suite() -> None:
    with pytest.raises(ConfigError, match=r"rounded.csv: settings are in a file that ends in .yaml; a data set or"):
        load_suite(SUITES.parent / "tasks/rounded.csv")
