"""An evolution of one number, and drawing at random: the smallest search that has all that one has to bring."""

from pydantic import Field

from evolora_core.engine.run_index import step_name
from evolora_core.engine.stage import JUDGED, SHARED, Stage, Step, Suite
from evolora_core.engine.strict import Strict
from evolora_core.errors import ConfigError
from evolora_core.searches.base import Arm, Experiment, HostChoice, Search
from evolora_core.searches.closing import closing
from number_search import stages


class Pair(Strict):
    """A declared comparison."""

    a: str
    b: str
    split: str = "test"
    routing: str | None = None
    margin: float | None = None
    regime: str | None = None


class Evaluation(Strict):
    """The declared comparisons."""

    comparisons: list[Pair] = Field([Pair(a="evolved", b="guessed")], description="declared comparisons")
    bootstrap: int = Field(500, ge=100, description="resamples")


class NumberExperiment(Experiment):
    """How near to a hidden number each arm comes."""

    search: str = "number"
    conditions: list[str] = ["evolved", "guessed"]
    hidden: float = Field(0.75, description="the number to be found, between 0 and 1")
    steps: int = Field(8, ge=1, description="steps of drawing")
    children: int = Field(4, ge=1, description="numbers drawn in a step")
    evaluation: Evaluation = Field(Evaluation(), description="declared comparisons")


SEARCHING = {
    "evolved": Stage("evolve", stages.request, stages.evolve),
    "guessed": Stage("guess", stages.request_guess, stages.guess),
}


def check(config: NumberExperiment) -> None:
    """Refuse arms that there are not."""
    if strange := set(config.conditions) - set(SEARCHING):
        raise ConfigError(f"conditions: {min(strange)!r} is none of {', '.join(SEARCHING)}")


def no_host(config: NumberExperiment) -> HostChoice | None:
    """No model is asked anything."""
    return None


def plan(suite: Suite[NumberExperiment]) -> list[Step]:
    """Hints for each seed → a search by each arm → its judgement."""
    steps: list[Step] = []
    for seed in suite.config.seeds:
        hints = Step(step_name(SHARED, seed, "hints"), stages.HINTS, {"suite": suite, "seed": seed})
        steps.append(hints)
        for condition in suite.config.conditions:
            given = {"suite": suite, "condition": condition, "seed": seed}
            stage = SEARCHING[condition]
            found = Step(step_name(condition, seed, stage.name), stage, given, {"hints": hints})
            judged = Step(step_name(condition, seed, JUDGED), stages.EVALUATE, given, {"found": found})
            steps += [found, judged]
    return steps


SEARCH = Search(
    name="number",
    experiment=NumberExperiment,
    check=check,
    host=no_host,
    plan=plan,
    closing=closing,
    sections="number_search.pack",
    arms={name: Arm(name, stage) for name, stage in SEARCHING.items()},
)
