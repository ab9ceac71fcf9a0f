"""A finished suite on disk, small and made up: stage folders with real Parquet tables, manifests and the index.

The numbers are drawn so that the statistics have something to find: sft beats ecology beats single beats frozen in
distribution; sft forgets. Nothing here is a result.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from evolora_core.engine.artifacts import commit, partial_folder
from evolora_core.engine.identity import digest
from evolora_core.engine.rng import stream
from evolora_core.engine.run_index import Entry, SuiteId, write_entry
from evolora_core.engine.run_index import write_suite as write_suite_file
from evolora_core.searches.adapters.evaluation.forms import FORMS, WORDS_AFTER
from evolora_core.searches.adapters.evaluation.variants import UNFIT
from evolora_core.searches.adapters.experiment import SuiteConfig
from evolora_core.statistics.comparisons import write_comparisons
from evolora_core.store import Slice

CONDITIONS = ("frozen", "single", "ecology", "sft")
FAMILIES = {
    "holdout_id": ("math", "json_repair", "math.sequence", "string.sort"),
    "holdout_ood": ("word.count", "math.multi_step"),
    "retention": ("logic.bool", "code.format"),
}
DEPTHS = ("short", "medium", "long")
HOST = {"holdout_id": 0.35, "holdout_ood": 0.45, "retention": 0.9}
GAIN = {
    "frozen": {"holdout_id": 0.0, "holdout_ood": 0.0, "retention": 0.0},
    "single": {"holdout_id": 0.05, "holdout_ood": 0.0, "retention": -0.01},
    "ecology": {"holdout_id": 0.15, "holdout_ood": 0.01, "retention": -0.01},
    "sft": {"holdout_id": 0.3, "holdout_ood": -0.03, "retention": -0.15},
}
COMPARISONS = [
    {"a": "ecology", "b": "frozen", "split": "holdout_id"},
    {"a": "ecology", "b": "sft", "split": "holdout_id", "regime": "all labels, $5 each"},
    {"a": "ecology", "b": "sft", "split": "holdout_ood"},
    {"a": "ecology", "b": "sft", "split": "retention", "routing": "single"},
]
UNIT = 1_000_000
COOLDOWN = 40 * UNIT  # what a run pays for learning after its last generation
STRENGTHS = [1.0, 0.5, 1.5]  # of ΔW after training
LOSSES = (0.0, 0.1, 0.15, 0.2, 0.3, 0.6)  # of right answers, by form


def write_stage(home: Path, part: Slice, tables: dict[str, list[dict[Any, Any]]], **manifest: Any) -> Slice:
    """A stage folder with its manifest, and its entry in the index."""
    folder = home / part.folder
    shutil.rmtree(partial_folder(folder))
    manifest = {"stage": part.stage, "condition": part.condition, "seed": part.seed} | manifest
    manifest = {"identity": digest([part.run_id, part.stage, len(tables)]), "summary": {}} | manifest
    for name, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), partial_folder(folder) / f"{name}.parquet")
    whole = commit(folder, {"seconds": 1.5, "flops": 10**9} | manifest)
    identity = digest(whole["files"])
    entry = Entry(part.suite, part.run_id, part.condition, part.seed, part.stage, str(part.folder), identity, "done")
    suite = suite_id(part.suite)
    suite.index(home).mkdir(parents=True, exist_ok=True)
    write_entry(home, suite, entry)
    return part


def suite_id(suite: str) -> SuiteId:
    """The parts of a suite's id."""
    name, _, hashed = suite.rpartition("-")
    return SuiteId(name, hashed)


def part(suite: str, condition: str, seed: int, stage: str) -> Slice:
    """The slice of one stage, in the usual place."""
    identity = suite_id(suite)
    folder = Path("runs") / identity.name / f"{condition}-s{seed}" / stage / "0123456789abcdef"
    return Slice(suite, identity.run_id(condition, seed), condition, seed, stage, folder)


