"""The splits of a suite as a data set of the library `datasets`."""

import json
from collections.abc import Sequence
from pathlib import Path

from evolora_core.engine.artifacts import check
from evolora_core.engine.run_index import entries, read_suite
from evolora_core.errors import ConfigError
from evolora_core.language.datasets import read_items
from evolora_core.language.families.base import Item
from evolora_core.language.tasks.base import Verifier
from evolora_core.language.tasks.own import enter_beside, gold_of, read_definitions
from evolora_core.searches.registry import find_suite, search_of


def write_splits(home: Path, word: str, seed: int | None, out: Path) -> dict[str, int]:
    """Write SPLIT.jsonl of each split of a suite into `out`, and a README.md that says which file is which split;
    returns their sizes. ConfigError where the suite's splits were not made, or its search has none.
    """
    suite = find_suite(home, word)
    config = read_suite(home, suite) or {}
    search = search_of(config)
    if not search.splits:
        raise ConfigError(f"{suite}: the search '{search.name}' has no prompts and answers")
    own = config["seeds"][0] if seed is None else seed
    done = [entry for entry in entries(home, suite) if entry.stage == "datasets" and entry.seed == own]
    if done and done[-1].state in ("done", "cached"):
        check(home / done[-1].folder)
    splits = _read(home / done[-1].folder, search.splits) if done else {}
    if not splits:
        raise ConfigError(f"{suite}: the splits of seed {own} were not made; run the suite, or name another seed")
    folder = home / done[-1].folder
    verifiers = {own.name: own.verifier for own in read_definitions(folder)}
    out.mkdir(parents=True, exist_ok=True)
    for name, items in splits.items():
        lines = [json.dumps(_row(item, verifiers.get(item.family)), ensure_ascii=False) for item in items]
        (out / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (out / "README.md").write_text(_card(str(suite), own, list(splits)), encoding="utf-8")
    return {name: len(items) for name, items in splits.items()}


def _read(folder: Path, names: Sequence[str]) -> dict[str, list[Item]]:
    """The splits with items that a stage `datasets` left: SPLIT.jsonl, or a file for each domain in a folder SPLIT. An
    empty one, as models that are only merged have for training, is no file that `datasets` reads.
    """
    enter_beside(folder)
    files = {name: [*folder.glob(f"{name}.jsonl"), *sorted((folder / name).glob("*.jsonl"))] for name in names}
    found = {name: [item for file in own for item in read_items(file)] for name, own in files.items()}
    return {name: items for name, items in found.items() if items}


def _row(item: Item, verifier: Verifier | None) -> dict[str, str | None]:
    """`answer` is the right answer as text, None where there is none; `target` what it is graded against, as JSON;
    `task_id` what the item is called in the store.
    """
    answer = gold_of(item, verifier)
    target = json.dumps(item.target, ensure_ascii=False)
    told = {"family": item.family, "depth": item.depth, "task_id": item.task_id}
    return {"prompt": item.prompt, "answer": answer, "target": target} | told


def _card(suite: str, seed: int, splits: list[str]) -> str:
    """The card whose header says which file is which split: from names alone `datasets` knows train and test."""
    files = "".join(f"      - split: {name}\n        path: {name}.jsonl\n" for name in splits)
    return (
        f"---\nconfigs:\n  - config_name: default\n    data_files:\n{files}---\n\n"
        f"The splits of {suite}, run seed {seed}. No prompt is in two of them.\n\n"
        "`answer` is the right answer as text, null where a row has none. `target` is what answers are graded against, "
        "as JSON. `task_id` is the item's name in the view `evaluations` of `evolora sql`.\n"
    )
