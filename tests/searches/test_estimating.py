"""What an estimate makes of a plan: what stands, what is left, and how long that lasts with so many processes."""

from pathlib import Path

from number_search.search import SEARCH, NumberExperiment

from evolora_core.engine.stage import Step, Suite
from evolora_core.searches import estimating
from evolora_core.searches.estimating import Estimate, Expected, lasts, standing
from evolora_core.searches.registry import suite_id


def plan() -> list[Step]:
    """Of two conditions with two seeds."""
    config = NumberExperiment.model_validate(
        {
            "search": "number", "name": "number", "seeds": [0, 1], "conditions": ["evolved", "guessed"],
            "evaluation": {"comparisons": []},
        }
    )  # fmt: skip
    return SEARCH.plan(Suite(config, suite_id(config)))


def test_stages_wait_for_what_they_need_and_for_a_free_process() -> None:
    steps = plan()
    seconds = dict.fromkeys([step.name for step in steps], 1.0)
    assert lasts(steps, seconds, 1) == len(steps) == 10
    assert lasts(steps, seconds, 2) == 5
    assert lasts(steps, seconds, 100) == 3  # hints, search, judgement
    assert lasts(steps, seconds | {steps[0].name: 0.0}, 100) == 3  # the other seed's take as long as before


def test_nothing_stands_in_a_home_that_is_not_there(tmp_path: Path) -> None:
    assert standing(tmp_path / "home", plan()) == {}
    assert not (tmp_path / "home").exists()


def test_rows_count_what_is_left() -> None:
    steps = plan()
    known = {step.name: Expected(10.0, 2.0, 1e6) for step in steps}
    done = {step.name: None for step in steps if step.name.startswith("shared")}
    rows = Estimate(steps, done, known, 8.0).rows()  # type: ignore[arg-type]  # results are not looked at
    shared, total = rows[0], rows[-1]
    assert (shared["stages"], shared["done"], shared["flops"]) == (2, 2, 0)
    assert (total["stages"], total["done"], total["flops"], total["seconds"]) == (10, 2, 80.0, 16.0)
    assert (total["megabytes"], total["elapsed"]) == (8.0, 8.0)
    assert [row["elapsed"] for row in rows[:-1]] == [None] * (len(rows) - 1)


def test_a_search_without_an_estimator_still_counts_its_stages() -> None:
    rows = Estimate(plan(), {}, None, None).rows()
    assert rows[-1] == {"condition": "", "stage": "total", "stages": 10, "done": 0, "elapsed": None}
    assert not SEARCH.estimator and estimating.Expected() == Expected(0, 0, 0)
