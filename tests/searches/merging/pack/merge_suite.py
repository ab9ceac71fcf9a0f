"""A finished merge suite on disk, small and made up: every arm, with real Parquet tables. Nothing here is a result."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
from example_suite import part, suite_id, write_stage
from instruments import LANDSCAPE, LAW, landscape_stages, law_stages

from evolora_core.engine.rng import stream
from evolora_core.engine.run_index import write_suite as write_suite_file
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.names import STRATEGIES
from evolora_core.searches.merging.recipe import Genome, Merge, Route, Step
from evolora_core.statistics.comparisons import write_comparisons
from evolora_core.store import Slice

SUITE = "merges-0a1b2c3d"
DOMAINS = {"code": "code.format", "math": "math.sequence", "structured": "json_repair", "multilingual": "number.words"}
PARENTS = tuple(DOMAINS)
SKILL = {  # how well an arm's model answers; a parent has its own domain beside
    "base": 0.35, "best-parent": 0.48, "uniform": 0.55, "greedy-soup": 0.56, "lambda-grid": 0.6, "model-stock": 0.53,
    "ensemble": 0.62, "adam": 0.7, "fine-tuned-mean": 0.68, "multitask": 0.8, "random": 0.6,
    "evomerge-as-published": 0.61, "evomerge": 0.66, "cma": 0.68, "cycleqd": 0.63, "niches": 0.62,
    "evomerge-routes": 0.57,
}  # fmt: skip
CONDITIONS = ("evomerge-routes", *(f"parent-{name}" for name in PARENTS), *list(SKILL)[:-1])  # in no good order
COMPARISONS = [{"a": "evomerge", "b": b} for b in ("best-parent", "lambda-grid", "random", "adam")]
COMPARISONS += [{"a": "uniform", "b": "base"}]
EVALUATIONS = 60
ITEM = 10**9  # FLOPs of a measurement
MEAN = Genome(recipe=Merge(op="linear", inputs=list(PARENTS)))
TIES = Genome(
    recipe=Merge(
        op="ties", inputs=list(PARENTS), params={"weight": [[0.5, 0.71], 1.0, 0.25, 0.3333], "density": 0.4}
    )
)  # fmt: skip
PATH = ((0, 0, 1.0), (0, 1, 1.0), (1, 1, 1.0), (1, 1, 0.9))
ROUTE = Genome(
    recipe=Route(
        inputs=[Merge(op="linear", inputs=["code", "math"]), "math"],
        route=[Step(input=i, layer=layer, scale=scale) for i, layer, scale in (PATH)],
    )
)  # fmt: skip


def config(seeds: Sequence[int], conditions: Sequence[str], instruments: bool) -> dict[str, Any]:
    """The resolved suite."""
    named = set(conditions)
    asked = {"landscape": LANDSCAPE.model_dump(), "law": LAW.model_dump()} if instruments else {}
    return MergeExperiment.model_validate(
        {
            "name": suite_id(SUITE).name,
            "seeds": list(seeds),
            "conditions": list(conditions),
            "arms": {"evomerge-routes": {"like": "evomerge", "space": "routes"}} if "evomerge-routes" in named else {},
            "domains": {name: {"families": [family]} for name, family in DOMAINS.items()},
            "evaluation": {"comparisons": [p for p in COMPARISONS if {p["a"], p["b"]} <= named], "bootstrap": 1000},
            **asked,
        }
    ).model_dump(mode="json")


def write_suite(
    home: Path,
    seeds: Sequence[int] = (0, 1, 2),
    conditions: Sequence[str] = CONDITIONS,
    items: int = 16,
    instruments: bool = True,
    poor: Mapping[str, int] = MappingProxyType({}),
) -> list[Slice]:
    """Every stage of a suite, with a landscape and a law if it has `instruments`; returns their slices. `poor`: the
    seed with which a condition was not run, as its budget is too small.
    """
    made = []
    for seed in seeds:
        made += [_data(home, seed), *(_parent(home, seed, name) for name in PARENTS)]
        if instruments:
            made += [*landscape_stages(home, SUITE, seed, PARENTS), *law_stages(home, SUITE, seed, PARENTS)]
        for condition in conditions:
            if poor.get(condition) == seed:
                made += [_not_run(home, condition, seed, stage) for stage in ("control", "evaluate")]
                continue
            made.append(_chosen(home, condition, seed))
            made.append(_evaluate(home, condition, seed, items))
    resolved = config(seeds, conditions, instruments)
    write_suite_file(home, suite_id(SUITE), resolved)
    runs = [(condition, seed) for condition in conditions for seed in seeds]
    folders = {run: home / part(SUITE, *run, "evaluate").folder for run in runs}
    with TemporaryDirectory() as out:
        tables: Any = write_comparisons(folders, resolved["evaluation"]["comparisons"], Path(out), resamples=1000)
    made.append(write_stage(home, part(SUITE, "suite", 0, "compare"), tables))
    return made


def _data(home: Path, seed: int) -> Slice:
    splits = ("train", "search", "selection", "test")
    drawn = [
        {"split": split, "family": family, "depth": "short", "n": 16, "sha256": f"{seed}{split}{family}"}
        for split in splits
        for family in DOMAINS.values()
    ]
    leaks = [{"split_a": "train", "split_b": split, "shared": 0} for split in splits[1:]]
    return write_stage(home, part(SUITE, "shared", seed, "datasets"), {"splits": drawn, "leaks": leaks})


def _parent(home: Path, seed: int, name: str) -> Slice:
    far = 0.05 + 0.01 * PARENTS.index(name) + 0.001 * seed
    row = {"parent": name, "domain": name, "drift": far, "steps": 200, "loss": 0.12, "weights_sha256": f"{seed}{name}"}
    tables: Any = {"merge_parents": [row], "compute": [_spent("update", 5 * 10**12)]}
    return write_stage(home, part(SUITE, "shared", seed, f"parent-{name}"), tables)


def _chosen(home: Path, condition: str, seed: int) -> Slice:
    """A search with its candidates, or a control."""
    kind = "evomerge" if condition == "evomerge-routes" else condition
    search, space = _score(condition, seed), ""
    row: dict[str, Any] = {"arm_kind": kind, "kind": "recipe", "genome": MEAN.text, "genome_id": MEAN.id, "note": ""}
    row |= {"candidate": None, "evaluations": 1, "selection_score": search - 0.02}
    tables: dict[str, list[dict[str, Any]]] = {"compute": [_spent("rollout", ITEM)]}
    if kind in STRATEGIES:
        space = "routes" if condition == "evomerge-routes" else "smooth" if kind == "cma" else "operators"
        own = {"routes": ROUTE, "smooth": MEAN, "operators": TIES}[space]
        tables |= _candidates(condition, seed, search)
        best = max((c for c in tables["candidates"] if c["score"] is not None), key=lambda c: c["score"])
        row |= {"genome": own.text, "genome_id": own.id, "candidate": best["candidate"], "evaluations": EVALUATIONS}
        search = best["score"]
    elif kind in ("fine-tuned-mean", "multitask", "ensemble"):
        row |= {"kind": "ensemble" if kind == "ensemble" else "weights", "genome": None, "genome_id": None}
        row |= {"note": "step 30 of 40, learning rate 0.0005"}
    elif kind == "base" or kind.startswith("parent-"):
        one = Genome(recipe=kind.removeprefix("parent-"))
        row |= {"genome": one.text, "genome_id": one.id, "selection_score": None}
    tables["merge_choices"] = [row | {"search_score": search, "space": space}]
    tables["compute"] = [_spent("rollout", ITEM * row["evaluations"]), _spent("selection", ITEM * 8)]
    return write_stage(home, part(SUITE, condition, seed, "search" if kind in STRATEGIES else "control"), tables)


def _not_run(home: Path, condition: str, seed: int, stage: str) -> Slice:
    facts = {"not_run": f"{condition}: 0 steps are left; raise budget.evaluations"}
    return write_stage(home, part(SUITE, condition, seed, stage), {}, summary=facts)


def _score(condition: str, seed: int) -> float:
    """A search score that goes with the skill; what descended on the search items looks better than it is."""
    skill = SKILL.get(condition, 0.4)
    flattery = 0.15 if condition in ("adam", "fine-tuned-mean") else 0.05 if condition in STRATEGIES else 0.0
    return float(-1.5 * (1 - skill) + flattery + stream(seed, 0, 0, "merges.score", condition).normal(0, 0.03))


def _candidates(condition: str, seed: int, aim: float) -> dict[str, list[dict[str, Any]]]:
    """Candidates that come nearer to `aim`; some fail, some are equal to an earlier one."""
    rng = stream(seed, 0, 0, "merges.candidates", condition)
    ends = EVALUATIONS - (8 if seed else 0)  # runs end at different numbers
    rows, domains, lineage, generations, best, spent, fresh = [], [], [], [], -9.0, 0, 0
    for number in range(ends + 6):
        twin, failed = number % 11 == 10, number % 13 == 7
        score = None if failed else float(aim - rng.exponential(0.1) - 3.0 * np.exp(-number / 6))
        flops = 0 if twin else ITEM * (2 if condition == "evomerge-routes" else 1)
        fresh, spent, best = fresh + (not twin), spent + flops, max(best, score or -9.0)
        rows.append(
            {"candidate": number, "generation": number // 8, "slot": number % 8, "operator": "mutation"}
            | {"genome": json.dumps({"recipe": "x" * 200, "seed": number}), "genome_id": f"{number:016x}"}
            | {"status": "failed" if failed else "ok", "reject_stage": "merge" if failed else "", "score": score}
            | {"reason": "ValueError: depths differ" if failed else "", "fresh": not twin, "flops": flops}
        )
        domains += [{"candidate": number, "domain": name, "score": score, "solved": 0.5} for name in DOMAINS]
        if number:
            lineage.append({"child": number, "parent": int(rng.integers(number)), "role": "parent"})
        if number % 8 == 7:
            generations.append(
                {"generation": number // 8, "candidates": 8, "failed": 1, "best": best, "mean": best - 0.1}
                | {"diversity": float(0.3 * np.exp(-number / 40) + rng.normal(0, 0.01))}
                | {"evaluations": fresh, "flops": spent}
            )
    return {
        "candidates": rows, "candidate_domains": domains, "candidate_parents": lineage,
        "merge_generations": generations,
    }  # fmt: skip


def _evaluate(home: Path, condition: str, seed: int, items: int) -> Slice:
    shared, own = stream(seed, 0, 0, "merges.items"), stream(seed, 0, 0, "merges.answers", condition)
    rows = []
    for domain, family in DOMAINS.items():
        skill = SKILL.get(condition, 0.85 if condition == f"parent-{domain}" else 0.32)
        ease = shared.random(items)
        right = 0.7 * ease + 0.3 * own.random(items) < 0.15 + 0.7 * skill
        rows += [
            {"split": "test", "task_id": f"{domain}-{seed}-{i}", "family": family, "domain": domain, "depth": "short"}
            | {"arm": condition, "prompt": f"{domain} {seed} {i}", "answer": "42", "score": float(right[i])}
            | {"correct": bool(right[i]), "reason": "", "prompt_tokens": 20, "answer_tokens": 4, "flops": 10**6}
            for i in range(items)
        ]
    return write_stage(
        home,
        part(SUITE, condition, seed, "evaluate"),
        {"evaluations": rows, "compute": [_spent("evaluation", len(rows) * 10**6)]},
        summary={"comparable": {"base": "b" * 16, "dataset": f"d{seed}"}},
        identity_document={"code": "c" * 16, "libraries": {"torch": "2.13.0"}, "host": {"threads": 1, "device": "cpu"}},
    )


def _spent(purpose: str, flops: int) -> dict[str, Any]:
    return {"purpose": purpose, "flops": flops, "executed_flops": flops, "tokens": flops // 10**5, "seconds": 1.25}
