"""The loop: a strategy names parents, a proposer makes programs of them, a panel measures these, the generation is
committed.

Programs of a generation are measured at the same time and committed in order, so that how many are measured at a time
changes no byte of the result. A killed loop goes on after its last generation as if nothing had been: what is asked for
follows from the candidates so far, and those are in the commits.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from evolora_core.engine.commits import commit, latest
from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import reached
from evolora_core.engine.progress import Progress
from evolora_core.searches.attention.asked import Numbered, read_calls, write_calls
from evolora_core.searches.attention.candidates import Candidate, ranked
from evolora_core.searches.attention.curves import Curve, load_curve, losses_of, ratios, save_curve
from evolora_core.searches.attention.panel import LADDER_STEPS, Panel, Task, add
from evolora_core.searches.attention.programs.normal import program_id
from evolora_core.searches.attention.programs.rejection import Rejected, Rejection
from evolora_core.searches.attention.proposers.base import Call, Proposal, Proposer, Request, Scored, Unusable
from evolora_core.searches.attention.proposers.spending import Budget as ModelBudget
from evolora_core.searches.attention.proposers.spending import BudgetSpent
from evolora_core.searches.attention.scaling.score import score
from evolora_core.searches.attention.settings import Budget
from evolora_core.searches.attention.strategies import ASKED_TRIES, BASELINE, TRIES, parents

RECENT = 5  # refused programs that a proposer is told of
NAME = "baseline"


@dataclass
class Run:
    """A search in the making."""

    framework: str
    template: str  # the text of the baseline in this framework
    baseline: Curve
    sizes: Sequence[str]
    seeds: Sequence[int]
    budget: Budget
    seed: int
    meter: Meter
    asked: ModelBudget | None = None  # what questions to a model may still cost; None: no model is asked
    spent: bool = False  # whether that has come to its end
    past: list[Candidate] = field(default_factory=list)
    calls: list[Numbered] = field(default_factory=list)

    @property
    def largest(self) -> str:
        """The size at which programs are scored."""
        return self.sizes[-1]


def evolve(
    strategy: str, proposer: Proposer, panel: Panel, run: Run, *, limit: int, checkpoints: Path, report: Progress
) -> None:
    """Propose and measure until `limit` operations are spent, or a stop rule of the budget holds. Fills `run.past`."""
    generation = restore(run, checkpoints)
    plain = panel.plain(run.baseline, [run.largest]) * len(run.seeds)
    template = program_id(run.template)
    while run.meter.total() < limit and not run.spent and not stopped(run):
        reached("generation", number=generation)
        first, first_call = len(run.past), len(run.calls)
        room = -(-(limit - run.meter.total()) // plain)  # programs that the budget has left, rounded up
        proposed = _propose(strategy, proposer, run, generation, min(run.budget.together, room))
        known = {own.program_id: own for own in reversed(run.past) if own.twin is None}
        fresh: list[Candidate] = []
        for own in proposed:
            if own.program_id in known or own.program_id == template or own.rejection:
                continue
            known[own.program_id] = own
            fresh.append(own)
        judged = {own.number: own for own in panel.map(lambda own: judge(own, panel, run), fresh)}
        for own in proposed:
            if run.meter.total() >= limit:  # some cost more than the baseline
                if own.number in judged:
                    outside(run, judged[own.number])
                continue
            candidate = judged.get(own.number) or _twin(own, known, judged, template)
            run.past.append(candidate)
            run.meter.add("selection", candidate.flops, 0, candidate.seconds)
        generation += 1
        added = run.past[first:]
        commit(
            checkpoints,
            generation,
            partial(write_state, run),
            partial(_write_segment, added, run.calls[first_call:]),
        )
        reached("committed", generation=generation, folder=checkpoints)
        best = ranked(run.past)
        report(
            run.meter.total(), limit, f"{len(run.past)} programs, best {best[0].score:+.4f}" if best else "none lives"
        )


def outside(run: Run, dropped: Candidate) -> None:
    """Count a program that was measured beside the last one that the budget paid for, and is dropped. The budget does
    not pay for it, but it was executed and took its time.
    """
    run.meter.add("selection", 0, 0, dropped.seconds, dropped.flops)


def judge(own: Candidate, panel: Panel, run: Run) -> Candidate:
    """Examine a program at every size, measure it at the largest, and score it."""
    verdict = panel.check(own.source, run.framework, run.sizes)
    flops, seconds = LADDER_STEPS * run.baseline.flops[run.sizes[0]], verdict.cpu_seconds
    if verdict.rejection:
        return replace(own, status="rejected", rejection=verdict.rejection, flops=flops, seconds=seconds)
    found = measured_at(own, run, panel, [run.largest], run.seeds)
    found = replace(found, flops=flops + found.flops, seconds=seconds + found.seconds)
    return replace(found, status="rejected") if found.rejection else scored(found, run, run.seeds)


def measured_at(own: Candidate, run: Run, panel: Panel, sizes: Sequence[str], seeds: Sequence[int]) -> Candidate:
    """The candidate with the curve of these sizes and seeds alone, and what that cost."""
    curve, flops, seconds = Curve(), 0, 0.0
    for size in sizes:
        for seed in seeds:
            measured = panel.measure(Task(own.source, size, seed))
            flops, seconds = flops + panel.flops(measured, size, run.baseline.flops), seconds + measured.cpu_seconds
            if measured.rejection:
                return replace(own, rejection=measured.rejection, curve=curve, flops=flops, seconds=seconds)
            add(curve, size, seed, measured)
    return replace(own, curve=curve, flops=flops, seconds=seconds)


def scored(own: Candidate, run: Run, seeds: Sequence[int]) -> Candidate:
    """The score of what was measured."""
    losses = losses_of({NAME: run.baseline, own.program_id: own.curve}, [run.largest], seeds)
    found = score(losses, own.program_id, NAME, ratios(own.curve, run.baseline))
    if not found.passed:
        reason = Rejection(
            "cost" if found.guards[0] in ("flops", "parameters") else "train", f"guard: {', '.join(found.guards)}", ""
        )
        return replace(own, status="guard", rejection=reason, score=None, lo=None, hi=None)
    lo, hi = found.interval or (None, None)
    return replace(own, status="ok", rejection=None, score=found.score, lo=lo, hi=hi)


def _propose(strategy: str, proposer: Proposer, run: Run, generation: int, together: int) -> list[Candidate]:
    """The programs of a generation, none of them known as far as a few tries allow; unmeasured."""
    told = {own.number: own for own in run.past}
    failures = tuple(_told(own) for own in run.past if own.rejection)[-RECENT:]
    known = {own.program_id for own in run.past} | {program_id(run.template)}
    found: list[Candidate] = []
    for slot in range(together):
        numbers = parents(strategy, run.past, run.seed, generation, slot)
        givers = tuple(_told(told[number]) if number != BASELINE else _baseline(run) for number in numbers)
        number, own = len(run.past) + slot, None
        for attempt in range(TRIES if run.asked is None else ASKED_TRIES):
            key = (run.seed, generation, slot + 1000 * attempt)
            request = Request(run.framework, givers, failures, key)
            try:
                own, call = _candidate(proposer, request, number, generation, slot, numbers)
            except BudgetSpent:
                run.spent = True
                break
            if call is not None:
                run.calls.append((number, call))
            if own.program_id not in known or own.rejection:
                break
        if own is not None:
            known.add(own.program_id)
            found.append(own)
        if run.spent:
            break
    return found


def _candidate(
    proposer: Proposer, request: Request, number: int, generation: int, slot: int, numbers: tuple[int, ...]
) -> tuple[Candidate, Call | None]:
    """What a proposer makes of a request, and the question that it cost; a refused answer is a candidate too."""
    made, identity, rejection = Proposal("", None, "unusable", ()), "", None
    try:
        made = proposer.propose(request)
        identity = program_id(made.source)
    except Rejected as error:  # there is no answer, or it is no Python
        rejection = error.rejection
        if isinstance(error, Unusable):
            made = replace(made, call=error.call, parents=error.parents)  # those that the model was shown
    givers = zip(numbers, request.parents, strict=True)
    used = tuple(number for number, giver in givers if giver.program_id in made.parents)
    own = Candidate(
        number, generation, slot, identity, made.source, made.genome, made.operator, used,
        "rejected" if rejection else "proposed", rejection, None, None, None, Curve(), None, 0,
    )  # fmt: skip
    return own, made.call


def _twin(own: Candidate, known: Mapping[str, Candidate], judged: Mapping[int, Candidate], template: str) -> Candidate:
    """A program that was known, with what is known of it, at no cost; or one that is no program. The baseline, whose
    program is `template`, is known from the beginning.
    """
    if own.rejection:
        return own
    if own.program_id == template:
        return replace(own, status="twin", score=0.0, twin=BASELINE)
    first = known[own.program_id]
    first = judged.get(first.number, first)
    return replace(
        own, status="twin", score=first.score, lo=first.lo, hi=first.hi, rejection=first.rejection, twin=first.number
    )


def _told(own: Candidate) -> Scored:
    return Scored(own.program_id, own.source, own.genome, own.score, own.rejection)


def _baseline(run: Run) -> Scored:
    from evolora_core.searches.attention.grammar.registry import get_grammar

    return Scored(NAME, run.template, get_grammar(run.framework).baseline(), 0.0, None)


def stopped(run: Run) -> bool:
    """Whether a stop rule holds: too many in a row that were refused or known, or nothing better for long. What was
    measured and left behind is neither; known programs cost nothing, so that the budget alone would never end them.
    """
    tail = run.past[-run.budget.failures :]
    if len(tail) == run.budget.failures and all(own.status in ("rejected", "twin") for own in tail):
        return True
    best = ranked(run.past)
    return bool(run.budget.patience and best and len(run.past) - 1 - best[0].number >= run.budget.patience)


def write(added: Sequence[Candidate], folder: Path) -> None:
    """Write candidates as files: their facts as JSON, their losses as tensors."""
    rows = []
    for own in added:
        facts = {key: value for key, value in vars(own).items() if key not in ("curve", "rejection", "genome")}
        facts["genome"] = dict(own.genome) if own.genome is not None else None
        facts["rejection"] = vars(own.rejection) if own.rejection else None
        rows.append(facts)
        if own.curve.texts:
            save_curve(own.curve, folder / f"curve-{own.number}")
    (folder / "candidates.json").write_text(json.dumps(rows), encoding="utf-8")


def _write_segment(added: Sequence[Candidate], calls: Sequence[Numbered], folder: Path) -> None:
    write(added, folder)
    write_calls(calls, folder)


def write_state(run: Run, folder: Path) -> None:
    """Write what a commit needs beside the candidates."""
    (folder / "meter.json").write_text(json.dumps(run.meter.state() | {"spent": run.spent}), encoding="utf-8")


def read(folder: Path) -> list[Candidate]:
    """What `write` left."""
    found = []
    for facts in json.loads((folder / "candidates.json").read_text(encoding="utf-8")):
        path = folder / f"curve-{facts['number']}"
        rejection = Rejection(**facts.pop("rejection")) if facts["rejection"] else facts.pop("rejection")
        curve = load_curve(path) if path.with_suffix(".json").exists() else Curve()
        found.append(Candidate(**facts | {"parents": tuple(facts["parents"])}, rejection=rejection, curve=curve))
    return found


def restore(run: Run, checkpoints: Path) -> int:
    """Take over what a killed loop committed; returns the generations that are done."""
    last = latest(checkpoints)
    if last is None:
        return 0
    state = json.loads((last.folder / "meter.json").read_text(encoding="utf-8"))
    run.meter.merge(Meter.from_state(state))
    run.spent = state["spent"]
    for segment in last.segments:
        run.past += read(segment)
        run.calls += read_calls(segment)
    if run.asked is not None:
        for _, call in run.calls:
            run.asked.count(call)
    return last.number


# The columns of the table `attention_programs`.
PROGRAM = (
    "candidate", "program_id", "source", "score_lo", "score_hi", "chosen", "seconds", "final_score", "final_lo",
    "final_hi",
)  # fmt: skip


def rows_of(past: Sequence[Candidate], finalists: Sequence[Candidate]) -> dict[str, list[dict[str, Any]]]:
    """The tables `candidates`, `candidate_parents` and `attention_programs` of a run. finalists: with the scores over
    all their seeds, the chosen one first.
    """
    final = {own.number: own for own in finalists}
    candidates, lineage, programs = [], [], []
    for own in past:
        rejection = own.rejection
        candidates.append(
            {
                "candidate": own.number,
                "generation": own.generation,
                "slot": own.slot,
                "operator": own.operator,
                "genome": json.dumps(dict(own.genome), sort_keys=True) if own.genome is not None else None,
                "genome_id": own.program_id,
                "status": "ok" if own.score is not None else "failed",
                "reject_stage": rejection.stage if rejection else "",
                "reason": rejection.why if rejection else "",
                "score": own.score,
                "fresh": own.twin is None,
                "flops": own.flops,
            }
        )
        roles = ("parent", "mate")
        lineage += [
            {"child": own.number, "parent": parent, "role": role}
            for parent, role in zip(own.parents, roles, strict=False)
            if parent != BASELINE
        ]
        last = final.get(own.number)
        facts = (
            own.number, own.program_id, own.source, own.lo, own.hi, own.number == finalists[0].number, own.seconds,
            *((last.score, last.lo, last.hi) if last else (None, None, None)),
        )  # fmt: skip
        programs.append(dict(zip(PROGRAM, facts, strict=True)))
    return {"candidates": candidates, "candidate_parents": lineage, "attention_programs": programs}
