"""Settings of tuning and of calibration: what is tried and measured before the runs that count."""

from pydantic import Field

from evolora_core.engine.strict import Seed, Strict


class TuningConfig(Strict):
    """Trials of settings: the same number of trials for every arm, on seeds that are never reported."""

    seeds: list[Seed] = Field(
        [1000, 1001],
        min_length=1,
        max_length=40,
        description="seeds of the tuning runs; a trial is judged by its mean over them. None may be among the "
        "suite's seeds",
    )
    fraction: float = Field(
        0.5,
        gt=0,
        le=1,
        description="budget of a trial relative to a whole run of the ecology, or of the arm if the arm's is larger",
    )


class CalibrationConfig(Strict):
    """The first generations of an ecology, which tell what the rest takes."""

    generations: int = Field(2, ge=1, description="first generations of the ecology that make its calibration")
    hours: float = Field(
        12,
        gt=0,
        le=8760,
        description="hours that the ecology of one seed may take; one that would take longer is not begun",
    )
