"""The answers of a suite: each item with what every arm said of it, packed for a page.

Arms that say the same of an item share one entry. What is too much for the page is left out evenly: the same share of
every seed, split and family, chosen by a hash of the items' ids, so that what is shown is no choice of ours.
"""

import base64
import gzip
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from evolora_core.engine.run_index import SuiteId, entries
from evolora_core.language.datasets import read_items
from evolora_core.language.splits import HOLDOUTS, SPLITS, in_order, title
from evolora_core.language.tasks.own import gold_of, read_definitions
from evolora_core.report.stored import StoredSuite
from evolora_core.store import query

LONGEST = 1500  # characters of a prompt or an answer
UNSEEN = {*SPLITS} - {*HOLDOUTS}  # splits of which no answers are kept
HOST = -1  # the organelle of an answer that the bare host gave

_ANSWERS = """
    SELECT seed, split, family, depth, task_id, any_value(prompt), answer, correct, reason,
        list([arm, organelle::VARCHAR] ORDER BY arm)
    FROM evaluations WHERE suite = $suite AND list_contains($seeds, seed)
    GROUP BY seed, split, family, depth, task_id, answer, correct, reason
    ORDER BY seed, split, family, task_id, correct DESC, count(*) DESC, answer
"""
_ARMS = """
    SELECT arm FROM evaluations JOIN suites USING (suite) WHERE suite = $suite AND list_contains($seeds, seed)
    GROUP BY ALL ORDER BY any_value(list_position(conditions, condition)), any_value(arm <> condition), arm
"""


@dataclass(frozen=True)
class Said:
    """An answer to one item. arms: (name, number of the organelle or adapter; -1 is the bare host, -2 the host
    after examples).
    """

    answer: str
    correct: bool
    reason: str
    arms: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class AskedItem:
    """One item of one seed.

    gold  the right answer as text, None where there is none or where it is not known here
    cut   how many of its texts are shown without their end
    """

    seed: int
    split: str
    family: str
    depth: str
    task_id: str
    prompt: str
    gold: str | None
    cut: int
    said: tuple[Said, ...]


@dataclass(frozen=True)
class Answers:
    """Items with their answers; `of` is how many there are."""

    arms: tuple[str, ...]
    items: tuple[AskedItem, ...]
    of: int

    @property
    def cut(self) -> int:
        """How many texts are shown without their end."""
        return sum(item.cut for item in self.items)


def read_answers(stored: StoredSuite, seeds: Sequence[int]) -> Answers:
    """Every graded answer of these seeds, all splits and arms."""
    given = {"suite": stored.suite, "seeds": list(seeds)}
    arms = tuple(arm for (arm,) in query(stored.home, _ARMS, given).rows)
    found: dict[tuple[int, str, str], AskedItem] = {}
    said: dict[tuple[int, str, str], list[Said]] = defaultdict(list)
    cut_answers: Counter[tuple[int, str, str]] = Counter()
    golds = {seed: _golds(stored.home, SuiteId.of(stored.suite), seed) for seed in seeds}
    for seed, split, family, depth, task_id, prompt, answer, correct, reason, own in query(
        stored.home, _ANSWERS, given
    ).rows:
        key = (seed, split, task_id)
        if key not in found:
            gold = golds[seed].get((split, task_id))
            cut = _over(prompt) + _over(gold)
            found[key] = AskedItem(seed, split, family, depth, task_id, _short(prompt), gold and _short(gold), cut, ())
        cut_answers[key] += _over(answer)
        who = tuple((arm, HOST if number is None else int(number)) for arm, number in own)
        said[key].append(Said(_short(answer), bool(correct), reason or "", who))
    items = tuple(replace(item, cut=item.cut + cut_answers[key], said=tuple(said[key])) for key, item in found.items())
    return Answers(arms, items, len(items))


def thinned(answers: Answers, share: float) -> Answers:
    """That share of the items of every seed, split and family, rounded down."""
    groups: dict[tuple[int, str, str], list[AskedItem]] = defaultdict(list)
    for item in answers.items:
        groups[item.seed, item.split, item.family].append(item)
    kept = [item for own in groups.values() for item in sorted(own, key=_place)[: int(share * len(own))]]
    return replace(
        answers, items=tuple(sorted(kept, key=lambda item: (item.seed, item.split, item.family, _place(item))))
    )


def packed(answers: Answers, size: int) -> tuple[str, Answers]:
    """The answers as text of at most `size` characters (JSON, gzip, base64), and those that it holds."""
    share, kept = 1.0, thinned(answers, 1.0)
    while len(text := _encoded(kept)) > size and kept.items:
        share *= min(0.9, 0.97 * size / len(text))
        kept = thinned(answers, share)
    return text, kept


def document(answers: Answers) -> dict[str, Any]:
    """What the page's script reads: names once, and of each item [seed, split, family, depth, prompt, gold, said] with
    said = [[answer, correct, reason, [[arm, organelle], …]], …]; names are places in the lists.
    """
    splits = in_order({item.split for item in answers.items})
    families = sorted({item.family for item in answers.items})
    depths = sorted({item.depth for item in answers.items})
    split_at, family_at, depth_at, arm_at = (_places(own) for own in (splits, families, depths, answers.arms))
    return {
        "arms": list(answers.arms),
        "splits": [title(split) for split in splits],
        "families": families,
        "depths": depths,
        "seeds": sorted({item.seed for item in answers.items}),
        "items": [
            [item.seed, split_at[item.split], family_at[item.family], depth_at[item.depth], item.prompt, item.gold]
            + [
                [
                    [own.answer, int(own.correct), own.reason, [[arm_at[arm], number] for arm, number in own.arms]]
                    for own in item.said
                ]
            ]
            for item in answers.items
        ],
    }


def _golds(home: Path, suite: SuiteId, seed: int) -> dict[tuple[str, str], str]:
    """The right answers of a seed by split and item, where the folders of its items still stand."""
    golds: dict[tuple[str, str], str] = {}
    for own in entries(home, suite):
        if own.seed != seed or own.stage not in ("datasets", "holdouts"):
            continue
        verifiers = {task.name: task.verifier for task in read_definitions(home / own.folder)}
        for file in sorted((home / own.folder).glob("*.jsonl")):
            if file.stem in UNSEEN:
                continue
            for item in read_items(file):
                if (text := gold_of(item, verifiers.get(item.family))) is not None:
                    golds[file.stem, item.task_id] = text
    return golds


def _encoded(answers: Answers) -> str:
    text = json.dumps(document(answers), ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), mtime=0)).decode()


def _place(item: AskedItem) -> str:
    return hashlib.sha256(f"{item.seed}/{item.split}/{item.task_id}".encode()).hexdigest()


def _places(names: Sequence[str]) -> dict[str, int]:
    return {name: place for place, name in enumerate(names)}


def _short(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} … ({len(text) - LONGEST} characters more)"


def _over(text: str | None) -> bool:
    return len(text or "") > LONGEST
