"""The loop: a strategy proposes a generation, each candidate is measured, the generation is committed.

A killed loop goes on after its last committed generation and ends as if nothing had been: a strategy proposes from the
candidates so far, and those are the rows of the commits.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from evolora_core.engine.artifacts import write_json
from evolora_core.engine.commits import commit, latest
from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import reached
from evolora_core.engine.progress import Progress
from evolora_core.engine.tables import read_table, write_table
from evolora_core.searches.merging.judging.judge import Failed, Judge
from evolora_core.searches.merging.recipe import Genome
from evolora_core.searches.merging.strategies.base import Candidate, Proposal, Strategy, ranked

TABLES = ("candidates", "candidate_domains", "candidate_parents", "merge_generations")
IDLE = 5  # generations without a new genome, after which a strategy has nothing left to find
SOLVED = "solved.json"


@dataclass
class Evolution:
    """A run in the making: its candidates, and the rows of its tables.

    idle   generations without a new genome, the last ones in a row
    spent  whether the next candidate would have cost more than was left
    """

    domains: Sequence[str]
    past: list[Candidate] = field(default_factory=list)
    idle: int = 0
    spent: bool = False
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})

    @property
    def measured(self) -> int:
        """Genomes that were measured, those that failed among them."""
        return sum(row["fresh"] for row in self.rows["candidates"])


def evolve(
    strategy: Strategy,
    judge: Judge,
    domains: Sequence[str],
    *,
    budget: int,
    generations: int,
    checkpoints: Path,
    report: Progress,
) -> Evolution:
    """Propose and measure until the next candidate would cost more than is left of `budget` (FLOPs), the strategy has
    nothing more to propose, or so many generations are done. The meter of `judge` says what was spent.
    """
    run = Evolution(domains)
    number = restore(run, judge.meter, checkpoints)
    known: dict[str, Candidate] = {}
    for candidate in run.past:
        known.setdefault(candidate.genome.id, candidate)
    while number < generations and run.idle < IDLE and not run.spent:
        reached("generation", number=number)
        before = {name: len(rows) for name, rows in run.rows.items()}
        first, fresh = len(run.past), run.measured
        for slot, proposal in enumerate(strategy.propose(number, run.past[:first])):
            if proposal.genome.id not in known and judge.meter.total() + judge.cost(proposal.genome) > budget:
                run.spent = True
                break
            known.setdefault(proposal.genome.id, _measure(run, judge, proposal, number, slot, known))
        if len(run.past) == first:
            break
        run.idle = run.idle + 1 if run.measured == fresh else 0
        _summarise(run, judge.meter, number, first)
        number += 1
        added = {name: rows[before[name] :] for name, rows in run.rows.items()}
        folder = commit(
            checkpoints,
            number,
            lambda into: write_json(into / "meter.json", judge.meter.state() | {"idle": run.idle, "spent": run.spent}),
            lambda into, added=added, first=first: _append(into, added, run.past[first:]),  # type: ignore[misc]
        )
        reached("committed", generation=number, folder=folder)
        best = ranked(run.past)
        report(judge.meter.total(), budget, f"best {best[0].score:.4f}" if best else "none lives")
    return run


def _measure(
    run: Evolution, judge: Judge, proposal: Proposal, generation: int, slot: int, known: dict[str, Candidate]
) -> Candidate:
    """Measure a proposal, or take over what is known of an equal genome, and keep its rows."""
    before, number = judge.meter.total(), len(run.past)
    twin = known.get(proposal.genome.id)
    stage, reason = "", ""
    if twin is not None:
        score, domains, solved = twin.score, twin.domains, twin.solved
        stage, reason = ("twin", f"equal to candidate {twin.number}") if score is None else ("", "")
    else:
        try:
            found = judge.measure(proposal.genome)
            score, domains, solved = found.score, found.domains, found.solved
        except Failed as failure:
            questions = judge.questions["search"]
            score, stage, reason = None, failure.stage, failure.reason
            domains = np.full(len(run.domains), np.nan)
            solved = np.zeros(len(questions.items), dtype=bool)
    candidate = Candidate(number, generation, slot, proposal, score, domains, solved)
    run.past.append(candidate)
    run.rows["candidates"].append(
        {
            "candidate": number,
            "generation": generation,
            "slot": slot,
            "operator": proposal.operator,
            "genome": proposal.genome.text,
            "genome_id": proposal.genome.id,
            "status": "ok" if score is not None else "failed",
            "reject_stage": stage,
            "reason": reason,
            "score": score,
            "fresh": twin is None,
            "flops": judge.meter.total() - before,
        }
    )
    of = judge.questions["search"].domain_of
    run.rows["candidate_domains"] += [
        {
            "candidate": number,
            "domain": name,
            "score": None if score is None else float(domains[place]),
            "solved": float(solved[of == place].mean()),
        }
        for place, name in enumerate(run.domains)
    ]
    run.rows["candidate_parents"] += [
        {"child": number, "parent": parent, "role": role} for parent, role in proposal.parents
    ]
    return candidate


def _summarise(run: Evolution, meter: Meter, generation: int, first: int) -> None:
    """The row of a generation."""
    own = run.past[first:]
    alive = [candidate for candidate in own if candidate.score is not None]
    scores = [candidate.score for candidate in alive if candidate.score is not None]
    best = ranked(run.past)
    run.rows["merge_generations"].append(
        {
            "generation": generation,
            "candidates": len(own),
            "failed": len(own) - len(alive),
            "best": best[0].score if best else None,
            "mean": float(np.mean(scores)) if scores else None,
            "diversity": diversity(np.array([candidate.solved for candidate in alive])),
            "evaluations": run.measured,
            "flops": meter.total(),
        }
    )


def diversity(solved: np.ndarray) -> float | None:
    """Mean share of items on which two of the candidates differ, `solved` being `[candidates, items]`."""
    count = len(solved)
    if count < 2:
        return None
    share = solved.mean(axis=0)
    return float((2 * share * (1 - share)).mean() * count / (count - 1))


def restore(run: Evolution, meter: Meter, checkpoints: Path) -> int:
    """Take over what a killed loop committed; returns the generations that are done."""
    last = latest(checkpoints)
    if last is None:
        return 0
    state = json.loads((last.folder / "meter.json").read_text(encoding="utf-8"))
    meter.merge(Meter.from_state(state))
    run.idle, run.spent = state["idle"], state["spent"]
    solved: list[np.ndarray] = []
    for segment in last.segments:
        for name in TABLES:
            if (segment / f"{name}.parquet").exists():
                run.rows[name] += read_table(segment, name)
        solved += _solved(segment)
    parents: dict[int, list[tuple[int, str]]] = {}
    for row in run.rows["candidate_parents"]:
        parents.setdefault(row["child"], []).append((row["parent"], row["role"]))
    scores: dict[int, list[float]] = {}
    for row in run.rows["candidate_domains"]:
        scores.setdefault(row["candidate"], []).append(np.nan if row["score"] is None else row["score"])
    for row, items in zip(run.rows["candidates"], solved, strict=True):
        number = row["candidate"]
        proposal = Proposal(Genome.read(row["genome"]), row["operator"], tuple(parents.get(number, ())))
        own = np.array(scores[number])
        run.past.append(Candidate(number, row["generation"], row["slot"], proposal, row["score"], own, items))
    return last.number


def _solved(segment: Path) -> list[np.ndarray]:
    """What each candidate of a segment solved, as `_append` left it."""
    found = json.loads((segment / SOLVED).read_text(encoding="utf-8"))
    packed = [np.frombuffer(bytes.fromhex(bits), dtype=np.uint8) for bits in found["bits"]]
    return [np.unpackbits(own, count=found["items"]).astype(bool) for own in packed]


def _append(folder: Path, added: dict[str, list[dict[str, Any]]], own: Sequence[Candidate]) -> None:
    for name, rows in added.items():
        if rows:
            write_table(folder, name, rows)
    bits = [np.packbits(candidate.solved).tobytes().hex() for candidate in own]
    write_json(folder / SOLVED, {"items": len(own[0].solved), "bits": bits})
