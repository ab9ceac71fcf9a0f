"""The stages of an evolution of one number."""

import json
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel

from evolora_core.engine import rng
from evolora_core.engine.stage import (
    JUDGED,
    SHARED,
    Made,
    Stage,
    StageRequest,
    StageResult,
    Suite,
    Work,
    stage_request,
)
from evolora_core.engine.strict import Strict
from evolora_core.engine.tables import write_table

if TYPE_CHECKING:
    from number_search.search import NumberExperiment

ITEMS = 40  # questions of the form: is the number found within so much of the hidden one?


class Hidden(Strict):
    """The number that is to be found."""

    hidden: float


class Hints(BaseModel):
    """How many hints there are."""

    hints: int


class Drawing(Strict):
    """How often how many numbers are drawn."""

    steps: int
    children: int


class Found(BaseModel):
    """The best number."""

    best: float


class Judged(BaseModel):
    """Share of right answers, and with what they were judged."""

    acc: float
    comparable: dict[str, str]


def request_hints(suite: "Suite[NumberExperiment]", seed: int) -> StageRequest:
    """The hidden number, as what a search may ask."""
    config = Hidden(hidden=suite.config.hidden)
    return stage_request(suite, "hints", SHARED, seed, entry=__name__, config=config, inputs={}, uses_host=False)


def make_hints(work: Work[Hidden]) -> Made[Hints]:
    """Leaves hints.json."""
    (work.folder / "hints.json").write_text(json.dumps(work.config.hidden))
    return Made(0, Hints(hints=1))


def request(suite: "Suite[NumberExperiment]", condition: str, seed: int, *, hints: StageResult) -> StageRequest:
    """Draw around the best."""
    return _request(suite, "evolve", condition, seed, hints)


def request_guess(suite: "Suite[NumberExperiment]", condition: str, seed: int, *, hints: StageResult) -> StageRequest:
    """Draw anywhere."""
    return _request(suite, "guess", condition, seed, hints)


def _request(
    suite: "Suite[NumberExperiment]", stage: str, condition: str, seed: int, hints: StageResult
) -> StageRequest:
    config = Drawing(steps=suite.config.steps, children=suite.config.children)
    inputs = {"hints": hints}
    return stage_request(suite, stage, condition, seed, entry=__name__, config=config, inputs=inputs, uses_host=False)


def evolve(work: Work[Drawing]) -> Made[Found]:
    """Each round's children lie around the best number so far."""
    return _search(work, 0.1)


def guess(work: Work[Drawing]) -> Made[Found]:
    """Each round's children lie anywhere."""
    return _search(work, None)


def _search(work: Work[Drawing], spread: float | None) -> Made[Found]:
    """Leaves found.json and the tables `number_steps`, `number_tries` and `compute`."""
    hidden = float(json.loads((work.inputs["hints"] / "hints.json").read_text()))
    best, rows, tries = 0.0, [], []
    for step in range(work.config.steps):
        chance = rng.stream(work.seed, step, 0, "number")
        drawn = chance.random(work.config.children)
        if spread is not None:
            drawn = np.clip(best + spread * chance.standard_normal(work.config.children), 0.0, 1.0)
        best = float(min([best, *drawn], key=lambda number: abs(number - hidden)))
        rows.append({"step": step, "number": best, "error": abs(best - hidden), "note": ""})
        tries += [{"step": step, "place": place, "number": float(number)} for place, number in enumerate(drawn)]
        work.report(step + 1, work.config.steps, f"best {best:.3f}")
    (work.folder / "found.json").write_text(json.dumps({"best": best, "hidden": hidden}))
    write_table(work.folder, "number_steps", rows)
    write_table(work.folder, "number_tries", tries)
    spent = {"purpose": "rollout", "flops": len(tries), "executed_flops": len(tries), "tokens": 0, "seconds": 0.0}
    write_table(work.folder, "compute", [spent])
    return Made(len(tries), Found(best=best))


class Question(Strict):
    """Who is judged."""

    condition: str


def request_judgement(
    suite: "Suite[NumberExperiment]", condition: str, seed: int, *, found: StageResult
) -> StageRequest:
    """Judge what a condition found."""
    config = Question(condition=condition)
    return stage_request(
        suite, JUDGED, condition, seed, entry=__name__, config=config, inputs={"found": found}, uses_host=False
    )


def judge(work: Work[Question]) -> Made[Judged]:
    """Leaves the table `evaluations`: an item is right if the number is within its tolerance."""
    found = json.loads((work.inputs["found"] / "found.json").read_text())
    right = [abs(found["best"] - found["hidden"]) < (item + 1) / (4 * ITEMS) for item in range(ITEMS)]
    rows = [
        {"split": "test", "task_id": f"within {item:02d}", "family": "number", "depth": "short", "correct": own}
        | {"arm": work.config.condition, "score": float(own), "flops": 1, "answered_with": found["best"]}
        for item, own in enumerate(right)
    ]
    write_table(work.folder, "evaluations", rows)
    return Made(len(rows), Judged(acc=sum(right) / len(right), comparable={"hidden": str(found["hidden"])}))


HINTS = Stage("hints", request_hints, make_hints)
EVALUATE = Stage(JUDGED, request_judgement, judge)
