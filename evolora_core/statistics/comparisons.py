"""From graded items to the two suite-level tables: accuracies with intervals, and the declared comparisons with
verdicts.

Items are matched by (seed, split, task_id); conditions that were not measured alike are refused, with the difference
named.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evolora_core.engine.artifacts import read_manifest
from evolora_core.engine.rng import stream
from evolora_core.errors import StageError
from evolora_core.foreign.text import one_line
from evolora_core.statistics.inference import RESAMPLES, accuracy_interval, can_show, compare, decide, non_inferior

ITEM_COLUMNS = ["split", "task_id", "family", "arm", "correct", "prompt"]
# Seeds and items are crossed from here on: the share of the prompts of a split that stand with other seeds too, or with
# how many seeds a prompt of it stands in the mean. A few prompts that stand with many seeds vary as those of a file do.
SHARED, SEEDS_OF_ONE = 0.5, 2.0
ALL = "*"  # in the column `family`: the whole split

Run = tuple[str, int]  # condition and seed


def facts_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What an evaluation was made with: `comparable` in the summary of its manifest, and its code. Raises StageError if
    the manifest does not say.

    What is in `comparable` is for a search to say: all that must be equal for two conditions of one seed to be
    compared. Of a condition that was not run there is the reason alone, as `not_run`.
    """
    if reason := why_not_run(manifest):
        return {"not_run": reason}
    comparable = manifest.get("summary", {}).get("comparable")
    code = manifest.get("identity_document", {}).get("code")
    if missing := [name for name, value in (("comparable", comparable), ("code", code)) if not value]:
        stage = f"{manifest.get('condition')} s{manifest.get('seed')}"
        raise StageError(
            f"evaluate {stage}: its manifest does not say {', '.join(missing)}, so that it cannot be compared; "
            "run the suite again"
        )
    return {**comparable, "code": code}


def why_not_run(manifest: Mapping[str, Any]) -> str:
    """Why the condition of an evaluation could not be run; "" for one that was."""
    return str(manifest.get("summary", {}).get("not_run", ""))


def refuse_unlike(facts: Mapping[Run, Mapping[str, Any]], a: str, b: str, seeds: Iterable[int]) -> None:
    """Raise StageError that names what differs between the evaluations of two conditions, if anything does."""
    for seed in seeds:
        for name in dict.fromkeys([*facts[a, seed], *facts[b, seed]]):
            left, right = (json.dumps(facts[condition, seed].get(name), sort_keys=True) for condition in (a, b))
            if left != right:
                raise StageError(
                    f"{a} and {b} cannot be compared: seed {seed} differs in {name} "
                    f"({one_line(left, 60)} and {one_line(right, 60)}); "
                    "run the suite again, which makes anew what is older"
                )


def compute_comparisons(
    items: pd.DataFrame,
    facts: Mapping[Run, Mapping[str, Any]],
    declared: Sequence[Mapping[str, Any]],
    resamples: int = RESAMPLES,
) -> list[dict[str, Any]]:
    """Rows of the table `comparisons`: the declared pairs {a, b, split}, all at once, since Holm needs the whole
    family.

    `items` has the columns condition, seed, split, task_id, arm, correct and prompt (optional: without one the task_id
    says which item it is). A pair may name a routing; without one, or where an arm has no other, the headline arms
    (arm = condition) are compared. Where `facts` say that a condition was not run with a seed, its comparisons are of
    the others; one without any seed is left out. Raises StageError for unlike conditions and items without a partner.
    """
    items = _named(items)
    arms, shared = set(items["arm"]), splits_of_shared_items(items)
    kept = list(_possible(declared, facts))
    margins = sum(pair.get("margin") is not None for pair, _ in kept)
    compared = []
    for pair, alone in kept:
        a, b, split = pair["a"], pair["b"], pair["split"]
        routed = [f"{condition}:{pair.get('routing')}" for condition in (a, b)]
        there = items[~items["seed"].isin(alone)] if alone else items
        left, right = (_by_item(there, arm if arm in arms else arm.partition(":")[0], split) for arm in routed)
        _refuse_unmatched(left, right, a, b, split)
        outcomes_a, outcomes_b = _by_seed(left), _by_seed(right)
        refuse_unlike(facts, a, b, outcomes_a)
        rng = stream(0, 0, 0, "bootstrap", "comparison", a, b, split)
        named = _by_seed(left, "prompt") if split in shared else None
        claims = margins if pair.get("margin") is not None else 0
        compared.append(compare(split, a, b, outcomes_a, outcomes_b, rng, resamples, claims, named))
    rows = []
    for (pair, alone), decided in zip(kept, decide(compared), strict=True):
        row = {k: v for k, v in asdict(decided).items() if k not in ("seed_tests", "floor", "shared")}
        row["routing"] = pair.get("routing") or "headline"
        if margin := pair.get("margin"):
            shown = "shown" if non_inferior(decided, margin, margins) else "not shown"
            bound = decided.lo if decided.floor is None else decided.floor
            why = f"bound {100 * bound:+.1f}" if can_show(decided.seeds, margins) else f"{decided.seeds} seeds cannot"
            words = f"{decided.a} not worse by more than {100 * margin:g} points: {shown} ({why})"
            row["note"] = "; ".join(filter(None, [decided.note, words]))
        if alone:
            words = f"without seed {', '.join(map(str, alone))}, where one of them was not run"
            row["note"] = "; ".join(filter(None, [row["note"], words]))
        rows.append(row)
    return rows


