"""What a pack says before its tables: of a family that an arm never answers, and of items that seeds share. A README of
an earlier version verifies without it.
"""

from collections.abc import Collection
from pathlib import Path

import pandas as pd
import pytest
from example_suite import CONDITIONS
from unplotted import TABLES_ALONE

from evolora_core.report import StoredSuite, build_anew, verify
from evolora_core.searches.adapters.pack.facts import remarks
from evolora_core.searches.adapters.pack.unanswered import unanswered
from evolora_core.store import read, unpacked
from evolora_core.store.connection import opened, store_path

SPLIT = "holdout_id"


def spoil(pack: Path, family: str, conditions: Collection[str], right: int = 0) -> None:
    """Make the answers of conditions to a family wrong in the rows of a pack, but for so many of each."""
    items, answers = (pd.read_parquet(pack / "data" / f"{name}.parquet") for name in ("items", "answers"))
    own = items[(items["split"] == SPLIT) & (items["family"] == family)][["seed", "split", "item"]].assign(own=True)
    asked = answers.merge(own, how="left", on=["seed", "split", "item"])["own"].notna().to_numpy()
    for condition in conditions:
        rows = answers.index[asked & (answers["condition"] == condition).to_numpy()]
        answers.loc[rows, "correct"] = False
        answers.loc[rows[answers.loc[rows, "arm"] == condition][:right], "correct"] = True
    answers.to_parquet(pack / "data" / "answers.parquet", index=False)


def remark(how: str, who: str, count: str) -> str:
    return (
        f"Read means with care: `math` is {how} answered by {who} ({count}), and a mean in distribution averages it "
        "with the other families."
    )


def test_a_family_that_no_arm_answers_is_told_and_a_pack_without_the_sentence_verifies(
    pack: Path, tmp_path: Path
) -> None:
    spoil(pack, "math", CONDITIONS)
    text = (build_anew(pack, pack, TABLES_ALONE) / "README.md").read_text()
    told = f"- {remark('not', 'any arm', '0 of 72 items right')}\n"
    assert text.count("Read means with care") == 1 and f"\n{told}\n## Accuracy\n" in text
    assert verify(tmp_path / "none", pack, TABLES_ALONE) == []
    (pack / "README.md").write_text(text.replace(told, ""))  # as an earlier version wrote it
    assert verify(tmp_path / "none", pack, TABLES_ALONE) == []
    (pack / "README.md").write_text(text.replace("0 of 72", "9 of 72"))
    assert any(line.startswith("README.md: ") for line in verify(tmp_path / "none", pack, TABLES_ALONE))


@pytest.mark.parametrize(
    ("silent", "right", "told"),
    [
        (("frozen", "ecology"), 0, [remark("not", "`frozen`, `ecology`", "0 of 72 items right")]),
        (("frozen",), 0, []),  # what the arms are to learn
        (CONDITIONS, 1, []),  # more than one in a hundred
    ],
)
def test_only_arms_that_never_answer_are_named(
    pack: Path, silent: tuple[str, ...], right: int, told: list[str]
) -> None:
    spoil(pack, "math", silent, right)
    with unpacked(read(pack / "data")) as rows:
        assert unanswered(StoredSuite(rows, "example-0a1b2c3d")) == told


def test_the_bootstrap_of_items_that_seeds_share_is_told(home: Path) -> None:
    assert remarks(StoredSuite(home, "example-0a1b2c3d")) == []
    with opened(store_path(home)) as connection:
        shared = "UPDATE data.evaluations SET prompt = split_part(task_id, '-', 3) WHERE split <> 'holdout_ood'"
        connection.execute(shared)
    assert remarks(StoredSuite(home, "example-0a1b2c3d")) == [
        "Seeds share items in distribution and on the retention families. Intervals there are of a bootstrap that "
        "draws seeds and items crossed, also where this page says that it draws seeds, then items."
    ]
