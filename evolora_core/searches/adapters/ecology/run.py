"""One evolution under way: what it is about, the rule by which its organelles learn, and its state."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evolora_core.engine import rng
from evolora_core.lora.answering.outcome import Outcome
from evolora_core.lora.answering.stopping import endings, spoken
from evolora_core.searches.adapters.ecology.horizon import Horizon
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle, contenders
from evolora_core.searches.adapters.ecology.regime import Regime
from evolora_core.searches.adapters.ecology.state import State
from evolora_core.searches.adapters.ecology.task import Task
from evolora_core.searches.adapters.settings.ecology import EcologySettings, PlasticityConfig

Answers = list[list[Outcome]]  # of each group, in the order of the groups
Remember = Callable[[int, Sequence[tuple[int, ...]], Sequence[bool], tuple[int, ...]], list[Memory]]


def nothing(
    item: int, answers: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """No memories."""
    return []


def everything(correct: Sequence[bool]) -> Sequence[bool]:
    """All answers."""
    return correct


def adamw_rate(config: PlasticityConfig) -> float:
    """AdamW's."""
    return config.learning_rate


def forward_and_backward(config: PlasticityConfig) -> int:
    """Cost of learning a row, in forward passes. With a frozen host, a backward pass costs as much as one of them."""
    return 2


def no_cooldown(config: PlasticityConfig) -> float:
    """None."""
    return 0.0


def no_steps(run: "Run", decay: Sequence[float]) -> None:
    """Take no steps."""


@dataclass(frozen=True)
class Rule:
    """One way to learn, as plain functions.

    act       what the organelles of a generation answer to their groups, asked for and charged as rollouts
    learn     the generation's learning steps of every learner, charged to their accounts
    remember  (item, answers, which are right, gold) -> what an organelle keeps, and its niche may buy, of the answers
              that it gave to one item. Token ids without EOS; `gold` is empty unless the rule `sees_gold`
    evidence  those of a group's answers, right or wrong, that say what an organelle can do unaided
    greedy    whether the first answer of a group is the greedy one, as the answers in a contest are
    rate      learning rate of the first generation
    row_cost  what a row of a learning step costs, in answers of the bare host
    charged   purpose of the compute of learning steps: `rollout` where they are answers
    cooldown  steps after the last generation relative to those before it
    cool      the steps of a cooldown, one for each factor of the learning rate

    `source` cites where it comes from. Headline comparisons use rules that see no gold.
    """

    source: str
    act: Callable[["Run", Sequence["Group"]], Answers]
    learn: Callable[["Run", Sequence["Group"], Answers], None]
    remember: Remember = nothing
    sees_gold: bool = False
    evidence: Callable[[Sequence[bool]], Sequence[bool]] = everything
    greedy: bool = False
    rate: Callable[[PlasticityConfig], float] = adamw_rate
    row_cost: Callable[[PlasticityConfig], int] = forward_and_backward
    charged: str = "update"
    cooldown: Callable[[PlasticityConfig], float] = no_cooldown
    cool: Callable[["Run", Sequence[float]], None] = no_steps

    def memories(self, task: "Task", item: int, answers: Sequence[Outcome]) -> list[Memory]:
        """What an organelle keeps of its answers to an item, without stop strings: nothing that is longer than the
        host's context.
        """
        gold = task.gold_tokens[item] if self.sees_gold else ()
        if endings(task.host, task.decoding.stop_strings):
            tokens = [spoken(task.host, answer.tokens, answer.answer) for answer in answers]
        else:
            tokens = [tuple(answer.tokens) for answer in answers]
        kept = self.remember(item, tokens, [answer.grade.correct for answer in answers], gold)
        return [memory for memory in kept if task.fits(memory.item, memory.tokens)]

    def longest(self, task: "Task") -> int:
        """Tokens of the longest answer that may be remembered."""
        return max(task.decoding.max_new_tokens, max(map(len, task.gold_tokens)) if self.sees_gold else 0)