def _possible(
    declared: Sequence[Mapping[str, Any]], facts: Mapping[Run, Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], list[int]]]:
    """The declared pairs of which both conditions were run with some seed, each with the seeds where one was not."""
    for pair in declared:
        both = [(seed, said) for (own, seed), said in facts.items() if own in (pair["a"], pair["b"])]
        alone = sorted({seed for seed, said in both if "not_run" in said})
        if not alone or {seed for seed, _ in both} - {*alone}:
            yield pair, alone


def compute_accuracies(items: pd.DataFrame, resamples: int = RESAMPLES) -> list[dict[str, Any]]:
    """Rows of the table `accuracies`: mean over seeds with its interval, per arm (CONDITION or CONDITION:ROUTING),
    split and family; family `*` is the whole split.
    """
    items = _named(items)
    cells = pd.concat([items.assign(family=ALL), items])
    # A family may have few items where its split has many, so that its own are crossed and the split's are not.
    asked = cells.assign(split=cells["split"].str.cat(cells["family"], sep="/"))
    shared = splits_of_shared_items(asked)
    rows = []
    for key, group in cells.groupby(["arm", "split", "family"], sort=True):
        arm, split, family = map(str, key)
        outcomes = list(_by_seed(group).values())
        # The same draws for every arm, so that arms with equal answers get equal intervals.
        rng = stream(0, 0, 0, "bootstrap", "accuracy", split, family)
        named = list(_by_seed(group, "prompt").values()) if f"{split}/{family}" in shared else None
        lo, hi = accuracy_interval(outcomes, rng, resamples, named)
        acc = float(np.mean([o.mean() for o in outcomes]))
        row = {"arm": arm, "split": split, "family": family, "seeds": len(outcomes), "n": len(group)}
        rows.append(row | {"acc": acc, "lo": lo, "hi": hi})
    return rows


def complete_seeds(runs: Iterable[Run]) -> list[int]:
    """The seeds that every condition has."""
    runs = set(runs)
    conditions = {condition for condition, _ in runs}
    return sorted({seed for _, seed in runs if all((condition, seed) in runs for condition in conditions)})


def write_comparisons(
    folders: Mapping[Run, Path], declared: Sequence[Mapping[str, Any]], out: Path, resamples: int = RESAMPLES
) -> dict[str, list[dict[str, Any]]]:
    """Read the evaluate stages in `folders`, write `comparisons.parquet` and `accuracies.parquet` to `out`.

    Uses the seeds that are complete in all conditions; one that was not run counts as complete and has no items.
    Returns the rows of both tables. Raises StageError.
    """
    seeds = complete_seeds(folders)
    if not seeds:
        raise StageError(
            "no seed has been evaluated in every condition, so there is nothing to compare; `evolora retry SUITE` "
            "makes what is missing"
        )
    used = {run: folder for run, folder in folders.items() if run[1] in seeds}
    facts = {run: facts_of(read_manifest(folder) or {}) for run, folder in used.items()}
    ran = [run for run, said in facts.items() if "not_run" not in said]
    if not ran:
        reason = next(iter(facts.values()))["not_run"]
        raise StageError(f"no condition could be run, so there is nothing to compare: {reason}")
    items = pd.concat([_read_items(used[run], *run) for run in ran], ignore_index=True)
    tables = {
        "comparisons": compute_comparisons(items, facts, declared, resamples),
        "accuracies": compute_accuracies(items, resamples),
    }
    write_tables(tables, out)
    return tables


