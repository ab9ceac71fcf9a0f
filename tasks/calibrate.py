"""Stage `calibrate`: the first generations of an evolution, which stage `evolve` resumes. Measures what a generation
takes; fails early, and says why, where nothing could be learned.
"""

from tasks import evolve
from tasks._stage import Made, StageRequest, StageResult, Suite, Work, stage_request, stage_task
from tasks._tables import write_table


def request(
    suite: Suite,
    arm: str,
    seed: int,
    *,
    datasets: StageResult,
    prices: StageResult,
    choice: StageResult | None = None,
) -> StageRequest:
    """Run the first generations of an arm like ecology that runs for so many generations."""
    config = evolve.evolve_config(suite, arm, suite.trial(arm, choice)) | {
        "first": min(suite.config.calibration.generations, suite.config.ecology.generations)
    }
    if not evolve.extensible(suite):
        config["generations"] = suite.config.ecology.generations
    inputs = {"datasets": datasets, "prices": prices}
    return stage_request(
        suite, "calibrate", arm, seed, entry=__name__, config=config, inputs=inputs, also=suite.families
    )


def make(work: Work) -> Made:
    """Leaves the last commits of the run, and the table `calibration`; what was computed is in the run's own table."""
    from evolora_core.ecology.evolve import advance
    from evolora_core.ecology.foretaste import measure

    first = work.config["first"]
    run = evolve.begin(work, work.folder, work.config.get("generations", first))
    advance(run, work.report, generations=first)
    found = measure(run)
    write_table(work.folder, "calibration", found.rows())
    facts = {"generations": found.generations, "generation_seconds": found.generation_seconds}
    return Made(run.state.meter.total(), facts)


calibrate = stage_task("calibrate", request, make)
