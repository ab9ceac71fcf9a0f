"""A base and its parents, made in a few steps in a folder of their own: what that takes foretells whole trainings."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evolora_core.engine.stage import Suite, Work
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host, load_host
from evolora_core.language.hosts.kept import stage_host
from evolora_core.searches.estimating import Expected, bytes_of
from evolora_core.searches.merging.compatibility import open_own
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.pool import Pool
from evolora_core.searches.merging.roles import BASE
from evolora_core.searches.merging.stages import base
from evolora_core.searches.merging.training import fine_tune
from evolora_core.searches.merging.weights import Loaded, Weights

STEPS, BASE_STEPS = 3, 12  # of a fine-tuning, and of the training of a base, whose rows are less alike


@dataclass(frozen=True)
class ShortFamily:
    """What was made of it in a few steps, and what the whole of it takes.

    base      training of the base; nothing where the suite's host is the base
    parents   of each parent its fine-tuning, and the model that it leaves
    multitask fine-tuning on all domains for as many steps as all specialists together
    pace      seconds for each FLOP of a fine-tuning
    """

    pool: Pool
    base: Expected
    parents: Mapping[str, Expected]
    multitask: Expected
    pace: float


def make_family(
    suite: Suite[MergeExperiment], seed: int, width: int | None, train: Mapping[str, Sequence[Item]], folder: Path
) -> ShortFamily:
    """Make the base of a seed, of that width, and its parents. `train` are the training items by domain. ConfigError
    for a model of the user's that cannot be merged with the base."""
    folder.mkdir()
    host, made = _base(suite, seed, width, folder)
    own, models = Loaded.of(host.model), dict[str, Weights]()
    parents: dict[str, Expected] = {}
    trained: list[Expected] = []
    for name in suite.config.parents:
        if name in suite.config.models:
            models[name] = open_own(name, suite.config.models[name], own, suite.config.host)
            parents[name] = Expected()
            continue
        model, spent = _tuned(suite, seed, host, own, train[name])
        models[name], parents[name] = Loaded.of(model), replace(spent, bytes=_size(model))
        trained.append(spent)
    every = [item for items in train.values() for item in items]
    size = _size(host.model)
    if not trained:
        trained = [_tuned(suite, seed, host, own, every)[1]]
    once = Expected(sum(one.flops for one in trained), sum(one.seconds for one in trained), size)
    share = len(suite.config.parents) / len(trained)
    multitask = Expected(share * once.flops, share * once.seconds, size)
    pool = Pool(host, tuple(suite.config.parents), {BASE: own, **models})
    return ShortFamily(pool, made, parents, multitask, once.seconds / max(1.0, once.flops))


def _base(suite: Suite[MergeExperiment], seed: int, width: int | None, folder: Path) -> tuple[Host, Expected]:
    request = base.request(suite, seed, width)
    training = request.config.training  # type: ignore[attr-defined]
    work: Work[Any] = Work(config=request.config, host=suite.host, seed=seed, folder=folder)
    if training is None:
        return stage_host(work), Expected()
    from evolora_core.pretraining.training import pretrain

    steps = min(BASE_STEPS, training.schedule.steps)
    schedule = training.schedule.model_copy(update={"steps": steps})
    started = time.perf_counter()
    report = pretrain(training.model_copy(update={"schedule": schedule}), folder / BASE)
    taken, longer = time.perf_counter() - started, training.schedule.steps / steps
    assert suite.host is not None
    host = load_host(str(folder / BASE), device=suite.host.device, dtype=suite.host.dtype)
    seconds = longer * report.seconds + taken - report.seconds
    return host, Expected(longer * report.flops, seconds, bytes_of(folder / BASE))


def _tuned(
    suite: Suite[MergeExperiment], seed: int, host: Host, own: Loaded, items: Sequence[Item]
) -> tuple[Any, Expected]:
    """The base after a few steps on some items, and what all steps of a specialist take."""
    settings = suite.config.specialists
    model = shell(own.config, host.device)
    fill(model, own.get)
    steps, done = min(STEPS, settings.steps), [time.perf_counter()]
    spent = fine_tune(
        host,
        model,
        items,
        steps=steps,
        rows=settings.rows,
        learning_rate=settings.learning_rate,
        seed=seed,
        role="merge.estimate",
        after=lambda step: done.append(time.perf_counter()),
    )
    first = min(1, steps - 1)  # the first step encodes the items too
    step = (done[-1] - done[first]) / (steps - first)
    return model, Expected(settings.steps / steps * spent.flops, settings.steps * step)


def _size(model: Any) -> int:
    """Bytes of the weights of a model that a stage leaves; what lies beside them is little."""
    return sum(own.numel() * own.element_size() for own in model.parameters())
