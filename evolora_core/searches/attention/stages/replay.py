"""Stages `replay-STRATEGY`: a strategy is replayed on the exhaustive table, at no further cost of training."""

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from evolora_core.engine.rng import key
from evolora_core.engine.stage import SHARED, Made, Stage, StageRequest, StageResult, Suite, Work, stage_request
from evolora_core.engine.strict import Strict

if TYPE_CHECKING:
    import numpy as np

    from evolora_core.searches.attention.experiment import AttentionExperiment

LEFT = 0.1  # share of the gain from the baseline to the optimum that may be left
REPORTED = 20  # runs between two reports


class Replay(Strict):
    """Who walks the table, how often, and how far."""

    strategy: str
    runs: int
    programs: int
    read_at: int
    together: int
    failures: int


class Within(BaseModel):
    """Share of the runs that have at most a tenth of the gain left where the declared effect is read."""

    within: float


def request(suite: "Suite[AttentionExperiment]", strategy: str, seed: int, *, scores: StageResult) -> StageRequest:
    """Replay of a strategy on the table of a run seed."""
    settings = suite.config.table
    assert settings is not None
    own = Replay(
        strategy=strategy,
        runs=settings.runs,
        programs=settings.programs,
        read_at=settings.read_at,
        together=suite.config.budget.together,
        failures=suite.config.budget.failures,
    )
    return stage_request(
        suite, f"replay-{strategy}", SHARED, seed, entry=__name__, config=own, inputs={"scores": scores}
    )


def make(work: Work[Replay]) -> Made[Within]:
    """Leaves the tables `attention_regrets`, one row for each number of programs, and `attention_replays`, one row for
    each run, read where the declared effect is.
    """
    import numpy as np

    from evolora_core.engine.tables import write_table
    from evolora_core.searches.attention.replaying import replay, values
    from evolora_core.searches.attention.stages.table_scores import read_scores

    own = work.config
    table = read_scores(work.inputs["scores"])
    scores, truths = values(table)
    runs = []
    for number in range(own.runs):
        runs.append(
            replay(
                own.strategy,
                table,
                seed=key(work.seed, 0, number, "attention.replay"),
                programs=own.programs,
                together=own.together,
                failures=own.failures,
            )
        )
        if (number + 1) % REPORTED == 0 or number + 1 == own.runs:
            work.report(number + 1, own.runs, "runs")
    regret, truth_regret = (np.stack([getattr(run, name) for run in runs]) for name in ("regret", "truth_regret"))
    near = regret <= LEFT * scores.max()
    near_truth = truth_regret <= LEFT * truths.max()
    write_table(work.folder, "attention_regrets", _curve(own, regret, truth_regret, near, near_truth))
    at = own.read_at - 1
    write_table(
        work.folder,
        "attention_replays",
        [
            {
                "strategy": own.strategy,
                "run": seed,
                "read_at": own.read_at,
                "measured": run.measured,
                "program": int(run.best[at]),
                "score": float(scores[run.best[at]]),
                "truth": float(truths[run.best[at]]),
                "regret": float(run.regret[at]),
                "truth_regret": float(run.truth_regret[at]),
                "near": bool(near[seed, at]),
                "near_truth": bool(near_truth[seed, at]),
                "until": int(near[seed].argmax()) + 1 if near[seed].any() else None,
            }
            for seed, run in enumerate(runs)
        ],
    )
    return Made(0, Within(within=float(near[:, at].mean())))


def _curve(
    own: Replay, regret: "np.ndarray", truth_regret: "np.ndarray", near: "np.ndarray", near_truth: "np.ndarray"
) -> list[dict[str, Any]]:
    """The rows of `attention_regrets`, from what all runs `[runs, programs]` have left."""
    import numpy as np

    from evolora_core.statistics.inference import wilson

    rows = []
    for place in range(own.programs):
        low, high = np.quantile(regret[:, place], [0.1, 0.9])
        lo, hi = wilson(int(near[:, place].sum()), own.runs)
        truth_lo, truth_hi = wilson(int(near_truth[:, place].sum()), own.runs)
        rows.append(
            {
                "strategy": own.strategy,
                "programs": place + 1,
                "runs": own.runs,
                "regret": float(regret[:, place].mean()),
                "regret_lo": float(low),
                "regret_hi": float(high),
                "within": float(near[:, place].mean()),
                "within_lo": lo,
                "within_hi": hi,
                "truth_regret": float(truth_regret[:, place].mean()),
                "truth_within": float(near_truth[:, place].mean()),
                "truth_within_lo": truth_lo,
                "truth_within_hi": truth_hi,
            }
        )
    return rows


REPLAY = Stage("replay", request, make)
