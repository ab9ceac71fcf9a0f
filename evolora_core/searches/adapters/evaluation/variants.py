"""Robustness: the items of a split asked again, each with its prompt in other forms."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evolora_core.engine.meter import Meter
from evolora_core.engine.progress import Progress, silent
from evolora_core.language.families.base import Item
from evolora_core.language.hosts.host import Host
from evolora_core.lora.answering.grading import TOO_LONG, charge
from evolora_core.lora.answering.outcome import Decoding, Outcome
from evolora_core.lora.population.stack import Population
from evolora_core.searches.adapters.evaluation.forms import FORMS, PLAIN, fits
from evolora_core.searches.adapters.routing.learned import Classifier
from evolora_core.searches.adapters.routing.routes import Routes
from evolora_core.searches.adapters.routing.sending import send
from evolora_core.searches.adapters.routing.shots import Shots, answer_shown

UNFIT = "words after the prompt would be part of the question"


def ask_variants(
    host: Host,
    population: Population | None,
    plain: Sequence[Outcome],
    routes: Routes | None,
    classifier: Classifier | None,
    meter: Meter,
    *,
    organelles: Mapping[int, int] | None = None,
    shots: Shots | None = None,
    decoding: Decoding,
    progress: Progress = silent,
    folder: Path | None = None,
) -> list[dict[str, Any]]:
    """Rows {form, task_id, organelle, answer, correct, reason} of the table `variants`: every item in every form.

    `plain` are the outcomes of the items in their own form under the router of `routes` (None: the bare host), which
    routes each form anew: `learned` goes by its prompt, with its `classifier`. An item is not asked in a form that
    would change its right answer, nor where the prompt and the token cap do not fit the host's context: `correct` is
    then None, and `reason` says why. All else is charged to `meter` as evaluation. `organelles` are their ids by slot,
    where those are known; `progress` and `folder` as for `answer_items`.
    """
    asked = [(form, outcome) for form in FORMS if form != PLAIN for outcome in plain if fits(form, outcome.item)]
    items = [outcome.item for _, outcome in asked]
    prompts = [FORMS[form](outcome.item.prompt) for form, outcome in asked]
    said = [replace(item, prompt=prompt) for item, prompt in zip(items, prompts, strict=True)]
    sent = send(host, said, routes, classifier, meter)
    started = time.perf_counter()
    outcomes = answer_shown(
        host,
        population,
        items,
        sent.candidates.tolist(),
        shots,
        sent.told,
        decoding=decoding,
        prompts=prompts,
        progress=progress,
        folder=folder,
    )
    charge(meter, "evaluation", outcomes, time.perf_counter() - started)
    given = {(form, outcome.item.task_id): answer for (form, outcome), answer in zip(asked, outcomes, strict=True)}
    given |= {(PLAIN, outcome.item.task_id): outcome for outcome in plain}
    ids = organelles or {}
    return [_row(form, o.item, given.get((form, o.item.task_id)), ids) for form in FORMS for o in plain]


def _row(form: str, item: Item, outcome: Outcome | None, organelles: Mapping[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"form": form, "task_id": item.task_id, "organelle": None, "answer": None, "correct": None}
    if outcome is None:
        return row | {"reason": UNFIT}
    grade = outcome.grade
    if grade == TOO_LONG:
        return row | {"reason": grade.reason}
    asked = organelles.get(outcome.slot, outcome.slot)
    return row | {"organelle": asked, "answer": outcome.answer, "correct": grade.correct, "reason": grade.reason}