def write_tables(tables: Mapping[str, Sequence[Mapping[str, Any]]], out: Path) -> None:
    """Write NAME.parquet to `out` for each table; without rows only `comparisons` and `accuracies`."""
    for name, rows in tables.items():
        if rows or name in _SCHEMAS:
            pq.write_table(pa.Table.from_pylist(list(rows), schema=_SCHEMAS.get(name)), out / f"{name}.parquet")


def _schema(text: str = "", integer: str = "", number: str = "") -> dict[str, pa.DataType]:
    kinds = ((text, pa.string()), (integer, pa.int64()), (number, pa.float64()))
    return {name: kind for names, kind in kinds for name in names.split()}


# Fixed, so that a suite without declared comparisons leaves a readable empty table.
_SCHEMAS = {
    "comparisons": pa.schema(_schema("split a b routing verdict note", "n seeds", "diff lo hi p p_holm")),
    "accuracies": pa.schema(_schema("arm split family", "seeds n", "acc lo hi")),
}


def _read_items(folder: Path, condition: str, seed: int) -> pd.DataFrame:
    file = folder / "evaluations.parquet"
    there = [column for column in ITEM_COLUMNS if column in pq.read_schema(file).names]
    table = pq.read_table(file, columns=there).to_pandas()
    if "family" not in table:  # a search whose items have none
        table["family"] = None
    result: pd.DataFrame = table.assign(condition=condition, seed=seed)
    return result


def _by_item(items: pd.DataFrame, arm: str, split: str) -> pd.DataFrame:
    """One row per item of an arm and split, in the order by which arms are paired."""
    mine = items[(items["arm"] == arm) & (items["split"] == split)]
    return mine[["seed", "task_id", "correct", "prompt"]].sort_values(["seed", "task_id"], ignore_index=True)


def _by_seed(items: pd.DataFrame, column: str = "correct") -> dict[int, np.ndarray]:
    """A column of each seed, in the order of the rows: outcomes 0/1, or the prompts' numbers."""
    seeds, values = items["seed"].to_numpy(), items[column].to_numpy().astype(np.int64)
    return {int(seed): values[seeds == seed] for seed in np.unique(seeds)}


def _named(items: pd.DataFrame) -> pd.DataFrame:
    """The items with the number of a prompt each, or of what stands for it, in the order of the texts: NumPy would
    keep every text at the length of the longest."""
    prompt = items["prompt"].fillna(items["task_id"]) if "prompt" in items else items["task_id"]
    return items.assign(prompt=pd.factorize(prompt, sort=True)[0])


def shared_prompts(items: pd.DataFrame) -> dict[str, float]:
    """Split -> the share of its prompts that another seed has too; `items` has the columns split, seed, prompt."""
    return {str(split): float((seeds > 1).mean()) for split, seeds in _seeds_of_prompts(items)}


def splits_of_shared_items(items: pd.DataFrame) -> set[str]:
    """The splits whose prompts stand with several seeds so often that items count once for all seeds, as those of a
    file; `items` as in `shared_prompts`.
    """
    found = _seeds_of_prompts(items)
    return {str(split) for split, seeds in found if (seeds > 1).mean() >= SHARED or seeds.mean() >= SEEDS_OF_ONE}


def _seeds_of_prompts(items: pd.DataFrame) -> list[tuple[Any, "pd.Series[int]"]]:
    """Each split, with the number of seeds that have it for each prompt of each seed."""
    asked = items[["split", "seed", "prompt"]].drop_duplicates()
    seeds = asked.groupby(["split", "prompt"])["seed"].transform("size")
    return list(seeds.groupby(asked["split"]))


def _refuse_unmatched(left: pd.DataFrame, right: pd.DataFrame, a: str, b: str, split: str) -> None:
    for side, name in ((left, a), (right, b)):
        if side.empty:
            raise StageError(f"{name} has no items on {split}; it must be evaluated before it can be compared")
        if side.duplicated(["seed", "task_id"]).any():
            raise StageError(f"{name} answered an item of {split} twice in one arm; task ids must be unique in a seed")
    keys = [set(zip(side["seed"], side["task_id"], strict=True)) for side in (left, right)]
    if alone := sorted(keys[0] ^ keys[1]):
        seed, task_id = alone[0]
        raise StageError(
            f"{a} and {b} answered different items of {split}: {len(alone)} have no partner, the first is "
            f"{task_id} of seed {seed}; run the suite again, which makes anew what is older"
        )
