"""An attention suite: conditions, each a mechanism or a way to find one, × seeds, ending in one paper pack."""

from importlib import metadata
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Strict
from evolora_core.errors import ConfigError
from evolora_core.sandbox.run import refusal
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.names import OPENEVOLVE, SEARCHES
from evolora_core.searches.attention.proposers.settings import ProposerSettings
from evolora_core.searches.attention.settings import Ablation, Budget, Ensemble, Framework, Sizes, Table, Training
from evolora_core.searches.base import Experiment, check_pairs

LARGEST_SEED = 2**53  # with the stride of training seeds it still fits into the store
FEWEST_TEXTS = 4  # two in each half, of which a standard error can be taken
Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]


class ArmConfig(Strict):
    """A condition of your own: a strategy in another framework, say."""

    like: str = Field(description="the strategy: " + ", ".join(SEARCHES))
    framework: Framework | None = Field(None, description="framework whose programs it searches")
    proposer: ProposerSettings | None = Field(
        None, json_schema_extra=LATER, description="who proposes its programs; none: as in the suite"
    )


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
    proposer: ProposerSettings = Field(
        ProposerSettings(), json_schema_extra=LATER, description="who proposes the programs of the strategies"
    )
    ablation: Ablation = Field(Ablation(), description="the best programs without each of their parts")
    ensemble: Ensemble = Field(
        Ensemble(), json_schema_extra=LATER, description="the best programs together, beside one of them as often"
    )
    table: Table | None = Field(
        None,
        json_schema_extra=LATER,
        description="measure every program of a small grammar, and replay strategies on what is known of them",
    )
    evaluation: EvaluationConfig = Field(EvaluationConfig(), description="how conditions are judged")

    def strategy(self, condition: str) -> str:
        """The strategy of a condition; "" for a mechanism."""
        word = self.arms[condition].like if condition in self.arms else condition
        return word if word in SEARCHES else ""

    def framework_of(self, condition: str) -> str:
        """The framework that a condition searches; "" for a mechanism."""
        arm = self.arms.get(condition)
        return ((arm.framework if arm else None) or self.framework) if self.strategy(condition) else ""

    def proposer_of(self, condition: str) -> ProposerSettings | None:
        """Who proposes the programs of a condition; None: the grammar, or nobody."""
        arm = self.arms.get(condition)
        own = (arm.proposer if arm else None) or self.proposer
        return own if self.strategy(condition) and own.kind != "grammar" else None

    def asked(self, condition: str) -> tuple[ProposerSettings | None, str]:
        """Who proposes the programs of a condition, the model named, and the hash of the record that is replayed."""
        own = self.proposer_of(condition)
        if own is None:
            return None, ""
        from evolora_core.engine.artifacts import sha256
        from evolora_core.searches.attention.proposers.making import named

        return named(own), sha256(Path(own.recorded)) if own.recorded else ""

    def trusted(self, condition: str) -> bool:
        """Whether the programs of a condition that is a strategy are all made by this project."""
        return self.proposer_of(condition) is None and self.strategy(condition) != OPENEVOLVE

    @property
    def mechanisms(self) -> list[str]:
        """The conditions that are mechanisms, the baseline first."""
        own = [name for name in self.conditions if not self.strategy(name)]
        return sorted(own, key=lambda name: name != BASELINE)

    @model_validator(mode="after")
    def _fits(self) -> "AttentionExperiment":
        self._check_names()
        self._check_sizes()
        self._check_further()
        check_pairs("evaluation.contrasts", self.evaluation.contrasts, self.conditions)
        return self

    def _check_names(self) -> None:
        """Refuse a condition that nothing defines, a definition of none, and a suite without the baseline."""
        for name, arm in self.arms.items():
            if name in KNOWN or name in SEARCHES or name in self.programs:
                raise ValueError(f"arms: {name!r} is taken; choose another name")
            if arm.like not in SEARCHES:
                raise ValueError(f"arms.{name}.like: {arm.like!r} is none of {', '.join(SEARCHES)}")
        for name in self.programs:
            if name in KNOWN or name in SEARCHES:
                raise ValueError(f"programs: {name!r} is taken; choose another name")
        for name in [*self.arms, *self.programs]:
            if name not in self.conditions:
                raise ValueError(f"{name}: not among the conditions; add it there or take it out")
        for name in self.conditions:
            if name not in KNOWN and name not in SEARCHES and name not in self.arms and name not in self.programs:
                known = ", ".join([*KNOWN, *SEARCHES, *self.arms, *self.programs])
                raise ValueError(f"conditions: {name!r} is none of {known}; define it in `arms` or `programs`")
        for name in self.conditions:
            if self.strategy(name) == OPENEVOLVE and self.proposer_of(name):
                raise ValueError(
                    f"{name}: OpenEvolve is given the grammar alone; say so by an arm with its own proposer"
                )
        if BASELINE not in self.conditions:
            raise ValueError(f"conditions: {BASELINE}, the baseline, has to be among them")

    def _check_sizes(self) -> None:
        """Refuse sizes or texts too few to judge by, and seeds too large."""
        if any(self.strategy(name) for name in self.conditions) and len(self.sizes.measured) < 3:
            raise ValueError("sizes.measured: a search needs three sizes or more, on which the law is fitted")
        if max(self.seeds) >= LARGEST_SEED:
            raise ValueError(
                f"seeds: {max(self.seeds)} is too large; training seeds are made of it, so stay below 2^53"
            )
        if self.corpus.held_out < FEWEST_TEXTS:
            raise ValueError(f"corpus.held_out: {FEWEST_TEXTS} texts or more, half for selection and half for the end")

    def _check_further(self) -> None:
        """Refuse a table, an ablation or an ensemble of what the suite does not measure."""
        if self.table and (stranger := set(self.table.sizes) - set(self.sizes.measured)):
            raise ValueError(f"table.sizes: {min(stranger)!r} is not among the measured ones")
        together = self.ensemble.sizes if self.ensemble.models else []
        ablated = self.ablation.sizes if any(self.strategy(name) for name in self.conditions) else []
        for key, sizes in (("ablation", ablated), ("ensemble", together)):
            if stranger := set(sizes) - set(self.sizes.measured):
                raise ValueError(f"{key}.sizes: {min(stranger)!r} is not among the measured ones")
        for key, further in (("ablation", self.ablation), ("ensemble", self.ensemble)):
            for name in further.of:
                if name not in self.conditions or not self.strategy(name):
                    raise ValueError(f"{key}.of: {name!r} is no search among the conditions")
        if self.ensemble.models > self.budget.finalists:
            raise ValueError(
                f"ensemble.models: {self.ensemble.models} of {self.budget.finalists} finalists; raise budget.finalists"
            )

    @model_validator(mode="after")
    def _all_is_read(self) -> "AttentionExperiment":
        """Refuse settings that would change nothing."""
        if self.threads > 1:
            raise ValueError("threads: a program is trained by one thread; raise budget.parallel or processes")
        if not self.ensemble.models and (given := self.ensemble.model_dump(exclude_defaults=True)):
            raise ValueError(
                f"ensemble.{min(given)} has no effect with ensemble.models: 0; take it out, or change that"
            )
        for name in self.ablation.of:
            if self.proposer_of(name):
                raise ValueError(f"ablation.of: {name!r} has its programs from a model, and they have no genes")
        searched = [*map(self.strategy, self.conditions), *(self.table.strategies if self.table else [])]
        if "evolution-islands" in searched and self.budget.together == 1:  # an island has every other slot
            raise ValueError("budget.together: with 1 `evolution-islands` is `evolution`; raise it")
        return self


