"""A suite: conditions × seeds on one host, ending in one paper pack."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from evolora_core.config.arms import ArmConfig, changed, leaves
from evolora_core.config.ecology import EcologyConfig
from evolora_core.config.rivals import EsConfig, GrpoConfig, SftConfig
from evolora_core.config.strict import Seed, Strict, load_yaml

Kind = Literal["frozen", "single", "ecology", "sft", "es", "grpo"]
Routing = Literal["single", "family", "cell", "learned"]
HoldoutRouting = Literal["single", "family", "cell", "learned", "reselected"]
Section = EcologyConfig | SftConfig | EsConfig | GrpoConfig
Split = Literal["holdout_id", "holdout_ood", "retention"]
# Rates that a rule does not read: trials that differ in nothing else are one run.
UNREAD: dict[str, dict[str, Any]] = {
    "hebbian": {"plasticity": {"learning_rate"}},
    "none": {"plasticity": {"learning_rate", "hebbian_rate"}},
    "best": {"learning_rate": True},
}
DEVICE = re.compile(r"cpu|mps|cuda(:[0-9]{1,3})?")
NOT_CONDITIONS = ("shared", "suite", "tuning")  # what other stages stand under


class DataConfig(Strict):
    """Families and sizes of the splits."""

    train_families: list[str] = Field(
        min_length=1, description="families that adapters train on: `train`, `selection` and `holdout_id` are of these"
    )
    ood_families: list[str] = Field(min_length=1, description="families of `holdout_ood`, which no adapter trains on")
    retention_families: list[str] = Field(
        min_length=1, description="families of `retention`, which the host answers well already"
    )
    depths: list[Literal["short", "medium", "long"]] = Field(
        ["short", "medium", "long"], min_length=1, description="sizes of the items"
    )
    arrivals: bool = Field(
        False,
        description="the training families come one after another, in the order given, each for an equal share of "
        "every run. Outside of its share a family has no training items, and no answer of it is "
        "remembered",
    )
    train_items: int = Field(8192, ge=1, le=10_000_000, description="items of the training set, the same for every arm")
    selection_items: int = Field(
        512, ge=1, le=1_000_000, description="items on which routers, checkpoints and strengths are chosen"
    )
    reselection_items: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="items of the OOD families on which the router `reselected` chooses who answers them",
    )
    holdout_items: int = Field(
        2048, ge=1, le=1_000_000, description="items in each of holdout_id, holdout_ood and retention"
    )


class DecodingConfig(Strict):
    """Decoding, the same for every arm."""

    max_new_tokens: int = Field(32, ge=1, le=65_536, description="token cap of an answer")
    batch_rows: int = Field(512, ge=1, le=65_536, description="answers decoded together")
    stop_strings: list[Annotated[str, Field(min_length=1, max_length=1000)]] = Field(
        [],
        max_length=100,
        description="strings that end an answer and are cut off, for hosts that do not end their answers themselves",
    )


class TuningConfig(Strict):
    """Trials of settings: the same number of trials for every arm, on seeds that are never reported."""

    seeds: list[Seed] = Field(
        [1000, 1001],
        min_length=1,
        max_length=40,
        description="seeds of the tuning runs; a trial is judged by its mean over them. None may be among the "
        "suite's seeds",
    )
    fraction: float = Field(
        0.5,
        gt=0,
        le=1,
        description="budget of a trial relative to a whole run of the ecology, or of the arm if the arm's is larger",
    )


class CalibrationConfig(Strict):
    """The first generations of an ecology, which tell what the rest takes."""

    generations: int = Field(2, ge=1, description="first generations of the ecology that make its calibration")
    hours: float = Field(
        12,
        gt=0,
        le=8760,
        description="hours that the ecology of one seed may take; one that would take longer is not begun",
    )


class ComparisonConfig(Strict):
    """One declared comparison of two conditions on one split."""

    a: str = Field(description="condition whose advantage is tested")
    b: str = Field(description="condition that `a` is compared with")
    split: Split = Field(description="holdout split")
    routing: HoldoutRouting | None = Field(
        None, description="router under which both answer; by default the headline's"
    )
    margin: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="loss in accuracy up to which `a` counts as not worse than `b`; the note says whether that "
        "was shown",
    )
    regime: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="name of this comparison's row on the map, such as `8 gold labels a family`; by default its "
        "arms. One of the two must be like ecology, the other like sft or single",
    )


class EvaluationConfig(Strict):
    """How the holdouts are answered and which claims are tested."""

    routings: list[HoldoutRouting] = Field(
        ["family", "single"],
        min_length=1,
        description="routers to evaluate; the first is the headline. `reselected` is `family`, but it chooses for "
        "the OOD families too, on the items of data.reselection_items",
    )
    comparisons: list[ComparisonConfig] = Field(
        max_length=6, description="comparisons that the suite declares before it is run, at most six"
    )
    bootstrap: int = Field(20_000, ge=100, le=10_000_000, description="resamples of the hierarchical bootstrap")
    strengths: list[Annotated[float, Field(gt=0, le=1000)]] = Field(
        [],
        max_length=100,
        description="factors of ΔW at which the adapter of the router `single` is evaluated too, for the frontier "
        "of gain and retention; 1 is always among them. []: no frontier",
    )
    frontier_items: int = Field(
        512,
        ge=1,
        le=1_000_000,
        description="items of `holdout_id`, and of `retention`, that each strength answers, evenly spread",
    )

    @model_validator(mode="after")
    def _routed(self) -> "EvaluationConfig":
        if "reselected" in self.routings and ("family" not in self.routings or self.routings[0] == "reselected"):
            raise ValueError("routings: `reselected` is `family` and more; add `family`, and put another router first")
        if self.strengths and "single" not in self.routings:
            raise ValueError("strengths: it is the router `single` that is scaled; add it to the routings")
        return self


class SuiteConfig(Strict):
    """A whole suite; its id is its name and the hash of everything below."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=100, description="lower-case name; packs go to packs/NAME"
    )
    host: str = Field("nano", min_length=1, max_length=1000, description="host name, hub id or local folder")
    device: str = Field("cpu", max_length=100, description="torch device: cpu, mps, cuda or cuda:1")
    dtype: Literal["float32", "bfloat16", "auto"] = Field(
        "float32",
        description="arithmetic of host and adapters; `auto` measures once whether bfloat16 is much faster on the "
        "device, and keeps to the result",
    )
    seeds: list[Seed] = Field([0, 1, 2], min_length=1, max_length=40, description="one run of each condition per seed")
    conditions: list[str] = Field(
        ["frozen", "single", "ecology", "sft"],
        min_length=1,
        max_length=200,
        description="conditions that the suite compares: frozen, single, ecology, sft, es, grpo, and those that "
        "`arms` defines",
    )
    arms: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$", max_length=60)], ArmConfig] = Field(
        {},
        description="conditions of your own, by name; the name `single` (or another kind's) gives that condition "
        "settings of its own",
    )
    processes: int = Field(2, ge=1, le=1024, description="runs that execute at the same time")
    threads: int = Field(1, ge=1, le=1024, description="torch threads of each process")
    workers: str = Field(
        "processes",
        max_length=1000,
        description="where the processes are: `processes` of this machine, a local cluster by `dask` or `ray`, or "
        "a running cluster by its address, tcp://HOST:PORT (Dask) or ray://HOST:PORT",
    )
    data: DataConfig = Field(description="families and splits")
    decoding: DecodingConfig = Field(DecodingConfig(), description="decoding, the same for every arm")
    ecology: EcologyConfig = Field(
        EcologyConfig(), description="the ecology, and the condition `single`, which has the same rule"
    )
    sft: SftConfig = Field(SftConfig(), description="supervised fine-tuning")
    es: EsConfig = Field(EsConfig(), description="evolution strategies on one adapter")
    grpo: GrpoConfig = Field(GrpoConfig(), description="group relative policy optimisation of one adapter")
    tuning: TuningConfig = Field(TuningConfig(), description="how the trials of each arm are made")
    calibration: CalibrationConfig = Field(CalibrationConfig(), description="what is measured before an ecology is run")
    evaluation: EvaluationConfig = Field(description="routing and declared comparisons")

    @field_validator("device")
    @classmethod
    def _known(cls, device: str) -> str:
        if not DEVICE.fullmatch(device):
            raise ValueError("is unknown; use cpu, mps, cuda or cuda:1")
        return device

    @model_validator(mode="after")
    def _fits(self) -> "SuiteConfig":
        if ("reselected" in self.evaluation.routings) != (self.data.reselection_items > 0):
            raise ValueError(
                "data.reselection_items: the router `reselected` chooses on them; have both, or 0 and no such router"
            )
        for key, values in (
            ("seeds", self.seeds),
            ("tuning.seeds", self.tuning.seeds),
            ("conditions", self.conditions),
            ("data.depths", self.data.depths),
            ("evaluation.routings", self.evaluation.routings),
            ("evaluation.strengths", self.evaluation.strengths),
        ):
            for number, value in enumerate(values):
                if value in values[:number]:
                    raise ValueError(f"{key}: {value!r} stands twice; keep one")
        if reported := set(self.tuning.seeds) & set(self.seeds):
            raise ValueError(f"tuning.seeds: {min(reported)} is also a reported seed; choose another")
        known = [*get_args(Kind), *self.arms]
        for condition in self.conditions:
            if condition not in known:
                raise ValueError(f"conditions: {condition!r} is none of {', '.join(known)}; define it in `arms`")
        if self.data.arrivals:
            if self.ecology.generations < len(self.data.train_families):
                raise ValueError("ecology.generations: with data.arrivals, at least one for each training family")
            for condition in self.conditions:
                if condition in known and self.kind(condition) not in ("frozen", "ecology", "single", "sft"):
                    raise ValueError(f"conditions: {condition!r} cannot follow data.arrivals; take one of them out")
        # A rival may have settings of its own under its own name; all others spend what `ecology` itself spends.
        own = {name for name, arm in self.arms.items() if name == arm.like != "ecology"}
        if taken := (set(self.arms) & {*get_args(Kind), *NOT_CONDITIONS}) - own:
            raise ValueError(f"arms: {min(taken)!r} is taken; choose another name")
        if idle := [name for name in self.arms if name not in self.conditions]:
            raise ValueError(f"arms.{idle[0]}: not among the conditions; add it there or take it out here")
        if set(self.conditions) - {"frozen"} and "ecology" not in self.conditions:
            raise ValueError("conditions: all others spend the ecology's budget; add ecology")
        for name in [condition for condition in self.conditions if condition != "frozen"]:
            count = len(self.settings(name).trials)
            if count != self.trials:
                raise ValueError(f"{name}: {count} trials, but the ecology has {self.trials}; all arms are tuned alike")
            for trial in range(count):
                self._check_asked_alike(name, trial)
            self._check_peopled(name)
            self._check_heard(name)
        deaf = [c for c in self.conditions if self.kind(c) in ("es", "grpo")]
        if self.ecology.verifier_error and deaf:
            raise ValueError(
                f"ecology.verifier_error: the verifier of {deaf[0]!r} would not err; take it out, or let only "
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
            kinds = {self.kind(pair.a), self.kind(pair.b)}
            if pair.regime and kinds not in ({"ecology", "sft"}, {"ecology", "single"}):
                raise ValueError(
                    f"evaluation.comparisons: the regime {pair.regime!r} compares {pair.a} with {pair.b}; the map asks "
                    "where ecologies win, so one must be like ecology, the other like sft or single"
                )
        routed = {pair.routing for pair in self.evaluation.comparisons} - {None, *self.evaluation.routings}
        if routed:
            raise ValueError(f"evaluation.comparisons: {', '.join(map(str, routed))} is not among the routings")
        return self

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
        """A population needs a founder for each training family, or a family would never be practised."""
        if self.kind(name) != "ecology":
            return
        for settings in [self.settings(name), *(self.settings(name, trial) for trial in range(self.trials))]:
            if isinstance(settings, EcologyConfig) and settings.population < len(self.data.train_families):
                raise ValueError(f"{name}: population {settings.population}: at least one for each training family")

    def _check_heard(self, name: str) -> None:
        """Refuse settings without effect: what every trial replaces, and the generations of an arm with a budget."""
        own = name in self.arms
        section = self.settings(name)
        place = f"arms.{name}.changes" if own else self._section(name)
        given = self.arms[name].changes if own else getattr(self, place).model_dump(exclude_defaults=True)
        replaced = set.intersection(*map(leaves, section.trials)) if section.trials else set()
        if dead := sorted(leaves(given) & replaced):
            raise ValueError(f"{place}.{dead[0]}: every trial replaces it; change the trials, or take it out")
        read: list[dict[str, Any]] = []
        for number in range(len(section.trials)):
            tried = self.settings(name, number)
            rule = tried.plasticity.rule if isinstance(tried, EcologyConfig) else getattr(tried, "update", "")
            read.append(tried.model_dump(exclude={"trials": True} | UNREAD.get(rule, {})))
            if read[number] in read[:number]:
                raise ValueError(
                    f"{place}.trials: {read.index(read[number])} and {number} are the same run: "
                    f"{rule or name!r} reads no setting in which they differ; change one, or take one out"
                )
        if own and isinstance(section, EcologyConfig) and "generations" in given:
            raise ValueError(f"{place}.generations: {name} evolves until its budget is spent; set arms.{name}.budget")

    @property
    def trained_routings(self) -> list[str]:
        """The routers that a training stage chooses routes for: all but the one that chooses at the evaluation."""
        return [routing for routing in self.evaluation.routings if routing != "reselected"]

    def kind(self, condition: str) -> Kind:
        """What a condition is at bottom."""
        return self.arms[condition].like if condition in self.arms else condition  # type: ignore[return-value]

    def _section(self, condition: str) -> str:
        """The name of the section that a condition's settings come from."""
        kind = self.kind(condition)
        return kind if kind in ("sft", "es", "grpo") else "ecology"

    def budget(self, condition: str) -> float:
        """FLOPs that a condition may spend, relative to the ecology's."""
        return self.arms[condition].budget if condition in self.arms else 1.0

    def settings(self, condition: str, trial: int | None = None) -> Section:
        """The section of a condition, `ecology` or its own, with its changes, and those of one of its trials."""
        section: Section = getattr(self, self._section(condition))
        if condition in self.arms:
            section = changed(section, self.arms[condition].changes, f"arms.{condition}.changes")
        if trial is None:
            return section
        return changed(section, section.trials[trial], f"{condition}: trials.{trial}")

    @property
    def trials(self) -> int:
        """How many trials each arm is tuned by."""
        return len(self.ecology.trials)


def load_suite(path: Path | str, overrides: list[str] | tuple[str, ...] = ()) -> SuiteConfig:
    """Read a suite file; `overrides` are dotted settings. Families are checked by name. Raises ConfigError."""
    from evolora_core.datasets import check_families  # the registry of families is needed here only

    suite = load_yaml(Path(path), SuiteConfig, overrides)
    check_families(suite.data)
    return suite
