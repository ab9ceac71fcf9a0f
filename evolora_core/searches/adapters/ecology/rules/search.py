"""Best-first search over the policy's own token alternatives: cheap discovery of answers that greedy decoding misses.

An item is first answered greedily. While it is unsolved, the most promising unexplored alternative is followed: the
answer up to one of its tokens, another likely token there, and a greedy continuation. An alternative is the more
promising, the likelier the policy finds it and, where partial credit counts, the better the answer was from which it
departs (limited-discrepancy search ordered as in best-first search; Harvey and Ginsberg 1995). The first alternative,
where memories are shown, is the greedy answer to the prompt with examples before it. The verifier is called at most
`calls` times an item: free verification would be gold labels by another name.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from evolora_core.lora.answering.outcome import Manner
from evolora_core.lora.population.generate import Alternatives
from evolora_core.searches.adapters.ecology.learning.asking import ask
from evolora_core.searches.adapters.ecology.learning.rehearsal import cool, cooldown, rehearse
from evolora_core.searches.adapters.ecology.learning.showing import examples
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.organelle import Group
from evolora_core.searches.adapters.ecology.run import Answers, Rule, Run

ALTERNATIVES = 3  # tokens followed at each position, besides the taken one
KNOWN = 0.3  # weight in rehearsal of an answer that greedy decoding gave
WIDTHS = (1, 1, 2, 4, 8)  # alternatives of one item that are followed at once, stage by stage


@dataclass(frozen=True, order=True)
class Branch:
    """An alternative not followed yet: the tokens with which the answer would begin, and whether examples stand before
    the prompt; the least cost goes first.
    """

    cost: float
    prefix: tuple[int, ...]
    logprob: float
    aided: bool = False


@dataclass
class Tree:
    """What is known of one item: how often the verifier was asked, and the alternatives not followed yet."""

    calls: int = 1  # the greedy answer is the first
    solved: bool = False
    frontier: list[Branch] = field(default_factory=list)  # the most promising first

    def expand(
        self,
        tokens: Sequence[int],
        branch: Branch,
        credit: float,
        alternatives: Alternatives,
        ends: Sequence[int],
        *,
        cap: int,
        calls: int,
    ) -> None:
        """Add the alternatives of a wrong answer, at its tokens after the prefix of its `branch`; each is preferred by
        `credit` nats. Of the item's `calls` verifier calls one at least is left; as many alternatives are kept, since
        no more are ever followed.

        An alternative that is an end token is left out: nothing would be left to continue. So is one beyond the `cap`
        of an answer's tokens, since it would not be graded. One that ends the answer by a stop string is followed: the
        answer before that string is graded, and the tokens after it are charged.
        """
        begun, room = len(branch.prefix), calls - self.calls
        within = min(len(tokens) + 1, cap) - begun  # the end token counts, unless the answer was cut off
        reached = branch.logprob + np.concatenate([[0.0], np.cumsum(alternatives.taken)[:-1]])
        totals = (reached[:, None] + alternatives.logprobs)[:within]
        costs, others = -totals - credit, alternatives.tokens[:within]
        wanted = (others[..., None] != ends).all(axis=2)
        if wanted.sum() > room:
            wanted &= costs <= np.partition(costs[wanted], room - 1)[room - 1]  # all of equal cost
        steps = np.nonzero(wanted)[0]
        own = zip(steps.tolist(), *(column[wanted].tolist() for column in (others, costs, totals)), strict=True)
        found = [
            Branch(cost, (*tokens[: begun + step], token), total, branch.aided) for step, token, cost, total in own
        ]
        self.frontier = sorted([*self.frontier, *found])[:room]


ROOT = Branch(0.0, (), 0.0)
AIDED = Branch(-math.inf, (), 0.0, aided=True)  # before all others, whatever credit they have


def next_branches(trees: Sequence[Tree], stage: int, calls: int, budget: int) -> list[tuple[int, Branch]]:
    """(tree number, branch) of what to follow in a stage: the best of each unsolved tree, within both caps.

    `calls` caps the verifier calls of each tree, `budget` those of the stage over all trees, of which the most
    promising are made.
    """
    width = WIDTHS[min(stage, len(WIDTHS) - 1)]
    chosen: list[tuple[Branch, int]] = []
    for number, tree in enumerate(trees):
        if not tree.solved:
            count = min(width, calls - tree.calls)
            chosen += [(branch, number) for branch in tree.frontier[:count]]
            del tree.frontier[:count]
    kept = sorted(sorted(chosen)[: max(budget, 0)], key=lambda entry: entry[1])
    for _, number in kept:
        trees[number].calls += 1
    return [(number, branch) for branch, number in kept]


def found_memories(
    item: int, answers: Sequence[tuple[int, ...]], correct: Sequence[bool], gold: tuple[int, ...]
) -> list[Memory]:
    """The accepted answer; at a small weight where greedy decoding gave it. `gold` is not looked at.

    What the organelle can do already teaches little, but rehearsing it keeps it.
    """
    accepted = dict.fromkeys(answer for answer, right in zip(answers, correct, strict=True) if right)
    return [Memory(item, answer, KNOWN if correct[0] else 1.0) for answer in accepted]


def search(run: Run, groups: Sequence[Group]) -> Answers:
    """A greedy answer of every group, then alternatives for the unsolved ones until the episodes are used up."""
    plasticity = run.config.plasticity
    shown = examples(run, groups)
    trees = [Tree(frontier=[AIDED] if own else []) for own in shown]
    answers: Answers = [[] for _ in groups]
    following = [(number, ROOT) for number in range(len(groups))]
    left = run.config.episodes - len(groups)
    stage = 0
    while following:
        outcomes = ask(
            run,
            run.state.population,
            [groups[number].item for number, _ in following],
            np.array([groups[number].organelle.slot for number, _ in following]),
            Manner(
                prefixes=[branch.prefix for _, branch in following],
                examples=[shown[number] if branch.aided else [] for number, branch in following],
                alternatives=ALTERNATIVES,
            ),
        )
        for (number, branch), outcome in zip(following, outcomes, strict=True):
            answers[number].append(outcome)
            tree = trees[number]
            tree.solved |= outcome.grade.correct
            if outcome.alternatives is not None and not tree.solved and tree.calls < plasticity.calls:
                credit = plasticity.partial_credit * outcome.grade.score
                tree.expand(
                    outcome.tokens, branch, credit, outcome.alternatives, run.task.host.eos_ids,
                    cap=run.task.decoding.max_new_tokens, calls=plasticity.calls,
                )  # fmt: skip
        following = next_branches(trees, stage, plasticity.calls, left)
        left -= len(following)
        stage += 1
    return answers


def unaided(correct: Sequence[bool]) -> Sequence[bool]:
    """The greedy answer: what a search finds after it is no evidence of what the organelle can do by itself."""
    return correct[:1]


RULE = Rule(
    "best-first search over token alternatives, then as reinforce",
    act=search,
    learn=rehearse,
    remember=found_memories,
    evidence=unaided,
    greedy=True,
    cooldown=cooldown,
    cool=cool,
)
