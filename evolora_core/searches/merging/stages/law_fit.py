"""Stage `law-fit`: the law of merging, fitted on small subsets and judged on large ones beside "the same as before"."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict
from evolora_core.errors import StageError

if TYPE_CHECKING:
    from evolora_core.searches.merging.experiment import MergeExperiment


class Fitting(Strict):
    """Which subsets are fitted, which are predicted, and resamples for intervals."""

    fitted: int
    first_predicted: int
    bootstrap: int


class Fitted(BaseModel):
    """Mean absolute error of the law and of its rival on the predicted subsets, by method (nats)."""

    law: dict[str, float]
    same_as_before: dict[str, float]


def request(suite: "Suite[MergeExperiment]", seed: int, *, merges: Sequence[StageResult]) -> StageRequest:
    """Fit the law of a seed."""
    own = suite.config.law
    assert own is not None
    return stage_request(
        suite,
        "law-fit",
        SHARED,
        seed,
        entry=__name__,
        config=Fitting(fitted=own.fitted, first_predicted=own.first_predicted, bootstrap=own.bootstrap),
        inputs={result.stage: result for result in merges},
        uses_host=False,
    )


def make(work: Work[Fitting]) -> Made[Fitted]:
    """Leaves the tables `law_fits` and `law_points`. StageError: too few merges have a loss."""
    from evolora_core.engine.tables import read_table, write_table
    from evolora_core.searches.merging.law_fitting import fit_method

    rows = [row for folder in work.inputs.values() for row in read_table(folder, "merge_law")]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    fits: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    for number, method in enumerate(methods):
        own = [row for row in rows if row["method"] == method and row["loss"] is not None]
        for size in sorted({row["parameters"] for row in rows}):
            known = {row["merged"] for row in own if row["parameters"] == size}
            if work.config.fitted not in known or max(known) < work.config.first_predicted:
                raise StageError(
                    f"law: {method}: too few merges of {size} parameters could be measured; a specialist has diverged: "
                    "lower specialists.learning_rate"
                )
        summary, found = fit_method(own, work.config, work.seed)
        fits.append({"method": method, **summary})
        points += [{"method": method, **point} for point in found]
        work.report(number + 1, len(methods), method)
    write_table(work.folder, "law_fits", fits)
    write_table(work.folder, "law_points", points)
    return Made(
        0,
        Fitted(
            law={fit["method"]: fit["law_error"] for fit in fits},
            same_as_before={fit["method"]: fit["same_error"] for fit in fits},
        ),
    )


LAW_FIT = Stage("law-fit", request, make)