def check(config: AttentionExperiment) -> None:
    """Refuse program files that are not there, programs that cannot be confined on this machine, proposers that
    cannot be asked, and corpora that a program of others could know. Raises ConfigError.
    """
    foreign = [name for name in config.conditions if config.strategy(name) and not config.trusted(name)]
    for name in foreign:
        _check_proposer(config, name)
    if foreign := [*foreign, *config.programs]:
        _check_corpus(config, foreign[0])
    for name, path in config.programs.items():
        if not Path(path).is_file():
            raise ConfigError(f"programs.{name}: {path} is no file")
        if why := refusal():
            raise ConfigError(f"programs.{name}: {path} is not run here: {why}")


def _check_corpus(config: AttentionExperiment, condition: str) -> None:
    """Refuse a corpus whose held-out part follows from its seed. What is drawn beside text follows from the held-out
    text as well, which a program cannot read; but for `markov`, whose grammar follows from the seed alone.
    """
    if "text" not in config.corpus.shares or "markov" in config.corpus.shares:
        raise ConfigError(
            f"corpus.shares: {condition} runs programs that others write, which could draw this held-out part again; "
            "give `text` a share and take `markov` out"
        )


def _check_proposer(config: AttentionExperiment, condition: str) -> None:
    """Refuse a condition whose programs come from elsewhere, and cannot be made or run here."""
    from evolora_core.searches.attention.proposers.making import named

    if why := refusal():
        raise ConfigError(f"{condition}: programs that others write are not run here: {why}")
    if settings := config.proposer_of(condition):
        named(settings)
        return
    try:
        version = metadata.version(OPENEVOLVE)
    except metadata.PackageNotFoundError:
        version = "none"
    if not version.startswith("0.4."):
        raise ConfigError(
            f"{condition}: needs OpenEvolve 0.4 and finds {version}; pip install -c constraints.txt -e '.[openevolve]'"
        )