@dataclass(frozen=True)
class Run:
    """`rule` is how organelles learn; `folder` has the commits, and at the end what the run leaves."""

    task: Task
    config: EcologySettings
    horizon: Horizon
    regime: Regime
    rule: Rule
    state: State
    folder: Path

    @property
    def checkpoints(self) -> Path:
        """The commits."""
        return self.folder / "checkpoints"

    def stream(self, slot: int, role: str) -> np.random.Generator:
        """A random stream of the present generation; every regime has streams of its own."""
        return rng.stream(self.task.seed, self.state.generation, slot, role, self.regime.word)

    def keys(self, role: str, rows: int) -> np.ndarray:
        """Keys `[rows]` of the streams of so many answers."""
        return rng.row_keys(rng.key(self.task.seed, self.state.generation, 0, role, self.regime.word), rows)

    @property
    def host_accuracy(self) -> np.ndarray:
        """Accuracy of the bare host per cell `[cells]`, as the run's verifier grades it."""
        return self.task.host_accuracy(self.config.verifier_error)

    @property
    def uniform(self) -> bool:
        """Whether every organelle gets equally many items and rows, and cells are drawn evenly."""
        return self.config.economy.allocation == "uniform"

    @property
    def cooldown(self) -> float:
        """Steps after the last generation relative to those before it."""
        return self.rule.cooldown(self.config.plasticity)

    @property
    def crowd(self) -> int:
        """Learners in the niche that has most of them: 1, or more while a contest is undecided."""
        if self.config.contest.contenders == 1:
            return 1
        return max(map(len, self.contenders().values()), default=1)

    def contenders(
        self, organelles: Iterable[Organelle] | None = None, most: int | None = None
    ) -> dict[str, list[Organelle]]:
        """Contenders of each niche, among `organelles` or all that are awake; `most` replaces the suite's number."""
        among = self.awake() if organelles is None else organelles
        if most is not None:
            return contenders(among, most)
        found = contenders(among, self.config.contest.contenders)
        for niche in found.keys() & self._decided():
            found[niche] = contenders(found[niche], 1)[niche]  # who learned in a poor winner's place contends no more
        return found

    def _decided(self) -> set[str]:
        """Niches whose contest has ended before this generation: somebody was beaten in the last one, or after it."""
        ends = self.config.contest.ends
        if ends is None or self.state.generation < ends:
            return set()
        beaten = [(own.niche, own.died) for own in self.state.organelles if own.cause == "beaten"]
        return {niche for niche, died in beaten if died is not None and died + 1 >= ends}

    @property
    def memories(self) -> int:
        """Answers that an organelle remembers at most."""
        return self.regime.memories(self.config.plasticity, len(self.task.families))

    def steps(self, generations: float) -> int:
        """Learning steps of a learner in so many generations. The more contend, the fewer each has."""
        return self.regime.steps(self.config.plasticity, generations / self.crowd)

    def rate(self, organelle: Organelle) -> float:
        """Learning rate of an organelle in the present generation. A family that arrives begins at the full rate."""
        plasticity = self.config.plasticity
        age = self.state.generation - self.state.phase_start
        value: float = self.rule.rate(plasticity) * organelle.learning_rate * 0.5 ** (age / plasticity.half_life)
        return value

    @property
    def present(self) -> np.ndarray:
        """Which families are there now: bool `[families]`."""
        return np.array([self.horizon.there(family, self.state.phase) for family in self.task.families])

    @property
    def present_cells(self) -> np.ndarray:
        """Which cells are of a family that is there now: bool `[cells]`."""
        cells: np.ndarray = self.present @ self.task.inside
        return cells

    def awake(self) -> list[Organelle]:
        """The living organelles whose niche is there. The others sleep: they neither act nor pay."""
        here = {"", *np.array(self.task.families)[self.present]}
        return [organelle for organelle in self.state.living if organelle.niche in here]
