"""Settings that a run does not read beside its others. Given in a suite they are refused, and trials that differ in
nothing else are one run.
"""

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from evolora_core.engine.strict import Changes
from evolora_core.errors import ConfigError
from evolora_core.searches.adapters.arms.kinds import Kind
from evolora_core.searches.adapters.settings.arms import leaves
from evolora_core.searches.adapters.settings.assimilation import AssimilationConfig
from evolora_core.searches.adapters.settings.contest import ContestConfig
from evolora_core.searches.adapters.settings.ecology import REMEMBERING, EcologyConfig, VariationConfig
from evolora_core.searches.adapters.settings.es import EsConfig
from evolora_core.searches.adapters.settings.evaluation import EvaluationConfig
from evolora_core.searches.adapters.settings.inheritance import InheritanceConfig
from evolora_core.searches.adapters.settings.sft import SftConfig
from evolora_core.searches.adapters.settings.suite import SuiteSettings


def _under(name: str, section: type[BaseModel]) -> set[str]:
    """The settings of a section within another, with dots."""
    return {f"{name}.{field}" for field in section.model_fields}


ADAMW = {*REMEMBERING, "grpo", "es"}  # rules whose steps are AdamW's
READ_BY = {  # settings of `plasticity` that some rules alone read
    "calls": {"search"},
    "partial_credit": {"search"},
    "clip_ratio": {"grpo"},
    "kl": {"grpo"},
    "hebbian_rate": {"hebbian"},
    "trace_decay": {"hebbian"},
    "pairs": {"es"},
    "sigma": {"es"},
    "buffer": {*REMEMBERING},
    "cooldown": {*REMEMBERING},
    "learning_rate": ADAMW,
    "betas": ADAMW,
    "weight_decay": ADAMW,
    "max_grad_norm": {*REMEMBERING, "grpo", "hebbian"},
    "steps": ADAMW | {"hebbian"},
    "half_life": ADAMW | {"hebbian"},
}
VARIATION, CONTEST = _under("variation", VariationConfig), _under("contest", ContestConfig)
ASSIMILATION, INHERITANCE = _under("assimilation", AssimilationConfig), _under("inheritance", InheritanceConfig)
OF_BIRTHS = VARIATION - {"variation.births", "variation.trait_sigma"}  # founders' traits are scattered too
OF_PAIRS = ASSIMILATION - {f"assimilation.{key}" for key in ("attempts", "sum_weight", "rehearsal")}
# What one organelle alone has no use for; its items are of no niche, and it owes what it cannot pay
OF_MANY = {"population", "curriculum.focus", "economy.strikes", "economy.cull"} | VARIATION | ASSIMILATION | INHERITANCE


def unread(section: BaseModel) -> dict[str, str]:
    """Settings of a section, with dots, that no run with these reads, each with the setting that makes it so."""
    found: dict[str, str] = {}
    if isinstance(section, EcologyConfig):
        rule = section.plasticity.rule
        of_others = {f"plasticity.{key}" for key, rules in READ_BY.items() if rule not in rules}
        # The first answer of `search` is greedy, others vary by design.
        found |= dict.fromkeys(of_others | ({"temperature"} if rule == "search" else set()), f"plasticity.rule: {rule}")
        if section.prior.learning_rate:
            found |= dict.fromkeys(("plasticity.learning_rate", "plasticity.hebbian_rate"), "prior.learning_rate")
        if section.contest.contenders == 1:
            found |= dict.fromkeys(CONTEST - {"contest.contenders"}, "contest.contenders: 1")
        elif section.contest.loser == "retires":
            found |= dict.fromkeys(("contest.alpha", "contest.spread"), "contest.loser: retires")
        if not section.variation.births:
            found |= dict.fromkeys(OF_BIRTHS, "variation.births: 0")
        if not section.assimilation.attempts:
            found |= dict.fromkeys(OF_PAIRS, "assimilation.attempts: 0")
        if section.inheritance.donor != "best":
            found["inheritance.items"] = f"inheritance.donor: {section.inheritance.donor}"
        if not section.memory.shown:
            found["memory.chosen"] = "memory.shown: 0"
    elif isinstance(section, SftConfig):
        if section.prior.learning_rate:
            found["learning_rate"] = "prior.learning_rate"
        if not section.specialists or section.shots:
            found["sum_weight"] = f"shots: {section.shots}" if section.specialists else "specialists: false"
    elif isinstance(section, EsConfig) and section.update == "best":
        found["learning_rate"] = "update: best"
    elif isinstance(section, EvaluationConfig) and not section.strengths:
        found["frontier_items"] = "strengths: []"
    return found


def unread_by(kind: Kind) -> dict[str, str]:
    """Settings of its section that no run of a kind reads, as `unread` has them."""
    if kind.section != "ecology":
        return {}
    return dict.fromkeys({"plasticity.single_batch_rows"} if kind.peopled else OF_MANY, f"like: {kind.name}")


def check_read(suite: SuiteSettings) -> None:
    """Refuse a setting that a suite gives, other than it is by default, and no run reads. Raises ConfigError.

    What is there for conditions that were left out may stay: `conditions` chooses from what a file has.
    """
    _refuse("evaluation", suite.evaluation.model_dump(exclude_defaults=True), [unread(suite.evaluation)])
    for name in dict.fromkeys(suite.kind(condition).section for condition in suite.trained):
        read = [unread(run) for own in suite.trained if suite.kind(own).section == name for run in _runs(suite, own)]
        _refuse(name, getattr(suite, name).model_dump(exclude_defaults=True), read)
    for name, arm in suite.arms.items():
        alone = unread_by(suite.kind(name))
        if name != suite.budget_of:  # what the first generations of the others find is not looked at
            alone |= {"unrewarded": f"budget_of: {suite.budget_of}"}
        _refuse(f"arms.{name}.changes", arm.changes, [unread(run) | alone for run in _runs(suite, name)])


def _runs(suite: SuiteSettings, condition: str) -> Sequence[Any]:
    """The settings of a condition's runs: of its trials, or its own where it has none."""
    own, *trials = suite.with_trials(condition)
    return trials or [own]


def _refuse(place: str, given: Changes, runs: Sequence[dict[str, str]]) -> None:
    """Refuse the first setting given at a place, or in trials there, that none of the runs reads."""
    plain = leaves(given)
    for key in sorted({*plain}.union(*map(leaves, given.get("trials", [])))):
        if all(key in unread_there for unread_there in runs):
            where = f"{place}.{key}:" if key in plain else f"{place}.trials: {key}"
            raise ConfigError(f"{where} has no effect with {runs[0][key]}; take it out, or change that")
