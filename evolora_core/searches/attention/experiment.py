"""An attention suite: conditions, each a mechanism or a way to find one, × seeds, ending in one paper pack."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from evolora_core.engine.strict import Strict
from evolora_core.errors import ConfigError
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.names import STRATEGIES
from evolora_core.searches.attention.sandbox.run import refusal
from evolora_core.searches.attention.settings import Ablation, Budget, Framework, Sizes, Training
from evolora_core.searches.base import Experiment

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]


class ArmConfig(Strict):
    """A condition of your own: a strategy in another framework, say."""

    like: str = Field(description="the strategy: " + ", ".join(STRATEGIES))
    framework: Framework | None = Field(None, description="framework whose programs it searches")


class Contrast(Strict):
    """One declared contrast of two conditions, on texts and training seeds that selection never saw."""

    a: str = Field(description="condition whose advantage is tested")
    b: str = Field(description="condition that it is compared with")


class EvaluationConfig(Strict):
    """How conditions are judged at the end."""

    seeds: int = Field(2, ge=1, le=100, description="fresh training seeds, which selection never saw")
    contrasts: list[Contrast] = Field(
        [], max_length=6, description="contrasts, declared before the run; Holm's correction is over them"
    )


class AttentionExperiment(Experiment):
    """A suite of conditions, each an attention mechanism or a search for one, judged by how loss falls with size."""

    search: str = Field("attention", description="what is searched")
    framework: Framework = Field("coefficient-dynamics", description="framework whose programs are searched")
    programs: dict[Name, str] = Field({}, max_length=50, description="program files of your own, by name of condition")
    arms: dict[Name, ArmConfig] = Field({}, description="conditions of your own, by name")
    corpus: CorpusSettings = Field(CorpusSettings(), description="what the models learn from")
    sizes: Sizes = Field(Sizes(), description="sizes of the host model")
    training: Training = Field(Training(), description="how every model is trained")
    budget: Budget = Field(Budget(), description="what every strategy may spend")
    ablation: Ablation = Field(Ablation(), description="the best programs without each of their parts")
    evaluation: EvaluationConfig = Field(EvaluationConfig(), description="how conditions are judged")

    def strategy(self, condition: str) -> str:
        """The strategy of a condition; "" for a mechanism."""
        word = self.arms[condition].like if condition in self.arms else condition
        return word if word in STRATEGIES else ""

    def framework_of(self, condition: str) -> str:
        """The framework that a condition searches; "" for a mechanism."""
        arm = self.arms.get(condition)
        return ((arm.framework if arm else None) or self.framework) if self.strategy(condition) else ""

    @property
    def mechanisms(self) -> list[str]:
        """The conditions that are mechanisms, the baseline first."""
        own = [name for name in self.conditions if not self.strategy(name)]
        return sorted(own, key=lambda name: name != BASELINE)

    @model_validator(mode="after")
    def _fits(self) -> "AttentionExperiment":
        for name, arm in self.arms.items():
            if name in KNOWN or name in STRATEGIES or name in self.programs:
                raise ValueError(f"arms: {name!r} is taken; choose another name")
            if arm.like not in STRATEGIES:
                raise ValueError(f"arms.{name}.like: {arm.like!r} is none of {', '.join(STRATEGIES)}")
        for name in self.programs:
            if name in KNOWN or name in STRATEGIES:
                raise ValueError(f"programs: {name!r} is taken; choose another name")
        for name in [*self.arms, *self.programs]:
            if name not in self.conditions:
                raise ValueError(f"{name}: not among the conditions; add it there or take it out")
        for name in self.conditions:
            if name not in KNOWN and name not in STRATEGIES and name not in self.arms and name not in self.programs:
                known = ", ".join([*KNOWN, *STRATEGIES, *self.arms, *self.programs])
                raise ValueError(f"conditions: {name!r} is none of {known}; define it in `arms` or `programs`")
        if BASELINE not in self.conditions:
            raise ValueError(f"conditions: {BASELINE}, the baseline, has to be among them")
        if any(self.strategy(name) for name in self.conditions) and len(self.sizes.measured) < 3:
            raise ValueError("sizes.measured: a search needs three sizes or more, to predict a larger one")
        if stranger := set(self.ablation.sizes) - set(self.sizes.measured):
            raise ValueError(f"ablation.sizes: {min(stranger)!r} is not among the measured ones")
        declared: set[tuple[str, str]] = set()
        for pair in self.evaluation.contrasts:
            for name in (pair.a, pair.b):
                if name not in self.conditions:
                    raise ValueError(f"evaluation.contrasts: {name} is not among the conditions")
            names = (min(pair.a, pair.b), max(pair.a, pair.b))
            if pair.a == pair.b or names in declared:
                raise ValueError(f"evaluation.contrasts: {pair.a} with {pair.b}; compare two conditions, once")
            declared.add(names)
        return self


def check(config: AttentionExperiment) -> None:
    """Refuse program files that are not there, or that cannot be confined on this machine. Raises ConfigError."""
    for name, path in config.programs.items():
        if not Path(path).is_file():
            raise ConfigError(f"programs.{name}: {path} is no file")
        if why := refusal():
            raise ConfigError(f"programs.{name}: {path} is not run here: {why}")
