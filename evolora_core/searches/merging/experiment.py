"""A merge suite: conditions × seeds over the models of one base, ending in one paper pack."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from evolora_core.engine.strict import LATER, Strict
from evolora_core.errors import ConfigError, HostError
from evolora_core.language.decoding import DecodingConfig
from evolora_core.language.families.registry import get as get_family
from evolora_core.language.families.registry import modules_of
from evolora_core.language.hosts.pretrain_config import pretrain_config
from evolora_core.language.tasks.own import enter_tasks
from evolora_core.language.tasks.pools import read_pools
from evolora_core.language.tasks.settings import TaskConfig, check_named, own_families
from evolora_core.searches.base import Experiment, check_pairs
from evolora_core.searches.merging.names import CONTROLS, PARENT, STRATEGIES, Kind, kind_of
from evolora_core.searches.merging.settings import Budget, DataSettings, Domain, FineTuning, Gradients, Landscape, Law

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=40)]


class ArmConfig(Strict):
    """A condition of your own: a strategy on another space, say."""

    like: str = Field(description="the kind of condition: " + ", ".join(STRATEGIES) + ", adam")
    space: Literal["smooth", "operators", "routes", "flow"] | None = Field(None, description="space of recipes")
    groups: int | None = Field(None, ge=1, le=64, description="groups of layers, in the place of the suite's `groups`")


class ComparisonConfig(Strict):
    """One declared comparison of two conditions on the sealed test."""

    a: str = Field(description="condition whose advantage is tested")
    b: str = Field(description="condition that it is compared with")
    split: Literal["test"] = Field("test", description="always the sealed test")
    margin: float | None = Field(None, gt=0, lt=1, description="test that `a` is not worse by more than this instead")
    routing: None = None
    regime: None = None


class EvaluationConfig(Strict):
    """The declared comparisons."""

    comparisons: list[ComparisonConfig] = Field(
        min_length=1, max_length=6, description="comparisons, declared before the run; Holm's correction is over them"
    )
    bootstrap: int = Field(2000, ge=100, le=1_000_000, description="resamples of an interval")


class MergeExperiment(Experiment):
    """A suite of conditions, each a way to make one model of several fine-tuned models of one base."""

    search: str = Field("merging", description="what is searched")
    host: str = Field(
        "nano-merge", min_length=1, max_length=1000, description="the base: host name, hub id, folder or GGUF file"
    )
    device: str = Field("cpu", max_length=100, pattern=r"^(cpu|cuda(:[0-9]{1,3})?)$", description="torch device")
    pretrain: bool = Field(
        False, description="train a base of its own for each seed, as the host's file says, instead of the host itself"
    )
    pretrain_steps: int | None = Field(
        None, ge=1, le=10**9, description="optimizer steps of bases that the suite trains; none: those of the host file"
    )
    models: dict[Name, str] = Field(
        {}, max_length=16, description="your own fine-tuned models by name; none: specialists of the domains are made"
    )
    conditions: list[str] = Field(
        ["base", "best-parent", "uniform", "random", "evomerge"],
        min_length=1,
        max_length=200,
        description="conditions that the suite compares: controls, strategies, parent-NAME, and those of `arms`",
    )
    arms: dict[Name, ArmConfig] = Field({}, description="conditions of your own, by name")
    tasks: list[TaskConfig] = Field(
        [], max_length=100, json_schema_extra=LATER, description="families of your own, which `domains` may name"
    )
    domains: dict[Name, Domain] = Field(
        min_length=1, max_length=16, description="what the merged model has to know, by name"
    )
    data: DataSettings = Field(DataSettings(), description="sizes of the splits")
    specialists: FineTuning = Field(FineTuning(), description="how a specialist of each domain is made of the base")
    budget: Budget = Field(Budget(), description="what every strategy and control may spend")
    groups: int = Field(
        2,
        ge=1,
        le=64,
        description="groups of layers with weights of their own: in `smooth`, and for `cma` in `operators`",
    )
    adam: Gradients = Field(Gradients(learning_rates=[0.03, 0.1]), description="gradient descent on the coefficients")
    fine_tuned_mean: Gradients = Field(
        Gradients(learning_rates=[1e-5, 3e-5, 1e-4, 5e-4]),
        description="fine-tuning of the uniform mean on the search items",
    )
    landscape: Landscape | None = Field(
        None, description="measure the whole space of layer routes, and replay strategies on it"
    )
    law: Law | None = Field(None, description="merge every subset of the parents of bases of several widths")
    decoding: DecodingConfig = Field(DecodingConfig(max_new_tokens=64), description="decoding of test answers")
    evaluation: EvaluationConfig = Field(description="declared comparisons")

    @property
    def parents(self) -> list[str]:
        """Names of the models that are merged."""
        return list(self.models or self.domains)

    @property
    def trains(self) -> bool:
        """Whether anything is trained on the items of the split `train`."""
        return not self.models or "multitask" in self.conditions

    @property
    def _used(self) -> set[str]:
        return {family for domain in self.domains.values() for family in domain.families}

    @property
    def own_families(self) -> list[TaskConfig]:
        """The tasks of a user, one for each family."""
        return own_families(self.tasks, self._used)

    def modules_of(self, domains: Mapping[str, Domain]) -> list[str]:
        """The modules of all families of some domains, tasks of a user among them, for the identity of a stage."""
        families = {family for domain in domains.values() for family in domain.families}
        return modules_of(families, [task.name for task in self.own_families])

    def kind(self, condition: str) -> Kind:
        """What a condition is at bottom."""
        own = kind_of(self.arms[condition].like if condition in self.arms else condition)
        assert own is not None, condition
        return own

    def space(self, condition: str) -> str:
        """The space that a condition searches; "" for one that searches none."""
        arm = self.arms.get(condition)
        return (arm.space if arm else None) or self.kind(condition).space

    def groups_of(self, condition: str) -> int:
        """Groups of layers that a condition's recipes tell apart."""
        arm = self.arms.get(condition)
        return (arm.groups if arm else None) or self.groups

    @model_validator(mode="after")
    def _fits(self) -> "MergeExperiment":
        for name, arm in self.arms.items():
            if kind_of(name) is not None:
                raise ValueError(f"arms: {name!r} is taken; choose another name")
            if arm.like not in STRATEGIES and arm.like != "adam":
                raise ValueError(f"arms.{name}.like: {arm.like!r} is none of {', '.join([*STRATEGIES, 'adam'])}")
            if name not in self.conditions:
                raise ValueError(f"arms.{name}: not among the conditions; add it there or take it out here")
            if arm.like == "adam" and arm.space not in (None, "smooth"):
                raise ValueError(f"arms.{name}.space: only the space `smooth` has gradients")
            space = self.space(name)
            if arm.groups and space != "smooth" and not (space == "operators" and arm.like == "cma"):
                raise ValueError(f"arms.{name}.groups: {arm.like} has no use for it in {space!r}; leave it out")
        for condition in self.conditions:
            if condition in self.arms:
                continue
            if kind_of(condition) is None:
                known = ["parent-NAME", *(name for name in (*CONTROLS, *STRATEGIES) if name != "parent"), *self.arms]
                raise ValueError(f"conditions: {condition!r} is none of {', '.join(known)}; define it in `arms`")
            if condition.startswith(PARENT) and condition.removeprefix(PARENT) not in self.parents:
                raise ValueError(f"conditions: {condition!r}: the parents are {', '.join(self.parents)}")
        if len(self.models) == 1:
            raise ValueError("models: one model alone cannot be merged; name two or more")
        if len(self.parents) < 2:
            raise ValueError("domains: one specialist alone cannot be merged; name two domains or more")
        if self.pretrain and self.models:
            raise ValueError("pretrain: your own `models` have a base already; leave out one of the two")
        unread = {
            "specialists": self.specialists != FineTuning(),
            "data.train": self.data.train != DataSettings().train,
        }
        for key, given in unread.items():
            if given and not self.trains:
                raise ValueError(f"{key}: your own `models` are not trained; leave it out, or compare `multitask` too")
        if self.pretrain_steps and not (self.pretrain or self.law):
            raise ValueError("pretrain_steps: no base is trained; say `pretrain: true` too, or leave it out")
        if self.law and self.models:
            raise ValueError("law: it trains bases and specialists of its own; leave out `models`")
        if self.law and self.law.first_predicted > len(self.parents):
            raise ValueError(f"law.first_predicted: there are {len(self.parents)} parents; name more domains")
        if "base" in self.parents:
            raise ValueError(f"{'models' if self.models else 'domains'}: the name `base` is the host's; choose another")
        if sum(domain.weight for domain in self.domains.values()) <= 0:
            raise ValueError("domains: the weights sum to zero; give at least one domain a weight")
        return self

    @model_validator(mode="after")
    def _own_tasks(self) -> "MergeExperiment":
        check_named(self.tasks, self._used, "domain")
        return self

    @model_validator(mode="after")
    def _compares(self) -> "MergeExperiment":
        check_pairs("evaluation.comparisons", self.evaluation.comparisons, self.conditions)
        return self


