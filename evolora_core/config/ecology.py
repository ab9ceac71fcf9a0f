"""Settings of the ecology: who lives, how they learn, what things cost, when a merge is accepted."""

from typing import Any, Literal

from pydantic import Field, model_validator

from evolora_core.config.strict import Strict


class PlasticityConfig(Strict):
    """How an organelle's own weights change from its episodes."""

    rule: Literal["none", "reinforce", "search", "grpo", "hebbian", "es", "gold"] = Field(
        "search",
        description="`none`: weights change by variation alone; `reinforce`: own verified samples, rewards only; "
        "`search`: own verified answers, found by best-first search over token alternatives, rewards only; "
        "`grpo`: clipped policy gradient on all of a generation's own samples, right and wrong, relative to their "
        "group, rewards only; `hebbian`: three-factor updates without gradients, rewards only; "
        "`es`: evolution strategies, the answers of perturbed copies, rewards only; "
        "`gold`: supervised steps on gold targets (labelled as such)",
    )
    calls: int = Field(8, ge=1, description="verifier calls that `search` may spend on one item")
    partial_credit: float = Field(
        0.0,
        ge=0,
        description="with `search`, nats that the verifier's score in [0, 1] of a wrong answer is worth to the "
        "alternatives that depart from it; 0: the verifier says right or wrong, and no more",
    )
    learning_rate: float = Field(
        1e-3,
        gt=0,
        description="AdamW learning rate of a run's first generation, where tuning does not choose one",
    )
    half_life: float = Field(
        16.0,
        gt=0,
        description="generations after which the learning rate has halved, times the budget of an arm that has another",
    )
    cooldown: float = Field(
        0.2,
        ge=0,
        le=1,
        description="steps after the last generation, in which the learning rate falls to zero, relative to those "
        "before it; a rule on policy has none, as it keeps nothing to rehearse",
    )
    steps: int = Field(20, ge=0, description="steps of the learners in a generation")
    batch_rows: int = Field(
        24, ge=1, description="answers in one step, over all learners; with `es` the items that each copy answers"
    )
    single_batch_rows: int = Field(
        24, ge=1, description="rows of one step of `single`; its steps are scaled so that both see equally many rows"
    )
    buffer: int = Field(2048, ge=1, description="verified answers that an organelle remembers (the newest stay)")
    clip_ratio: float = Field(
        0.2, gt=0, lt=1, description="with `grpo`, how far a token's probability ratio to when it was sampled counts"
    )
    kl: float = Field(
        0.0,
        ge=0,
        description="with `grpo`, weight of the KL divergence from the bare host; above 0 the host reads every answer",
    )
    hebbian_rate: float = Field(3.0, gt=0, description="with `hebbian`, the learning rate of a run's first generation")
    trace_decay: float = Field(
        0.5, ge=0, lt=1, description="with `hebbian`, what is left of a token's eligibility at the next token"
    )
    pairs: int = Field(8, ge=2, description="with `es`, mirrored pairs of perturbed copies of a learner in one step")
    sigma: float = Field(
        0.02, gt=0, description="with `es`, standard deviation of a perturbation of the adapter's factors"
    )
    weight_decay: float = Field(0.0, ge=0, description="AdamW weight decay")
    max_grad_norm: float = Field(
        1.0, gt=0, description="bound of the norm of a gradient or Hebbian update, per organelle"
    )


class EconomyConfig(Strict):
    """Energy. One unit is the FLOPs of one mean answer of the bare host."""

    break_even_accuracy: float = Field(
        0.01, gt=0, le=1, description="accuracy at which the bare host's rewards pay for its answers; sets ρ"
    )
    ticket: float = Field(4.0, ge=0, description="units that an organelle pays to take part in a generation")
    endowment: float = Field(200.0, gt=0, description="units that a founder gets from the sun and a child from parents")
    answer_price: float = Field(
        2.0, ge=0, description="units that a verified answer costs the others of its niche, who may learn from it too"
    )
    allocation: Literal["merit", "uniform"] = Field(
        "merit",
        description="who gets items and training rows: by energy and promise (`merit`), or all alike (`uniform`, the "
        "control without an economy; prices are still paid); learners are asked more often in both",
    )
    strikes: int = Field(3, ge=1, description="generations in a row without the ticket after which one retires")

    @property
    def rho(self) -> float:
        """ρ: units that a correct answer pays, so that the bare host breaks even at the stated accuracy."""
        return 1 / self.break_even_accuracy


class CurriculumConfig(Strict):
    """Which cells are practised."""

    smoothing: float = Field(0.2, gt=0, le=1, description="weight of the newest generation in the success averages")
    focus: float = Field(1.0, ge=0, le=1, description="share of an organelle's episodes in the family of its niche")
    uniform: float = Field(
        0.2, ge=0, le=1, description="share of cells drawn uniformly instead of by learning progress"
    )


