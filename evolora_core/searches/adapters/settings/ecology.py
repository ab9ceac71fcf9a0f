"""Settings of the ecology: population, learning, prices, births, and when a merge is accepted."""

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from evolora_core.engine.strict import LATER, Changes, Decay, Strict
from evolora_core.lora.answering.practice import Practice
from evolora_core.searches.adapters.ecology.rules.names import RULES
from evolora_core.searches.adapters.settings.assimilation import AssimilationConfig
from evolora_core.searches.adapters.settings.contest import ContestConfig
from evolora_core.searches.adapters.settings.inheritance import InheritanceConfig
from evolora_core.searches.adapters.settings.memory import MemoryConfig
from evolora_core.searches.adapters.settings.prior import PriorConfig

REMEMBERING = ("search", "reinforce", "gold")  # rules by which organelles remember verified answers
COMPARING = ("reinforce", "grpo")  # rules that learn from how an organelle's answers to one item differ
ANSWERS = 256, 1024  # of the bare host, to be priced: as many as a generation may take, within these bounds


class PlasticityConfig(Strict):
    """How an organelle's own weights change from its episodes."""

    rule: str = Field(
        "search",
        json_schema_extra={"enum": [*RULES]},
        description="`none`: no learning; `reinforce`: rehearse own samples that the verifier accepted; `search`: "
        "rehearse own answers that a best-first search over next tokens found and the verifier "
        "accepted; `grpo`: clipped policy gradient on all samples of a generation, each relative to "
        "the others of its item; `hebbian`: three-factor updates without gradients; `es`: evolution "
        "strategies, from the answers of perturbed copies; `gold`: rehearse gold answers. All but "
        "`gold` see only whether an answer is right",
    )
    calls: int = Field(8, ge=1, le=10_000, description="verifier calls that `search` may make for one item")
    partial_credit: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="with `search`: nats by which a wrong answer's score in [0, 1] moves the alternatives that "
        "branch off it to the front; 0: the search hears right or wrong and nothing else",
    )
    learning_rate: float = Field(
        1e-3,
        gt=0,
        le=10,
        description="AdamW learning rate of the first generation; a trial may replace it",
    )
    half_life: float = Field(
        16.0,
        gt=0,
        le=1e6,
        description="generations after which the learning rate has halved; an arm's budget multiplies it",
    )
    cooldown: float = Field(
        0.2,
        ge=0,
        le=1,
        description="learning steps after the last generation, as a share of those before it; their learning rate "
        "falls to zero. Rules that keep no answers (`grpo`, `hebbian`, `es`) have none",
    )
    steps: int = Field(20, ge=0, le=100_000, description="learning steps of each learner in a generation")
    batch_rows: int = Field(
        24,
        ge=1,
        le=65_536,
        description="answers in one learning step, over all learners; with `es`, items that each copy answers",
    )
    single_batch_rows: int = Field(
        24,
        ge=1,
        le=65_536,
        description="answers in one learning step of `single`, which makes as many more or fewer steps, so that "
        "it learns as many rows",
    )
    buffer: int = Field(
        2048,
        ge=1,
        le=10_000_000,
        description="verified answers that an organelle of an ecology remembers, whatever `curriculum.focus`; one of "
        "`single` remembers so many for each training family. It forgets the oldest first",
    )
    clip_ratio: float = Field(
        0.2,
        gt=0,
        lt=1,
        description="with `grpo`: bound on how far a token's probability may move from when it was sampled, as a ratio",
    )
    kl: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="with `grpo`: weight of the KL divergence from the bare host; above 0 the host reads every "
        "answer, which is charged",
    )
    hebbian_rate: float = Field(3.0, gt=0, le=1e6, description="with `hebbian`: learning rate of the first generation")
    trace_decay: float = Field(
        0.5, ge=0, lt=1, description="with `hebbian`: share of a token's eligibility that is left at the next token"
    )
    pairs: int = Field(
        8, ge=2, le=4096, description="with `es`: mirrored pairs of perturbed copies of a learner in one step"
    )
    sigma: float = Field(
        0.02, gt=0, le=10, description="with `es`: standard deviation of a perturbation of the adapter's factors"
    )
    weight_decay: float = Field(0.0, ge=0, le=10, description="AdamW weight decay")
    betas: tuple[Decay, Decay] = Field((0.9, 0.999), description="AdamW moment decays")
    max_grad_norm: float = Field(
        1.0, gt=0, le=1e6, description="largest norm of one organelle's gradient or Hebbian update"
    )

    @field_validator("rule")
    @classmethod
    def _known(cls, rule: str) -> str:
        if rule not in RULES:
            raise ValueError(f"{rule!r} is none of {', '.join(RULES)}")
        return rule