def check(config: MergeExperiment) -> None:
    """Refuse families that do not exist or have none of the depths, depths that no family has, models and tasks of a
    user in which something is wrong, and a base that nothing says how to train. Raises ConfigError, and DataError for
    too few rows.
    """
    for name, word in config.models.items():
        try:
            _check_model(word)
        except HostError as error:
            raise ConfigError(f"models.{name}: {error}") from error
    if unlabelled := enter_tasks(config.own_families):
        raise ConfigError(
            f"tasks: {min(unlabelled)!r} has rows without a right answer, and a merge suite trains specialists and "
            "measures candidates by it; name a column with answers, or take those rows out"
        )
    if config.pretrain or config.law:
        heads = pretrain_config(config.host).architecture.heads
        for width in config.law.widths if config.law else []:
            if width < 4 * heads or width // heads % 2:  # rotary positions turn pairs
                raise ConfigError(f"law.widths: {width}: each of {heads} heads needs an even width of 4 or more")
    for name, domain in config.domains.items():
        named: list[str] = []
        drawn: set[str] = set()
        for word in domain.families:
            try:
                family = get_family(word)
            except ConfigError as error:
                raise ConfigError(f"domains.{name}.families: {error}") from error
            if family.name in named:
                raise ConfigError(f"domains.{name}.families: {word!r} stands twice; keep one")
            named.append(family.name)
            if family.rows:
                continue
            drawn.update(family.depths)
            if not set(domain.depths) & set(family.depths):
                raise ConfigError(f"domains.{name}.depths: {word!r} has {', '.join(family.depths)}")
        if domain.depths != Domain.model_fields["depths"].default and (idle := set(domain.depths) - drawn):
            raise ConfigError(f"domains.{name}.depths: none of its families is drawn {min(idle)!r}; take that out")
    if pools := read_pools(config.own_families):
        from evolora_core.searches.merging.data import check_rows

        check_rows(config.domains, config.data, pools, config.trains)


def _check_model(word: str) -> None:
    """HostError for a word that stands for no model, and for a folder without weights. What is to be fetched is looked
    at when it is here."""
    from evolora_core.language.hosts.catalog import find_host
    from evolora_core.language.hosts.folder import weight_files
    from evolora_core.language.hosts.gguf import gguf_in

    place = find_host(word)
    if place.ready and gguf_in(place.path) is None:
        weight_files(place.path)
