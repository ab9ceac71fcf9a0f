"""Stage `holdouts`: the items of a suite's holdout files that a seed is asked, the same for every condition. What its
adapters trained on, or its routers chose on, is left out.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from evolora_core.engine.identity import refuse_changed
from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.engine.tables import write_table
from evolora_core.errors import DataError
from evolora_core.language.datasets import write_items
from evolora_core.language.families.base import Item
from evolora_core.language.tasks.own import enter_tasks
from evolora_core.searches.adapters.evaluation.chosen import Chosen, Count
from evolora_core.searches.adapters.evaluation.holdout_files import digest_of, known_prompts, read_file, sample, unseen
from evolora_core.searches.adapters.settings.holdouts import HoldoutFile
from evolora_core.searches.adapters.stages.datasets import split_rows

if TYPE_CHECKING:
    from evolora_core.searches.adapters.experiment import SuiteConfig


class Files(Strict):
    """What is asked of each file.

    drawn    name of its split, how many items, and by which seed
    digests  hash of what is in it
    """

    files: list[HoldoutFile] = Field(exclude=True)  # where they lie decides nothing
    drawn: list[tuple[str, int | None, int]]
    digests: list[str]

    @classmethod
    def of(cls, files: list[HoldoutFile], contents: Iterable[Sequence[Item]]) -> "Files":
        """The record of these files and their contents."""
        drawn = [(own.name, own.items, own.seed) for own in files]
        return cls(files=files, drawn=drawn, digests=[digest_of(items) for items in contents])


def request(suite: "Suite[SuiteConfig]", seed: int, *, datasets: StageResult) -> StageRequest:
    """Choose the items of `seed`."""
    files = suite.config.evaluation.holdouts
    enter_tasks(suite.config.own_families)  # which a file may ask for; a worker has not read the suite's file
    contents = [read_file(own) for own in files]
    families = sorted({item.family for items in contents for item in items})
    return stage_request(
        suite,
        "holdouts",
        SHARED,
        seed,
        entry=__name__,
        also=suite.config.modules_of(families),
        config=Files.of(files, contents),
        inputs={"datasets": datasets},
        uses_host=False,
    )


def make(work: Work[Files]) -> Made[Chosen]:
    """Leaves NAME.jsonl for each file, and the table `splits`. DataError if a file has changed, or all of it is left
    out.
    """
    known = known_prompts(work.inputs["datasets"])
    asked, counts = {}, {}
    for own, digest in zip(work.config.files, work.config.digests, strict=True):
        refuse_changed(Path(own.file), "file")
        items = read_file(own)
        if digest_of(items) != digest:
            raise DataError(f"{own.file}: has changed since the suite was started; start it again")
        places = unseen(items, known)
        if not places:
            raise DataError(
                f"{own.file}: seed {work.seed} trains or chooses on every prompt of it; take it out of "
                "evaluation.holdouts"
            )
        asked[own.name] = sample(own, items, places)
        write_items(work.folder / f"{own.name}.jsonl", asked[own.name])
        counts[own.name] = Count(
            items=len(asked[own.name]),
            left_out=len(items) - len(places),
            families=sorted({item.family for item in asked[own.name]}),
        )
    write_table(work.folder, "splits", split_rows(asked))
    return Made(0, Chosen(counts))


HOLDOUT_ITEMS = Stage("holdouts", request, make)
