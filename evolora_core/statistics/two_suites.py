"""Two suites side by side: their conditions compared in pairs, item by item, where both answered the same items.

Each condition stands under the name SUITE.CONDITION. What differs in more than what is compared is refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq

from evolora_core.engine.artifacts import check, manifest_of, read_manifest
from evolora_core.engine.run_index import SuiteId, entries, older_with, read_suite
from evolora_core.engine.stage import JUDGED, SHARED
from evolora_core.errors import ConfigError, StageError
from evolora_core.foreign.text import one_line
from evolora_core.statistics.comparisons import compute_comparisons, facts_of, why_not_run
from evolora_core.statistics.inference import MAX_COMPARISONS

COLUMNS = ["split", "task_id", "prompt", "arm", "correct"]
ITEM_STAGES = ("datasets", "holdouts")
PLACES = ("file", "data")  # of a task: where its program or its rows lie
ITEMS = ("dataset", "holdouts")  # of what evaluations have to share: which items there were, and these are looked at


@dataclass(frozen=True)
class Side:
    """A finished suite: its settings, and the folder of every evaluation by condition and seed."""

    id: SuiteId
    settings: Mapping[str, Any]
    folders: Mapping[tuple[str, int], Path]
    not_run: frozenset[tuple[str, int]] = frozenset()  # conditions and seeds whose budget was too small

    def name(self, condition: str) -> str:
        """How a condition is called among those of two suites."""
        return f"{self.id}.{condition}"

    def seeds(self, condition: str) -> set[int]:
        """With which it was judged."""
        return {seed for own, seed in self.folders if own == condition}

    @property
    def routings(self) -> list[str]:
        """Its routers, the headline first; none where a search has no such thing."""
        return list(self.settings.get("evaluation", {}).get("routings", []))


def open_side(home: Path, suite: SuiteId) -> Side:
    """A suite of the home. ConfigError where nothing of it was judged."""
    judged = {
        (entry.condition, entry.seed): home / entry.folder
        for entry in entries(home, suite)
        if entry.stage == JUDGED and entry.state in ("done", "cached")
    }
    not_run = frozenset(run for run, folder in judged.items() if why_not_run(read_manifest(folder) or {}))
    folders = {run: folder for run, folder in judged.items() if run not in not_run}
    if not folders:
        missing = f"`evolora retry {suite}` makes what is missing{older_with(home, suite, JUDGED)}"
        raise ConfigError(f"{suite}: no condition of it was evaluated; {missing}")
    return Side(suite, read_suite(home, suite) or {}, folders, not_run)


def common_conditions(left: Side, right: Side) -> list[str]:
    """The conditions that both have, in the order of the first, without those that are right and wrong on the same
    items throughout, as the bare host is: a pair that can only tie would cost the others power. ConfigError where there
    are none, or too many.
    """
    theirs = {condition for condition, _ in right.folders}
    named = left.settings.get("conditions") or sorted({condition for condition, _ in left.folders})
    both = [condition for condition in named if condition in theirs and left.seeds(condition)]
    unlike = [condition for condition in both if not _alike(left, right, condition)]
    if not both:
        raise ConfigError(
            f"{left.id} and {right.id} have no condition in common that was run for each; name one of each by "
            "--a SUITE:CONDITION and --b SUITE:CONDITION"
        )
    if not unlike:
        raise ConfigError(
            f"{left.id} and {right.id} are right and wrong on the same items in every condition that both have "
            f"({', '.join(both)}), so there is no difference to test; name two other conditions by --a SUITE:CONDITION "
            "and --b SUITE:CONDITION"
        )
    if len(unlike) > MAX_COMPARISONS:
        raise ConfigError(
            f"{left.id} and {right.id} have {len(unlike)} conditions in common, and each comparison costs all of them "
            f"power, so that {MAX_COMPARISONS} is the most; name one of each by --a SUITE:CONDITION and --b "
            "SUITE:CONDITION"
        )
    return unlike


def _alike(left: Side, right: Side, condition: str) -> bool:
    """Whether a condition that both suites have is right and wrong on the same items, with all seeds in common, on all
    splits and under all routers in common.
    """
    shared = left.seeds(condition) & right.seeds(condition)
    for seed in shared:
        ours, theirs = (_graded(side.folders[condition, seed]) for side in (left, right))
        places = ours.keys() & theirs.keys()
        if not places or any(ours[place] != theirs[place] for place in places):
            return False
    return bool(shared)


def _graded(folder: Path) -> dict[tuple[str, str], set[tuple[str, bool]]]:
    """Split and arm -> each item with whether its answer is right; nothing where answers are not right or wrong."""
    check(folder)
    file = folder / "evaluations.parquet"
    if not file.exists() or "correct" not in pq.read_schema(file).names:
        return {}
    found: dict[tuple[str, str], set[tuple[str, bool]]] = {}
    columns = (column.to_pylist() for column in pq.read_table(file, columns=["split", "arm", "task_id", "correct"]))
    for split, arm, item, correct in zip(*columns, strict=True):
        found.setdefault((split, arm), set()).add((item, correct))
    return found


def compare_suites(
    left: Side, right: Side, pairs: Sequence[tuple[str, str]], split: str, routing: str = ""
) -> list[dict[str, Any]]:
    """Rows of the comparisons of pairs of conditions, the first of each of `left`: as in the table `comparisons`, with
    both accuracies. ConfigError or StageError names the difference where they cannot be compared.
    """
    _refuse_unlike_suites(left, right, routing)
    asked: list[pd.DataFrame] = []
    declared, notes = [], []
    for a, b in pairs:
        seeds, alone, absent = _seeds(left, a, right, b)
        _refuse_unlike(left, a, right, b, seeds)
        both = [_answers(side, own, split, routing, seeds) for side, own in ((left, a), (right, b))]
        _refuse_other_items(left.name(a), right.name(b), split, *both)
        for seed in seeds:
            if _hashes(left.folders[a, seed], seed, split) != _hashes(right.folders[b, seed], seed, split):
                raise StageError(
                    f"{left.name(a)} and {right.name(b)} cannot be compared: seed {seed}: the prompts of {split} "
                    "are the same and the right answers, or the programs that grade, are not, as where they were "
                    "corrected; run the older one again"
                )
        asked += both
        declared.append({"a": left.name(a), "b": right.name(b), "split": split})
        left_out = {"of one suite alone": alone, "where one was not run": absent}
        notes.append(
            "; ".join(f"without seeds {why}: {', '.join(map(str, own))}" for why, own in left_out.items() if own)
        )
    items = pd.concat(asked, ignore_index=True)
    facts: dict[tuple[str, int], dict[str, Any]] = {
        run: {} for run in zip(items["condition"], items["seed"], strict=True)
    }
    accuracy = items.groupby(["condition", "seed"])["correct"].mean().groupby("condition").mean()
    return [
        row
        | {side: float(accuracy[row[name]]) for side, name in (("a_acc", "a"), ("b_acc", "b"))}
        | {"routing": routing or "headline", "note": "; ".join(filter(None, [row["note"], note]))}
        for row, note in zip(compute_comparisons(items, facts, declared), notes, strict=True)
    ]


def differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """The settings in which two suites differ, by dotted key."""
    flat = [_flat(settings) for settings in (left, right)]
    keys = [key for key in dict.fromkeys([*flat[0], *flat[1]]) if key != "name"]
    return {key: (flat[0].get(key), flat[1].get(key)) for key in keys if flat[0].get(key) != flat[1].get(key)}


def _flat(settings: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= _flat(value, f"{above}{key}.") if isinstance(value, Mapping) and value else {f"{above}{key}": value}
    return found


def _refuse_unlike_suites(left: Side, right: Side, routing: str) -> None:
    """Suites of other searches, tasks or routers are judged by other measures. A file that names no search is the
    adapters'. Where the files of a task lie decides nothing: the items are compared, and the program that grades them.
    """
    for key, unsaid in (("search", "adapters"), ("tasks", [])):
        ours, theirs = (_without_places(side.settings.get(key, unsaid)) for side in (left, right))
        if ours != theirs:
            raise ConfigError(
                f"{left.id} and {right.id} cannot be compared: they differ in `{key}`, and so in what is right; "
                "compare suites that share it"
            )
    if routing:
        for side in (left, right):
            if routing not in side.routings:
                known = ", ".join(side.routings) or "none"
                raise ConfigError(f"--routing {routing}: {side.id} was not evaluated with it; its routers are {known}")
    elif left.routings[:1] != right.routings[:1]:
        raise ConfigError(
            f"{left.id} and {right.id} cannot be compared: their headlines are the routers {left.routings[0]} and "
            f"{right.routings[0]}; choose one by --routing"
        )


def _without_places(value: Any) -> Any:
    """Settings of tasks without their paths; of another kind as they are."""
    if isinstance(value, list):
        return [_without_places(one) for one in value]
    return {key: one for key, one in value.items() if key not in PLACES} if isinstance(value, Mapping) else value


def _seeds(left: Side, a: str, right: Side, b: str) -> tuple[list[int], list[int], list[int]]:
    """The seeds that both conditions have, those of one alone, and those where a budget was too small for one."""
    for side, condition in ((left, a), (right, b)):
        if not side.seeds(condition):
            known = ", ".join(dict.fromkeys(own for own, _ in side.folders))
            raise ConfigError(f"{side.name(condition)}: not among its evaluated conditions: {known}")
    ours, theirs = left.seeds(a), right.seeds(b)
    if not ours & theirs:
        raise ConfigError(
            f"{left.name(a)} and {right.name(b)} cannot be compared: they share no seed "
            f"({', '.join(map(str, sorted(ours)))} and {', '.join(map(str, sorted(theirs)))}); "
            "run one of them with the other's seeds"
        )
    absent = {seed for side, own in ((left, a), (right, b)) for name, seed in side.not_run if name == own}
    return sorted(ours & theirs), sorted((ours ^ theirs) - absent), sorted(absent)


def _refuse_unlike(left: Side, a: str, right: Side, b: str, seeds: Sequence[int]) -> None:
    """What conditions of one suite have to share, which items they answered apart: host, decoding and the like."""
    for seed in seeds:
        ours, theirs = (_facts(side.folders[own, seed]) for side, own in ((left, a), (right, b)))
        for key in dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                mend = "run the older one again" if key == "code" else "compare suites that share it"
                said = (json.dumps(facts.get(key), sort_keys=True) for facts in (ours, theirs))
                shown = " and ".join(one_line(text, 40) for text in said)
                raise StageError(
                    f"{left.name(a)} and {right.name(b)} cannot be compared: seed {seed} differs in {key} ({shown}); "
                    f"{mend}"
                )


def _facts(folder: Path) -> dict[str, Any]:
    check(folder)
    return {key: value for key, value in facts_of(read_manifest(folder) or {}).items() if key not in ITEMS}


def _answers(side: Side, condition: str, split: str, routing: str, seeds: Sequence[int]) -> pd.DataFrame:
    """A condition's answers to a split, as one arm under its name among those of two suites."""
    name = side.name(condition)
    found: list[pd.DataFrame] = []
    for seed in seeds:
        file = side.folders[condition, seed] / "evaluations.parquet"
        if not file.exists() or "correct" not in pq.read_schema(file).names:
            raise StageError(f"{name}: its evaluation has no answers that are right or wrong; read its pack instead")
        there = [column for column in COLUMNS if column in pq.read_schema(file).names]
        table = pq.read_table(file, columns=there).to_pandas()
        arms = {*table["arm"]}
        wanted = f"{condition}:{routing}" if f"{condition}:{routing}" in arms else condition
        mine = table[(table["arm"] == wanted) & (table["split"] == split)]
        if mine.empty:
            known = ", ".join(sorted({*table["split"]}))
            raise ConfigError(f"--split {split}: {name} was not evaluated on it; choose from {known}")
        found.append(mine.assign(arm=name, condition=name, seed=seed))
    answers: pd.DataFrame = pd.concat(found, ignore_index=True)
    return answers


