"""Learning from memories: in each step the learners rehearse verified answers that they found, bought or inherited."""

from collections.abc import Iterator, Sequence

import numpy as np

from evolora_core.lora.population.train import Batch, build_batch
from evolora_core.searches.adapters.ecology.learning.learners import learners_of, teach, train
from evolora_core.searches.adapters.ecology.memories import Memory
from evolora_core.searches.adapters.ecology.merit import appraise
from evolora_core.searches.adapters.ecology.organelle import Group, Organelle
from evolora_core.searches.adapters.ecology.run import Answers, Run
from evolora_core.searches.adapters.settings.ecology import PlasticityConfig


def rehearse(run: Run, groups: Sequence[Group], answers: Answers) -> None:
    """A generation's learning steps, at the full rate."""
    _rehearse(run, [1.0] * run.steps(1), "rehearse")


def cool(run: Run, decay: Sequence[float]) -> None:
    """The steps of a cooldown."""
    _rehearse(run, decay, "cool")


def cooldown(config: PlasticityConfig) -> float:
    """`plasticity.cooldown`: memories are there after the last generation too."""
    return config.cooldown


def batch_of(run: Run, flat: Sequence[tuple[Organelle, Memory]]) -> Batch:
    """A training batch of memories, each for its organelle."""
    prompts = [run.task.prompts[memory.item] for _, memory in flat]
    answers = [[*memory.tokens, run.task.host.template.end] for _, memory in flat]
    slots = np.array([organelle.slot for organelle, _ in flat])
    return build_batch(run.task.host, prompts, answers, slots, np.ones(len(flat)))


def _rehearse(run: Run, decay: Sequence[float], role: str) -> None:
    """One step of the learners for each factor of their learning rates in `decay`, over what they remember."""
    state, crowd = run.state, run.crowd
    able = {organelle.id for organelle in state.living if state.buffers[organelle.id]}
    shares = teach(run, learners_of(run, able, owing=role == "cool")) if len(decay) else []
    if not shares:
        return
    worth = appraise(run).interest[run.task.cell_of]
    drawn = [  # of all steps at once: nothing is remembered or forgotten between them
        state.buffers[organelle.id].draw(rows * len(decay), run.stream(organelle.id, role), worth)
        for organelle, rows in shares
    ]

    def batches() -> Iterator[Batch]:
        for step in range(len(decay)):
            flat = [
                (organelle, memory)
                for (organelle, rows), own in zip(shares, drawn, strict=True)
                for memory in own[step * rows : (step + 1) * rows]
            ]
            yield batch_of(run, flat)

    train(run, [organelle for organelle, _ in shares], decay, batches(), crowd=crowd)
