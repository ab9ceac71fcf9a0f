"""One fine-tuning of the base on all domains, with the steps of all specialists together: what there would be if nobody
had trained specialists. It spends their compute, not that of the search.
"""

import time

from evolora_core.searches.merging.choice import Choice
from evolora_core.searches.merging.controls.task import Task
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.roles import BASE, MODEL
from evolora_core.searches.merging.training import fine_tune, save_model


def choose(task: Task) -> Choice:
    """Leaves the weights in the folder `model`."""
    judge, pool, settings = task.judge, task.judge.pool, task.specialists
    base = pool.models[BASE]
    model = shell(base.config, pool.host.device)
    fill(model, base.get)
    steps, started = settings.steps * len(task.parents), time.monotonic()
    spent = fine_tune(
        pool.host,
        model,
        task.train,
        steps=steps,
        rows=settings.rows,
        learning_rate=settings.learning_rate,
        seed=task.seed,
        role="merge.multitask",
        after=lambda step: task.report(step, steps, "steps on all domains"),
    )
    judge.meter.add("update", spent.flops, spent.tokens, time.monotonic() - started)
    score = judge.measure_model(model, "search").score
    save_model(model, pool.host, task.folder / MODEL)
    return Choice("weights", evaluations=1, search_score=score, note=f"{steps} steps on all domains")
