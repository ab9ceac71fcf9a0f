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
READ_BY = {  # settings that some rules alone read
    "plasticity.calls": {"search"},
    "plasticity.partial_credit": {"search"},
    "plasticity.clip_ratio": {"grpo"},
    "plasticity.kl": {"grpo"},
    "plasticity.hebbian_rate": {"hebbian"},
    "plasticity.trace_decay": {"hebbian"},
    "plasticity.pairs": {"es"},
    "plasticity.sigma": {"es"},
    "plasticity.buffer": {*REMEMBERING},
    "plasticity.cooldown": {*REMEMBERING},
    "plasticity.learning_rate": ADAMW,
    "plasticity.betas": ADAMW,
    "plasticity.weight_decay": ADAMW,
    "plasticity.max_grad_norm": {*REMEMBERING, "grpo", "hebbian"},
    "plasticity.steps": ADAMW | {"hebbian"},
    "plasticity.half_life": ADAMW | {"hebbian"},
    "economy.answer_price": {*REMEMBERING},  # what is sold are memories
}
VARIATION, CONTEST = _under("variation", VariationConfig), _under("contest", ContestConfig)
ASSIMILATION, INHERITANCE = _under("assimilation", AssimilationConfig), _under("inheritance", InheritanceConfig)
OF_BIRTHS = VARIATION - {"variation.births", "variation.trait_sigma"}  # founders' traits are scattered too
OF_PAIRS = ASSIMILATION - {f"assimilation.{key}" for key in ("attempts", "sum_weight", "rehearsal")}
# What one organelle alone has no use for; its items are of no niche, and it owes what it cannot pay
OF_MANY = {"population", "curriculum.focus", "economy.strikes", "economy.cull"} | VARIATION | ASSIMILATION | INHERITANCE
OF_BUYERS = {"economy.answer_price", "economy.ticket"}  # `single` needs no ticket, and where others contend they buy


def unread(section: BaseModel) -> dict[str, str]:
    """Settings of a section, with dots, that no run with these reads, each with the setting that makes it so."""
    found: dict[str, str] = {}
    if isinstance(section, EcologyConfig):
        rule = section.plasticity.rule
        found |= {key: f"plasticity.rule: {rule}" for key, rules in READ_BY.items() if rule not in rules}
        if rule == "search":  # its first answer is greedy, others vary by design
            found["temperature"] = "plasticity.rule: search"
        if section.economy.pool is not None:
            found["economy.break_even_accuracy"] = "economy.pool"
        if section.economy.allocation == "uniform":
            found["curriculum.uniform"] = "economy.allocation: uniform"
        if section.prior.learning_rate:
            found |= dict.fromkeys(("plasticity.learning_rate", "plasticity.hebbian_rate"), "prior.learning_rate")
            if not section.variation.births and not section.assimilation.attempts:
                found["variation.trait_sigma"] = "prior.learning_rate"
        if section.contest.contenders == 1:
            found |= dict.fromkeys(CONTEST - {"contest.contenders"}, "contest.contenders: 1")
        elif section.contest.loser == "retires":
            found |= dict.fromkeys(("contest.alpha", "contest.spread"), "contest.loser: retires")
        if not section.variation.births:
            found |= dict.fromkeys(OF_BIRTHS, "variation.births: 0")
        if "fisher" not in section.assimilation.methods:
            found["assimilation.fisher_rows"] = f"assimilation.methods: [{', '.join(section.assimilation.methods)}]"
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


def unread_by(kind: Kind, section: BaseModel) -> dict[str, str]:
    """Settings of a section that no run of a kind with these reads, as `unread` has them."""
    if not isinstance(section, EcologyConfig):
        return {}
    idle = {"plasticity.single_batch_rows"} if kind.peopled else OF_MANY
    if not kind.peopled and section.contest.contenders == 1:
        idle = idle | OF_BUYERS
    return dict.fromkeys(idle, f"like: {kind.name}")


def check_read(suite: SuiteSettings) -> None:
    """Refuse a setting that a suite gives, other than it is by default, and no run reads. Raises ConfigError.

    What is there for conditions that were left out may stay: `conditions` chooses from what a file has.
    """
    _refuse("evaluation", suite.evaluation.model_dump(exclude_defaults=True), [unread(suite.evaluation)])
    for name in dict.fromkeys(suite.kind(condition).section for condition in suite.trained):
        read = [unread(run) for own in suite.trained if suite.kind(own).section == name for run in _runs(suite, own)]
        _refuse(name, getattr(suite, name).model_dump(exclude_defaults=True), read)
    for name, arm in suite.arms.items():
        kind = suite.kind(name)
        # What the first generations of the others find is not looked at.
        led = {} if name == suite.budget_of else {"unrewarded": f"budget_of: {suite.budget_of}"}
        read = [unread(run) | unread_by(kind, run) | led for run in _runs(suite, name)]
        _refuse(f"arms.{name}.changes", arm.changes, read)


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