def settings(
    name: str,
    seeds: tuple[int, ...],
    items: int,
    budgets: Mapping[str, float] = MappingProxyType({}),
    files: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    variants: bool = False,
) -> dict[str, Any]:
    """The resolved suite."""
    config = SuiteConfig.model_validate(
        {
            "name": name,
            "seeds": list(seeds),
            "conditions": [*CONDITIONS, *budgets],
            "arms": {name: {"like": "sft", "budget": budget} for name, budget in budgets.items()},
            "data": {
                "train_families": list(FAMILIES["holdout_id"]),
                "ood_families": list(FAMILIES["holdout_ood"]),
                "retention_families": list(FAMILIES["retention"]),
                "holdout_items": items,
            },
            "evaluation": {
                "comparisons": COMPARISONS,
                "bootstrap": 1000,
                "strengths": STRENGTHS[1:],
                "holdouts": [f"{name}.jsonl" for name in files],
                "variants": variants,
            },
        }
    )
    return config.model_dump(mode="json")


def write_suite(
    home: Path,
    suite: str = "example-0a1b2c3d",
    seeds: tuple[int, ...] = (0, 1, 2),
    items: int = 240,
    budgets: Mapping[str, float] = MappingProxyType({}),
    files: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
    variants: bool = False,
    luck: int = 0,
) -> list[Slice]:
    """Every stage of a suite; returns their slices in the order of the index.

    `budgets` are conditions more, each an sft that gains as much more as it spends; `files` are holdout files by name,
    with their families; `variants`: the items in distribution are asked in other forms, too; with another `luck` all
    but the bare host answer otherwise.
    """
    conditions = [*CONDITIONS, *budgets]
    parts = []
    for seed in seeds:
        parts += [_data(home, suite, seed), _calibrate(home, suite, seed)]
        if files:
            counts = {name: {"items": items, "left_out": seed, "families": list(own)} for name, own in files.items()}
            parts.append(write_stage(home, part(suite, "shared", seed, "holdouts"), {}, summary=counts))
        for condition in conditions:
            if condition in ("single", "ecology"):
                parts.append(_evolve(home, suite, condition, seed))
            budget = budgets.get(condition, 1.0)
            if condition == "sft" or condition in budgets:
                parts.append(_sft(home, suite, condition, seed, budget))
            parts.append(_evaluate(home, suite, condition, seed, items, budget, files, variants, luck))
    write_suite_file(home, suite_id(suite), settings(suite_id(suite).name, seeds, items, budgets, files, variants))
    parts.append(write_comparison(home, suite, seeds, conditions))
    return sorted(parts, key=lambda p: f"{p.condition}-s{p.seed}.{p.stage}.json")


def compute_rows(**purposes: int) -> list[dict[str, Any]]:
    return [
        {
            "purpose": purpose,
            "flops": flops,
            "executed_flops": flops * 2,
            "tokens": flops // 1000,
            "seconds": flops / 1e12,
        }
        for purpose, flops in purposes.items()
    ]


def _data(home: Path, suite: str, seed: int) -> Slice:
    splits = [
        {"split": split, "family": family, "depth": depth, "n": 20, "sha256": f"{seed}{split}{family}{depth}"}
        for split, families in FAMILIES.items()
        for family in families
        for depth in DEPTHS
    ]
    leaks = [{"split_a": "train", "split_b": split, "shared": 0} for split in FAMILIES]
    return write_stage(home, part(suite, "data", seed, "datasets"), {"splits": splits, "leaks": leaks})


def _calibrate(home: Path, suite: str, seed: int) -> Slice:
    rows = [
        {"key": "rho", "value": 33.3, "note": "units per correct answer"},
        {"key": "flops_per_unit", "value": 2.1e7, "note": ""},
    ]
    return write_stage(
        home, part(suite, "data", seed, "calibrate"), {"calibration": rows, "compute": compute_rows(rollout=4 * 10**9)}
    )