class EconomyConfig(Strict):
    """Energy. One unit is the FLOPs of one mean answer of the bare host."""

    break_even_accuracy: float = Field(
        0.01, gt=0, le=1, description="accuracy at which rewards pay exactly for the bare host's answers; sets ρ"
    )
    ticket: float = Field(
        4.0,
        ge=0,
        le=1e9,
        description="units that an organelle pays to take part in a generation; an organelle that cannot pay gets no "
        "items",
    )
    endowment: float = Field(
        200.0,
        gt=0,
        le=1e9,
        description="units that an organelle gets at birth: a founder from the account `sun`, a child from its parents",
    )
    answer_price: float = Field(
        2.0,
        ge=0,
        le=1e9,
        description="units for which an organelle sells a verified answer to another of its niche",
    )
    allocation: Literal["merit", "uniform"] = Field(
        "merit",
        description="`merit`: organelles with more energy and more gain over the host get more items and training "
        "rows; `uniform`: all get equally many, and cells are drawn evenly, without learning "
        "progress. Prices and tickets stay. Learners get more items in both",
    )
    strikes: int = Field(
        3,
        ge=1,
        le=1_000_000,
        description="strikes (generations in a row without the ticket) after which an organelle retires",
    )
    reward: Literal["each", "shared"] = Field(
        "each",
        json_schema_extra=LATER,
        description="`each`: every right answer pays the same; `shared`: organelles of a niche get the same items, and "
        "those who answer an item rightly share what it pays, so that what only one can do is dear",
    )
    pool: float | None = Field(
        None,
        gt=0,
        le=1e9,
        json_schema_extra=LATER,
        description="units that all right answers of a generation divide; none: each pays by break_even_accuracy, "
        "however many there are",
    )
    cull: Literal["poorest", "least", "lots"] = Field(
        "poorest",
        json_schema_extra=LATER,
        description="which organelles retire first where the population is full: `poorest`: by the account; `least`: "
        "who was paid least for the answers of the generation, so that a newborn is judged by what it adds; "
        "`lots`: drawn",
    )

    @property
    def rho(self) -> float:
        """ρ: units that a correct answer pays, so that the bare host breaks even at the stated accuracy."""
        return 1 / self.break_even_accuracy


class CurriculumConfig(Strict):
    """Which cells are practised."""

    smoothing: float = Field(0.2, gt=0, le=1, description="weight of the newest generation in the success averages")
    focus: float = Field(1.0, ge=0, le=1, description="share of an organelle's items that are of its niche")
    uniform: float = Field(
        0.2, ge=0, le=1, description="share of the cells that are drawn evenly; learning progress draws the others"
    )


class VariationConfig(Strict):
    """Children by mutation. In this version no child takes a living learner's place, nor answers at the end."""

    births: int = Field(4, ge=0, le=4096, description="children by mutation in a generation, at most")
    sigma: float = Field(
        0.05, ge=0, le=10, description="norm of a mutation of the weights, relative to the norm of the parent's ΔW"
    )
    directions: Literal["isotropic", "singular"] = Field(
        "isotropic",
        description="directions of a mutation of the weights; `isotropic`: any that the rank allows; `singular`: "
        "within the parent's own singular directions",
    )
    trait_sigma: float = Field(
        0.1,
        ge=0,
        le=10,
        description="standard deviation of log learning rate and log temperature: of a child around its parent's, and "
        "of a founder of an ecology around the configured ones; with a prior, founders have none",
    )
    rank_change: float = Field(
        0.2,
        ge=0,
        le=1,
        description="probability that a child's rank doubles or halves; it stays between 1 and the largest of `ranks`",
    )
    rank_change_by: Literal["chance", "use"] = Field(
        "chance",
        description="what decides whether the rank doubles or halves; `chance`: a coin; `use`: it doubles if the "
        "smaller half of the singular values carries more than an eighth of ‖ΔW‖²",
    )


