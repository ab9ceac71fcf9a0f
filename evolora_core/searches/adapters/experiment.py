"""A suite: conditions × seeds on one host, ending in one paper pack."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from evolora_core.engine.stage import SHARED, WHOLE
from evolora_core.engine.strict import LATER, load_yaml, repeated
from evolora_core.errors import ConfigError
from evolora_core.language.data import DataConfig
from evolora_core.language.datasets import check_rows
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.registry import full_name, modules_of
from evolora_core.language.tasks.own import enter_tasks
from evolora_core.language.tasks.pools import read_pool
from evolora_core.language.tasks.settings import TaskConfig, check_named, own_families
from evolora_core.searches.adapters.arms.kinds import KINDS, Kind
from evolora_core.searches.adapters.evaluation.holdout_files import read_file
from evolora_core.searches.adapters.settings.arms import ArmConfig, changed, leaves
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.es import EsConfig
from evolora_core.searches.adapters.settings.evaluation import EvaluationConfig
from evolora_core.searches.adapters.settings.examples import ExamplesConfig
from evolora_core.searches.adapters.settings.expert_iteration import ExpertIterationConfig
from evolora_core.searches.adapters.settings.grpo import GrpoConfig
from evolora_core.searches.adapters.settings.sft import SftConfig
from evolora_core.searches.adapters.settings.tuning import CalibrationConfig, TuningConfig
from evolora_core.searches.adapters.unread import OF_MANY, unread
from evolora_core.searches.base import Experiment

Tuned = EcologyConfig | SftConfig | EsConfig | GrpoConfig | ExpertIterationConfig
Section = Tuned | ExamplesConfig
TUNING = "tuning"  # what trials stand under
DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,3})?")


class SuiteConfig(Experiment):
    """A suite of conditions, each an arm, with which LoRA adapters on one host are searched for or trained."""

    host: str = Field("nano", min_length=1, max_length=1000, description="host name, hub id, folder or GGUF file")
    device: str = Field("cpu", max_length=100, description="torch device: cpu, cuda or cuda:1")
    dtype: Literal["float32", "bfloat16", "auto"] = Field(
        "float32",
        description="arithmetic of host and adapters; `auto` measures once whether bfloat16 is much faster on the "
        "device, and keeps to the result",
    )
    conditions: list[str] = Field(
        ["frozen", "single", "ecology", "sft"],
        min_length=1,
        max_length=200,
        description="conditions that the suite compares: frozen, single, ecology, sft, examples, es, grpo, "
        "expert-iteration, and those that `arms` defines",
    )
    budget_of: str = Field(
        "ecology",
        max_length=60,
        json_schema_extra=LATER,
        description="condition whose FLOPs, in the run of the same seed, are the budget of all others; it runs for its "
        "own generations",
    )
    arms: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=60)], ArmConfig] = Field(
        {},
        description="conditions of your own, by name; the name `single` (or another kind's) gives that condition "
        "settings of its own",
    )
    tasks: list[TaskConfig] = Field(
        [], max_length=100, json_schema_extra=LATER, description="families of your own, which `data` may name"
    )
    data: DataConfig = Field(description="families and splits")
    decoding: DecodingConfig = Field(DecodingConfig(), description="decoding, the same for every arm")
    ecology: EcologyConfig = Field(
        EcologyConfig(), description="the ecology, and the condition `single`, which has the same rule"
    )
    sft: SftConfig = Field(SftConfig(), description="supervised fine-tuning")
    es: EsConfig = Field(EsConfig(), description="evolution strategies on one adapter")
    grpo: GrpoConfig = Field(GrpoConfig(), description="group relative policy optimisation of one adapter")
    expert_iteration: ExpertIterationConfig = Field(
        ExpertIterationConfig(),
        json_schema_extra=LATER,
        description="expert iteration: one adapter fine-tuned on its own right answers, in rounds",
    )
    examples: ExamplesConfig = Field(
        ExamplesConfig(), json_schema_extra=LATER, description="the bare host with solved examples in its prompt"
    )
    tuning: TuningConfig = Field(TuningConfig(), description="how the trials of each arm are made")
    calibration: CalibrationConfig = Field(CalibrationConfig(), description="what is measured before an ecology is run")
    evaluation: EvaluationConfig = Field(description="routing, holdout files and declared comparisons")

    @field_validator("device")
    @classmethod
    def _known(cls, device: str) -> str:
        if not DEVICE.fullmatch(device):
            raise ValueError("is unknown; use cpu, cuda or cuda:1")
        return device

    @model_validator(mode="after")
    def _fits(self) -> "SuiteConfig":
        if ("reselected" in self.evaluation.routings) != (self.data.reselection_items > 0):
            raise ValueError(
                "data.reselection_items: the router `reselected` chooses on them; have both, or 0 and no such router"
            )
        for key, values in (
            ("tuning.seeds", self.tuning.seeds),
            ("data.depths", self.data.depths),
            ("evaluation.routings", self.evaluation.routings),
            ("evaluation.strengths", self.evaluation.strengths),
        ):
            if (twice := repeated(values)) is not None:
                raise ValueError(f"{key}: {twice!r} stands twice; keep one")
        if reported := set(self.tuning.seeds) & set(self.seeds):
            raise ValueError(f"tuning.seeds: {min(reported)} is also a reported seed; choose another")
        known = list(dict.fromkeys([*KINDS, *self.arms]))
        for condition in self.conditions:
            if condition not in known:
                raise ValueError(f"conditions: {condition!r} is none of {', '.join(known)}; define it in `arms`")
        # A kind may have settings of its own under its own name, but for the one whose section says what it spends.
        own = {name for name, arm in self.arms.items() if name == arm.like != self.budget_of}
        if taken := (set(self.arms) & {*KINDS, SHARED, WHOLE, TUNING}) - own:
            raise ValueError(f"arms: {min(taken)!r} is taken; choose another name")
        if idle := [name for name in self.arms if name not in self.conditions]:
            raise ValueError(f"arms.{idle[0]}: not among the conditions; add it there or take it out here")
        self._check_budget()
        self._check_arrivals()
        for name in self.tuned:
            count = len(self.tuned_settings(name).trials)
            if count != self.trials:
                raise ValueError(
                    f"{name}: {count} trials, but {self.budget_of} has {self.trials}; all arms are tuned alike"
                )
            for trial in range(count):
                self._check_asked_alike(name, trial)
            self._check_peopled(name)
            self._check_heard(name)
        for name in self.trained:
            self._check_remembered(name)
        deaf = [condition for condition in self.conditions if not self.kind(condition).verifier_may_err]
        errors = [self.ecology.verifier_error, *(trial.get("verifier_error", 0) for trial in self.ecology.trials)]
        if any(errors) and deaf:
            raise ValueError(
                f"ecology.verifier_error: {deaf[0]!r} always hears a true verifier; remove {deaf[0]!r}, or let only "
                "conditions like ecology err (arms.NAME.changes)"
            )
        return self

    @model_validator(mode="after")
    def _compares(self) -> "SuiteConfig":
        named = {c for pair in self.evaluation.comparisons for c in (pair.a, pair.b)}
        if absent := sorted(named - set(self.conditions)):
            raise ValueError(f"evaluation.comparisons: {', '.join(absent)} is not among the conditions")
        declared: set[tuple[str, ...]] = set()
        for pair in self.evaluation.comparisons:
            if pair.a == pair.b:
                raise ValueError(f"evaluation.comparisons: {pair.a} with itself; compare two conditions")
            asked = (*sorted((pair.a, pair.b)), pair.split, pair.routing or self.evaluation.routings[0])
            if asked in declared:
                raise ValueError(
                    f"evaluation.comparisons: {pair.a} with {pair.b} on {pair.split} stands twice; keep one"
                )
            declared.add(asked)
            a, b = self.kind(pair.a), self.kind(pair.b)
            if pair.regime and b.name not in a.mapped_against and a.name not in b.mapped_against:
                raise ValueError(
                    f"evaluation.comparisons: the regime {pair.regime!r} compares {pair.a} with {pair.b}; the map asks "
                    "where ecologies win, so one must be like ecology, the other like sft or single"
                )
        routed = {pair.routing for pair in self.evaluation.comparisons} - {None, *self.evaluation.routings}
        if routed:
            raise ValueError(f"evaluation.comparisons: {', '.join(map(str, routed))} is not among the routings")
        return self

    def _check_budget(self) -> None:
        """The condition whose compute is the budget must be there, and end of itself."""
        if not self.trained and self.budget_of == "ecology":
            return
        if self.budget_of not in self.conditions:
            raise ValueError(f"conditions: the others get the FLOPs of {self.budget_of!r}; add it")
        if not self.kind(self.budget_of).leads:
            leaders = ", ".join(name for name, kind in KINDS.items() if kind.leads)
            raise ValueError(
                f"budget_of: {self.budget_of!r} runs until a budget is spent, so it sets none for others; name a "
                f"condition like {leaders}"
            )
        if self.budget(self.budget_of) != 1:
            raise ValueError(f"arms.{self.budget_of}.budget: all budgets are shares of its compute; leave it out")

    def _check_arrivals(self) -> None:
        """Who cannot follow families that come one after another (what is remembered is forgotten when the next one
        arrives), and what has no effect where they do not."""
        arms = [(name, settings) for name in self.trained for settings in self.with_trials(name)]
        if not self.data.arrivals:
            for name, settings in arms:
                inherits = isinstance(settings, EcologyConfig) and settings.inheritance.donor != "host"
                lent = isinstance(settings, SftConfig) and settings.donor_items > 0
                if inherits or lent:
                    key = "inheritance.donor" if inherits else "donor_items"
                    raise ValueError(
                        f"{name}: {key}: has no effect where all families are there at once; set data.arrivals, or "
                        "remove this key"
                    )
            return
        if self.lead.generations < len(self.data.train_families):
            raise ValueError("ecology.generations: with data.arrivals, at least one for each training family")
        for name, settings in arms:
            tried = isinstance(settings, SftConfig) and (settings.contenders > 1 or settings.shots > 0)
            told = isinstance(settings, EcologyConfig) and settings.looks_back
            met = isinstance(settings, EcologyConfig) and settings.contest.contenders > 1  # one is left after the first
            if not self.kind(name).follows_arrivals or tried or told or met:
                raise ValueError(f"conditions: {name!r} cannot follow data.arrivals; take one of them out")
            if isinstance(settings, EcologyConfig) and self.kind(name).peopled and settings.assimilation.attempts:
                raise ValueError(
                    f"{name}: assimilation.attempts: with data.arrivals one niche learns at a time, and there is no "
                    "pair to merge; take it out"
                )

    def _check_asked_alike(self, name: str, trial: int) -> None:
        """All trials of an arm must ask at one temperature, since the bare host's accuracy is measured once for the
        arm.
        """
        own, tried = self.settings(name), self.settings(name, trial)
        asked = [one.practice_temperature for one in (own, tried) if isinstance(one, EcologyConfig)]
        if len(set(asked)) > 1:
            raise ValueError(
                f"{name}: trials.{trial} asks at another temperature than the arm (its temperature or "
                "plasticity.rule); make that a condition of its own in `arms`"
            )

    def _check_peopled(self, name: str) -> None:
        """A population needs a founder for each training family, or a family would never be practised; where they
        contend, as many in each as contend.
        """
        if not self.kind(name).peopled:
            return
        families = len(self.data.train_families)
        for settings in self.with_trials(name):
            if not isinstance(settings, EcologyConfig):
                continue
            if settings.population < families:
                raise ValueError(f"{name}: population {settings.population}: at least one for each training family")
            rivals = settings.contest.contenders
            if rivals > 1 and settings.population < rivals * families:
                raise ValueError(
                    f"{name}: contest.contenders {rivals}: a population of {settings.population} has fewer in each of "
                    f"{families} training families; raise population to {rivals * families}, or have fewer contenders"
                )

    def _check_remembered(self, name: str) -> None:
        """Labels that a founder begins with have to fit its memory, or some would be forgotten at once."""
        families = len(self.data.train_families)
        for own in self.with_trials(name):
            if isinstance(own, EcologyConfig) and own.memory.labels:
                of_each = min(own.memory.labels, -(-self.data.train_items // families))
                given = of_each if self.kind(name).peopled else of_each * families
                if given > own.plasticity.buffer:
                    kept = f"a founder begins with {given} answers and remembers {own.plasticity.buffer}"
                    raise ValueError(f"{name}: memory.labels: {kept}; raise plasticity.buffer, or give fewer labels")

    def _check_heard(self, name: str) -> None:
        """Refuse settings without effect: what every trial replaces, and the generations of an arm with a budget."""
        own = name in self.arms
        section = self.tuned_settings(name)
        place = f"arms.{name}.changes" if own else self.kind(name).section
        given = self.arms[name].changes if own else getattr(self, place).model_dump(exclude_defaults=True)
        if any("generations" in trial for trial in section.trials):
            raise ValueError(f"{place}.trials: generations: no trial changes how long a run is; take it out")
        replaced = set.intersection(*map(leaves, section.trials)) if section.trials else set()
        if dead := sorted(leaves(given) & replaced):
            raise ValueError(f"{place}.{dead[0]}: every trial replaces it; change the trials, or take it out")
        read: list[dict[str, Any]] = []
        for number in range(len(section.trials)):
            tried = self.settings(name, number)
            rule = tried.plasticity.rule if isinstance(tried, EcologyConfig) else getattr(tried, "update", "")
            read.append(tried.model_dump(exclude={"trials": True} | unread(tried, self.kind(name).peopled)))
            if read[number] in read[:number]:
                raise ValueError(
                    f"{place}.trials: {read.index(read[number])} and {number} are the same run: "
                    f"{name!r}{f' by {rule!r}' if rule else ''} reads no setting in which they differ; change one, or "
                    "take one out"
                )
        alone = isinstance(section, EcologyConfig) and not self.kind(name).peopled
        if own and alone and (of_many := sorted(given.keys() & {*OF_MANY})):
            raise ValueError(f"{place}.{of_many[0]}: one organelle alone does not read it; take it out")
        if own and name != self.budget_of and "generations" in given:
            raise ValueError(f"{place}.generations: {name} evolves until its budget is spent; set arms.{name}.budget")

    @model_validator(mode="after")
    def _own_tasks(self) -> "SuiteConfig":
        check_named(self.tasks, self._used, "list of `data`")
        return self

    @property
    def _used(self) -> set[str]:
        return {*self.data.train_families, *self.data.ood_families, *self.data.retention_families}

    @property
    def own_families(self) -> list[TaskConfig]:
        """The tasks of a user, one for each family."""
        return own_families(self.tasks, self._used)

    def modules_of(self, *lists: Sequence[str]) -> list[str]:
        """The modules of families, tasks of a user among them, for the identity of a stage."""
        return modules_of([name for own in lists for name in own], [task.name for task in self.own_families])

    def full_names(self, names: Sequence[str]) -> list[str]:
        """The names that items of these families have."""
        own = {task.name for task in self.own_families}
        return [name if name in own else full_name(name) for name in names]

    def learns_from_gold(self, condition: str) -> bool:
        """Whether a condition, or a trial of it, needs the right answers that items come with."""
        if self.kind(condition).sees_gold:
            return True
        return any(
            (isinstance(own, EcologyConfig) and (own.plasticity.rule == "gold" or own.memory.labels > 0))
            or (isinstance(own, ExpertIterationConfig) and own.labels > 0)
            for own in (self.with_trials(condition) if self.kind(condition).section else [])
        )

    @property
    def trained_routings(self) -> list[str]:
        """The routers that a training stage chooses routes for: all but the one that chooses at the evaluation."""
        return [routing for routing in self.evaluation.routings if routing != "reselected"]

    def kind(self, condition: str) -> Kind:
        """What a condition is at bottom."""
        return KINDS[self.arms[condition].like if condition in self.arms else condition]

    @property
    def trained(self) -> list[str]:
        """The conditions for which something is made, in the order of the suite."""
        return [condition for condition in self.conditions if self.kind(condition).section]

    @property
    def tuned(self) -> list[str]:
        """The conditions for which trials choose the settings."""
        return [condition for condition in self.trained if self.kind(condition).tuned]

    def budget(self, condition: str) -> float:
        """FLOPs that a condition may spend, relative to those of `budget_of`."""
        return self.arms[condition].budget if condition in self.arms else 1.0

    def settings(self, condition: str, trial: int | None = None) -> Section:
        """The section of a condition with its changes, and those of one of its trials."""
        section: Section = getattr(self, self.kind(condition).section)
        if condition in self.arms:
            section = changed(section, self.arms[condition].changes, f"arms.{condition}.changes")
        if trial is None:
            return section
        assert not isinstance(section, ExamplesConfig)
        return changed(section, section.trials[trial], f"{condition}: trials.{trial}")

    def with_trials(self, condition: str) -> list[Section]:
        """The section of a condition with its changes, and the same with those of each of its trials."""
        section = self.settings(condition)
        trials = [] if isinstance(section, ExamplesConfig) else section.trials
        return [section, *(self.settings(condition, trial) for trial in range(len(trials)))]

    def tuned_settings(self, condition: str) -> Tuned:
        """The section of a condition that has trials, with its changes."""
        settings = self.settings(condition)
        assert not isinstance(settings, ExamplesConfig)
        return settings

    @property
    def lead(self) -> EcologyConfig:
        """The settings of the condition whose compute is the budget."""
        settings = self.settings(self.budget_of)
        assert isinstance(settings, EcologyConfig)
        return settings

    @property
    def trials(self) -> int:
        """How many trials each arm is tuned by."""
        return len(self.lead.trials) if self.trained else 0


def load_suite(path: Path | str, overrides: Sequence[str] = ()) -> SuiteConfig:
    """Read the file of an adapter search; `overrides` are dotted settings. Raises ConfigError."""
    suite = load_yaml(Path(path), SuiteConfig, overrides)
    check(suite)
    return suite


def check(suite: SuiteConfig) -> None:
    """Refuse families that do not exist or have too few items, and tasks of a user and holdout files in which something
    is wrong. Raises ConfigError, or DataError where rows are too few.
    """
    unlabelled = enter_tasks(suite.own_families)
    check_rows(suite.data, {task.name: read_pool(task) for task in suite.own_families if task.data is not None})
    for own in suite.evaluation.holdouts:
        read_file(own)
    for condition in suite.conditions:
        if unlabelled & {*suite.data.train_families} and suite.learns_from_gold(condition):
            raise ConfigError(
                f"conditions: {condition!r} learns from right answers, and task {min(unlabelled)!r} has rows without "
                "one; take the condition out, or name a column with answers"
            )