def _refuse_other_items(a: str, b: str, split: str, left: pd.DataFrame, right: pd.DataFrame) -> None:
    keys = [key for key in ("seed", "task_id", "prompt") if key in left and key in right]
    ours, theirs = ({*zip(*(side[key] for key in keys), strict=True)} for side in (left, right))
    if alone := ours ^ theirs:
        seed = min(own[0] for own in alone)
        raise StageError(
            f"{a} and {b} cannot be compared: they answered different items of {split}: {len(ours & theirs)} are in "
            f"both, {len(alone)} in one alone, the first with seed {seed}; compare suites with the same `data`"
        )


def _hashes(folder: Path, seed: int, split: str) -> set[tuple[str, str, str]]:
    """Of each cell (family, depth) of a split, the hash of its items with their right answers, by the stages that an
    evaluation had them from; and of a family of a Python file the program, which grades.
    """
    inputs = manifest_of(folder).get("identity_document", {}).get("inputs", {})
    found = set()
    for stage in ITEM_STAGES:
        file = folder.parents[2] / f"{SHARED}-s{seed}" / stage / inputs.get(stage, "") / "splits.parquet"
        if stage in inputs:
            if not file.parent.is_dir():
                raise StageError(f"{file.parent}: is gone; run the suite again")
            rows = pq.read_table(file).to_pylist() if file.is_file() else []
            cells = {(row["family"], row["depth"], row["sha256"]) for row in rows if row["split"] == split}
            tasks = file.with_name("tasks.json")
            defined = json.loads(tasks.read_text(encoding="utf-8")) if tasks.is_file() else []
            sources = {own["name"]: own["source"] for own in defined if own.get("source")}
            found |= cells | {(family, "", sources[family]) for family, _, _ in cells if family in sources}
    return found