class EcologySettings(Strict):
    """One ecology, whatever its length: what a run reads."""

    population: int = Field(
        16, ge=2, le=4096, description="founders, and organelles that live after a generation at most"
    )
    ranks: list[Annotated[int, Field(ge=1, le=1024)]] = Field(
        [2, 4, 8],
        min_length=1,
        max_length=1024,
        description="adapter ranks; the founders of each family get them in turn, the largest first",
    )
    scale: float = Field(2.0, ge=1e-6, le=1000, description="ΔW = scale · B A")
    episodes: int = Field(
        1024,
        ge=1,
        le=10_000_000,
        description="answers of all organelles in one generation; with `search`, at most so many",
    )
    samples: int = Field(
        4,
        ge=1,
        le=4096,
        description="answers of an organelle to one item, each an episode; with `search`, the mean over items",
    )
    temperature: float = Field(
        0.8,
        gt=0,
        le=100,
        description="sampling temperature of the founders; `search` decodes greedily and does not use it",
    )
    verifier_error: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="probability that the verifier is wrong about an answer, in practice and in tests of pairs; "
        "selection and holdouts are graded truly",
    )
    unrewarded: Literal["refuse", "go_on"] = Field(
        "refuse",
        json_schema_extra=LATER,
        description="what becomes of a run whose first generations found no right answer. `refuse`: it stops, and says "
        "what to change; `go_on`: it goes on, for suites in which discovery is a matter of luck, where the unlucky "
        "seeds would be missing from every mean",
    )
    plasticity: PlasticityConfig = Field(PlasticityConfig(), description="how organelles learn")
    economy: EconomyConfig = Field(EconomyConfig(), description="prices")
    curriculum: CurriculumConfig = Field(CurriculumConfig(), description="which cells are practised")
    variation: VariationConfig = Field(VariationConfig(), description="children by mutation")
    assimilation: AssimilationConfig = Field(
        AssimilationConfig(), description="children by merging, and the sum at the end"
    )
    contest: ContestConfig = Field(
        ContestConfig(), json_schema_extra=LATER, description="selection among those that learn"
    )
    prior: PriorConfig = Field(PriorConfig(), json_schema_extra=LATER, description="traits that founders draw")
    inheritance: InheritanceConfig = Field(
        InheritanceConfig(),
        json_schema_extra=LATER,
        description="what founders begin with, where families come one after another",
    )
    memory: MemoryConfig = Field(
        MemoryConfig(), json_schema_extra=LATER, description="memories that organelles are shown in practice"
    )

    @property
    def slots(self) -> int:
        """Slots for the living, one generation's newborns, and the candidate of a merge."""
        return self.population + self.variation.births + self.assimilation.attempts + 1

    @property
    def practice(self) -> Practice:
        """What the prices of an arm with these settings depend on."""
        fewest, most = ANSWERS
        return Practice(
            answers=min(max(self.episodes, fewest), most),
            temperature=self.practice_temperature,
            population=self.population,
            slots=self.slots,
            rank=max(self.ranks),
            scale=self.scale,
            batch_rows=self.plasticity.batch_rows,
            break_even_accuracy=self.economy.break_even_accuracy,
        )

    @property
    def looks_back(self) -> bool:
        """Whether what was remembered of every family has to be there at the end of a run."""
        return bool(self.memory.labels or self.memory.answering or self.assimilation.rehearsal)

    @property
    def practice_temperature(self) -> float:
        """Temperature of the founders' answers in practice; a search decodes greedily."""
        return 0.0 if self.plasticity.rule == "search" else self.temperature

    @model_validator(mode="after")
    def _fits(self) -> "EcologySettings":
        if self.episodes < self.population * self.samples:
            raise ValueError("episodes must be at least population × samples, or some organelle never answers")
        if self.episodes < self.contest.contenders * self.samples:
            raise ValueError("episodes must be at least contest.contenders × samples, or some contender never answers")
        rule = self.plasticity.rule
        if self.samples == 1 and rule in COMPARING:
            raise ValueError(
                f"samples: the rule {rule} learns from how answers to one item differ, and one answer differs from "
                "none; have two or more"
            )
        if self.memory.shown and rule != "search":
            raise ValueError(f"memory.shown: the rule {rule} practises without examples; take it out, or use search")
        if self.memory.shown and self.plasticity.calls == 1:
            raise ValueError(
                "memory.shown: with plasticity.calls: 1 an item is asked once, which is without examples; allow two "
                "calls or more, or take it out"
            )
        forgetful = rule not in REMEMBERING
        for key in ("answering", "labels"):
            if getattr(self.memory, key) and forgetful:
                raise ValueError(f"memory.{key}: the rule {rule} remembers no answers; take it out")
        if self.assimilation.rehearsal and forgetful:
            raise ValueError(
                f"assimilation.rehearsal: the sum rehearses what its parents remember, and the rule {rule} remembers "
                "nothing; take it out"
            )
        if "fisher" in self.assimilation.methods and forgetful:
            raise ValueError(
                f"assimilation.methods: fisher measures on remembered answers, and the rule {rule} remembers none; "
                "leave it out"
            )
        if self.contest.contenders > 1 and forgetful:
            raise ValueError(
                f"contest.contenders: contenders rehearse what they remember, and the rule {rule} remembers nothing; "
                "have one"
            )
        if self.contest.contenders > 1 and self.contest.practice == "own" and self.economy.reward == "shared":
            raise ValueError(
                "contest.practice: own: rewards are shared on items that all of a niche practise; take one out"
            )
        return self


class EcologyConfig(EcologySettings):
    """One ecology run."""

    generations: int = Field(10, ge=1, le=1_000_000, description="generations of a run")
    trials: list[Changes] = Field(
        [{"plasticity": {"learning_rate": rate}} for rate in (5e-4, 1e-3, 2e-3)],
        max_length=100,
        description="settings that tuning tries, nested as here; the best trial's are used. []: nothing is tuned",
    )