class VariationConfig(Strict):
    """Births by mutation."""

    births: int = Field(4, ge=0, description="mutated children per generation, at most")
    sigma: float = Field(0.05, ge=0, description="norm of a weight mutation relative to the parent's ΔW")
    directions: Literal["isotropic", "singular"] = Field(
        "isotropic",
        description="where a weight mutation points: `isotropic`: anywhere that the rank allows; `singular`: along the "
        "parent's own singular directions, whose weights and turns change",
    )
    trait_sigma: float = Field(0.1, ge=0, description="standard deviation of log learning rate and log temperature")
    rank_change: float = Field(0.2, ge=0, le=1, description="probability that a child's rank doubles or halves")
    rank_change_by: Literal["chance", "use"] = Field(
        "chance",
        description="what decides between them: `chance`: a coin; `use`: double where the smaller half of the singular "
        "values carries more than an eighth of ‖ΔW‖², else halve",
    )


class AssimilationConfig(Strict):
    """Merging: all learners at the end of a run, and pairs during it, whose child must pass a paired test to live."""

    sum_weight: float = Field(
        0.85,
        ge=0,
        description="at the end the updates of the learners that are better than the host are added up, each times "
        "this, as the candidate that answers everything; 0: none is made. Where pairs were merged during the run, the "
        "youngest child that lives is that candidate instead",
    )
    every: int = Field(4, ge=1, description="generations between rounds of merging in pairs")
    attempts: int = Field(0, ge=0, description="pairs tried in one round; their tests are a part of the budget")
    methods: list[Literal["weighted", "ties", "dare", "fisher"]] = Field(
        ["weighted"], min_length=1, description="merge forms, one of which is drawn for each merge"
    )
    fisher_rows: int = Field(
        64, ge=1, description="remembered answers of each parent that `fisher` takes its information from, at most"
    )
    gains: list[float] = Field(
        [1.2],
        min_length=1,
        description="sums of the two merge weights to draw from: 1 averages the parents' updates, 2 adds them up",
    )
    alpha: float = Field(0.05, gt=0, lt=0.5, description="false-accept rate of one attempt, spent over the looks")
    power: float = Field(0.8, gt=0.5, lt=1, description="power at the uplift below; sets the largest sample")
    uplift: float = Field(0.04, gt=0, lt=1, description="gain in accuracy that the test is built to find")
    discordance: float = Field(
        0.15, gt=0, le=1, description="share of items on which child and parent are expected to differ; sets the sample"
    )
    looks: int = Field(4, ge=1, le=8, description="interim analyses, each on twice the sample of the one before")
    margin: float = Field(0.1, gt=0, lt=1, description="largest loss tolerated on the union of the parents' cells")


class EcologyConfig(Strict):
    """One ecology run."""

    population: int = Field(16, ge=2, description="organelles that live at most, and founders")
    ranks: list[int] = Field(
        [2, 4, 8],
        min_length=1,
        description="adapter ranks, dealt to the founders of each family in turn, the largest first",
    )
    scale: float = Field(2.0, gt=0, description="ΔW = scale · B A")
    generations: int = Field(10, ge=1, description="rounds of the ecology")
    trials: list[dict[str, Any]] = Field(
        [{"plasticity": {"learning_rate": rate}} for rate in (5e-4, 1e-3, 2e-3)],
        description="settings that tuning tries, nested as here; the best of them is used. []: no tuning",
    )
    episodes: int = Field(1024, ge=1, description="answers per generation, over all organelles; with `search` at most")
    samples: int = Field(
        4,
        ge=1,
        description="answers of one organelle to one item, each an episode; with `search` the mean over items",
    )
    temperature: float = Field(
        0.8, gt=0, description="sampling temperature of the founders; a search decodes greedily and has no use for it"
    )
    verifier_error: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that a verifier is wrong about an answer, in practice and in tests of merges, never "
        "in selection and holdouts",
    )
    plasticity: PlasticityConfig = Field(PlasticityConfig(), description="how organelles learn")
    economy: EconomyConfig = Field(EconomyConfig(), description="prices")
    curriculum: CurriculumConfig = Field(CurriculumConfig(), description="which cells are practised")
    variation: VariationConfig = Field(VariationConfig(), description="births by mutation")
    assimilation: AssimilationConfig = Field(AssimilationConfig(), description="births by merging")

    @property
    def practice_temperature(self) -> float:
        """Temperature of the founders' answers in practice; a search decodes greedily."""
        return 0.0 if self.plasticity.rule == "search" else self.temperature

    @model_validator(mode="after")
    def _fits(self) -> "EcologyConfig":
        if min(self.ranks) < 1:
            raise ValueError("ranks: every rank must be at least 1")
        if self.episodes < self.population * self.samples:
            raise ValueError("episodes must be at least population × samples, or some organelle never answers")
        if "fisher" in self.assimilation.methods and self.plasticity.rule in ("none", "grpo", "hebbian", "es"):
            raise ValueError(
                f"assimilation.methods: fisher measures on remembered answers, and the rule {self.plasticity.rule} "
                "remembers none; leave it out"
            )
        return self