def _evolve(home: Path, suite: str, condition: str, seed: int, generations: int = 8, episodes: int = 32) -> Slice:
    rng = stream(seed, 0, 0, "example", condition)
    population = 1 if condition == "single" else 16
    tables: dict[str, list[dict[str, Any]]] = {
        "episodes": [],
        "generations": [],
        "ledger": [],
        "lineage": [],
        "organelles": [],
    }
    tables |= {"assimilations": [], "archive": []}
    total, number = 0, 0
    lives = [("founder", 0)] * population  # origin and birth
    for generation in range(generations):
        reward = (rng.random(episodes) < 0.3 + 0.03 * generation) * 3 * UNIT
        cost = rng.integers(UNIT // 2, 2 * UNIT, episodes)
        for i in range(episodes):
            family = FAMILIES["holdout_id"][i % 4]
            tables["episodes"].append(
                {"generation": generation, "episode": number, "organelle": (i + generation) % len(lives), "slot": 0}
                | {"task_id": f"t{number}", "family": family, "depth": DEPTHS[i % 3], "sample": 0}
                | {"reward": int(reward[i]), "cost": int(cost[i]), "score": float(reward[i] > 0)}
                | {"correct": bool(reward[i] > 0), "prompt_tokens": 20, "answer_tokens": 5}
            )
            number += 1
        total += int(reward.sum() - cost.sum())
        tables["ledger"] += _posting(generation, "reward", "sun", "0", int(reward.sum()))
        tables["ledger"] += _posting(generation, "answer", "0", "sink", int(cost.sum()))
        accepted = condition == "ecology" and generation % 3 == 2
        tables["generations"].append(
            {"generation": generation, "population": population, "episodes": episodes}
            | {"accuracy": float((reward > 0).mean()), "mean_reward": reward.mean() / UNIT}
            | {"mean_cost": cost.mean() / UNIT, "mean_net": (reward.mean() - cost.mean()) / UNIT}
            | {"mean_roi": reward.sum() / cost.sum(), "energy_total": total / UNIT, "births": int(accepted)}
            | {"deaths": 0, "merges": int(accepted), "qd_coverage": 0.1 * generation, "qd_score": 1.0, "seconds": 0.2}
        )
        if condition == "ecology" and generation % 3 == 2:
            parents = rng.choice(len(lives), 2, replace=False).tolist()
            for parent, weight in zip(parents, (0.6, 0.4), strict=True):
                tables["lineage"].append(
                    {
                        "child": len(lives),
                        "parent": parent,
                        "role": "parent",
                        "generation": generation,
                        "weight": weight,
                    }
                )
            tables["assimilations"].append(
                {"generation": generation, "child": len(lives), "parent_a": parents[0], "parent_b": parents[1]}
                | {"family": "math", "depth": "short", "method": "weighted", "gain": 1.0, "n": 96, "looks": 2}
                | {"uplift": 0.12, "p": 0.01, "worst_drop": 0.02, "accepted": True, "reason": "better"}
            )
            lives.append(("merge", generation))
        elif condition == "ecology" and generation % 3 == 1:
            tables["lineage"].append(
                {
                    "child": len(lives),
                    "parent": int(rng.integers(len(lives))),
                    "role": "parent",
                    "generation": generation,
                }
                | {"weight": 1.0}
            )
            lives.append(("mutation", generation))
    tables["ledger"] += _posting(generations, "update", "0", "sink", COOLDOWN)
    for organelle, (origin, born) in enumerate(lives):
        died = born + 5 if organelle % 6 == 5 and born + 5 < generations else None
        tables["organelles"].append(
            {"organelle": organelle, "slot": organelle, "rank": (2, 4, 8)[organelle % 3], "niche": "math"}
            | {"origin": origin, "born": born, "died": died, "cause": "insolvent" if died else ""}
            | {"balance": 100 * UNIT, "delta_norm": 0.5, "learning_rate": 1e-3, "temperature": 0.7}
        )
    if condition == "ecology":
        tables["archive"].append(
            {"generation": 7, "family": "math", "depth": "short", "cost_bin": 0, "organelle": 3, "objective": 0.4}
        )
    else:
        tables = {name: rows for name, rows in tables.items() if rows}
    tables["compute"] = compute_rows(rollout=6 * 10**10, update=3 * 10**10, selection=10**10)
    return write_stage(home, part(suite, condition, seed, "evolve"), tables)


def _posting(generation: int, entry: str, payer: str, payee: str, amount: int) -> list[dict[str, Any]]:
    row = {"generation": generation, "entry": entry}
    return [row | {"account": payer, "amount": -amount}, row | {"account": payee, "amount": amount}]


def _sft(home: Path, suite: str, condition: str, seed: int, budget: float) -> Slice:
    steps = [
        {"step": i, "loss": 2.0 / i, "learning_rate": 1e-3, "tokens": 100 * i, "flops": 10**9 * i} for i in range(1, 20)
    ]
    tables = {"sft_steps": steps, "compute": compute_rows(update=round(budget * 10**11))}
    return write_stage(home, part(suite, condition, seed, "sft"), tables)


def _evaluate(
    home: Path,
    suite: str,
    condition: str,
    seed: int,
    items: int,
    budget: float,
    files: Mapping[str, tuple[str, ...]],
    variants: bool,
    luck: int,
) -> Slice:
    shared = stream(seed, 0, 0, "example.items")
    own = stream(seed, 0, 0, "example.answers", condition, *([luck] if luck and condition != "frozen" else []))
    shift = own.normal(0, 0.01)
    rows: list[dict[str, Any]] = []
    for split, families in {**FAMILIES, **files}.items():
        like = split if split in HOST else "holdout_ood"
        ease = shared.random(items)  # the same items for every condition: outcomes correlate
        for arm in (condition,) if condition == "frozen" else (condition, f"{condition}:single"):
            threshold = (
                HOST[like] + budget * GAIN.get(condition, GAIN["sft"])[like] + (shift if condition != "frozen" else 0)
            )
            correct = 0.7 * ease + 0.3 * own.random(items) < _quantile(threshold)
            for i in range(items):
                rows.append(
                    {"split": split, "task_id": f"{split}-{seed}-{i}", "family": families[i % len(families)]}
                    | {"depth": DEPTHS[i // len(families) % 3], "arm": arm}
                    | {"organelle": -1 if arm == "ecology:single" and seed == 0 else i % 4 - 1}
                    | {
                        "prompt": f"prompt {i} of seed {seed}",
                        "answer": "42",
                        "score": float(correct[i]),
                        "correct": bool(correct[i]),
                    }
                    | {"reason": "correct" if correct[i] else "wrong", "prompt_tokens": 20, "answer_tokens": 4}
                    | {"flops": 2 * 10**7 + i}
                )
    facts: dict[str, Any] = {"host": "h" * 64, "tokenizer": "t" * 64, "template": "none", "dtype": "float32"}
    facts |= {"decoding": {"max_new_tokens": 32}, "dataset": f"d{seed}" * 8}
    gains = {split: 0.0 if condition == "frozen" else GAIN.get(condition, GAIN["sft"])[split] for split in HOST}
    frontier = [  # a gain grows with the strength, forgetting with its square
        {"strength": strength, "split": split, "n": items}
        | {"correct": round(items * min(HOST[split] + (gains[split] + shift) * strength**power, 1.0))}
        for strength in ([0.0] if condition == "frozen" else STRENGTHS)
        for split, power in (("holdout_id", 1), ("retention", 2))
    ]
    asked = [row for row in rows if row["arm"] == condition and row["split"] == "holdout_id"]
    return write_stage(
        home,
        part(suite, condition, seed, "evaluate"),
        {
            "evaluations": rows,
            "frontier": frontier,
            **({"variants": _variants(asked, own)} if variants else {}),
            "compute": compute_rows(evaluation=sum(r["flops"] for r in rows), selection=10**9),
        },
        summary={"comparable": facts},
        identity_document={"code": "c" * 16, "libraries": {"torch": "2.13.0"}, "host": {"threads": 1, "device": "cpu"}},
    )


def _variants(asked: Sequence[dict[str, Any]], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Every form but the plain one loses a share of the right answers; two are not asked of `string.sort`."""
    rows = []
    for loss, form in zip(LOSSES, FORMS, strict=True):
        for row in asked:
            unfit = form in WORDS_AFTER and row["family"] == "string.sort"
            correct = None if unfit else bool(row["correct"] and rng.random() >= loss)
            answer = None if unfit else row["answer"]
            reason = UNFIT if unfit else "correct" if correct else "wrong"
            rows.append(
                {"form": form, "task_id": row["task_id"], "organelle": None if unfit else row["organelle"]}
                | {"answer": answer, "correct": correct, "reason": reason}
            )
    return rows


def write_comparison(home: Path, suite: str, seeds: tuple[int, ...], conditions: Sequence[str] = CONDITIONS) -> Slice:
    """The real computation over the made-up items."""
    stage = part(suite, "suite", 0, "compare")
    runs = [(condition, seed) for condition in conditions for seed in seeds]
    folders = {run: home / part(suite, *run, "evaluate").folder for run in runs}
    with TemporaryDirectory() as out:
        tables = write_comparisons(folders, COMPARISONS, Path(out), resamples=1000)
    return write_stage(home, stage, tables)


def _quantile(share: float) -> float:
    """The level that 0.7 U + 0.3 V (U, V uniform) falls below with the given probability."""
    grid = stream(0, 0, 0, "example.quantile").random((2, 20_000))
    return float(np.quantile(0.7 * grid[0] + 0.3 * grid[1], min(max(share, 0.0), 1.0)))
