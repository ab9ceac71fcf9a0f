"""What a suite of the adapter search says, and what each of its conditions is."""

import re
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, field_validator

from evolora_core.engine.strict import LATER
from evolora_core.language.data import DataConfig
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.registry import full_name, modules_of
from evolora_core.language.tasks.settings import TaskConfig, own_families
from evolora_core.searches.adapters.arms.kinds import KINDS, Kind
from evolora_core.searches.adapters.settings.arms import ArmConfig, changed
from evolora_core.searches.adapters.settings.ecology import EcologyConfig
from evolora_core.searches.adapters.settings.es import EsConfig
from evolora_core.searches.adapters.settings.evaluation import EvaluationConfig
from evolora_core.searches.adapters.settings.examples import ExamplesConfig
from evolora_core.searches.adapters.settings.expert_iteration import ExpertIterationConfig
from evolora_core.searches.adapters.settings.grpo import GrpoConfig
from evolora_core.searches.adapters.settings.sft import SftConfig
from evolora_core.searches.adapters.settings.tuning import CalibrationConfig, TuningConfig
from evolora_core.searches.base import Experiment

Tuned = EcologyConfig | SftConfig | EsConfig | GrpoConfig | ExpertIterationConfig
Section = Tuned | ExamplesConfig
TUNING = "tuning"  # what trials stand under
DEVICE = re.compile(r"cpu|cuda(:[0-9]{1,3})?")


class SuiteSettings(Experiment):
    """The sections of a suite; `consistency` says which of them fit together."""

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

    @property
    def used_families(self) -> set[str]:
        """The families that `data` names."""
        return {*self.data.train_families, *self.data.ood_families, *self.data.retention_families}

    @property
    def own_families(self) -> list[TaskConfig]:
        """The tasks of a user, one for each family."""
        return own_families(self.tasks, self.used_families)

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
