"""Controls keep their budget, pass over what cannot be measured, and say why they cannot begin."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from searches.merging.small_pool import DATA, DOMAINS, PARENTS
from tiny_merges import character_host
from transformers import AutoModelForCausalLM

from evolora_core.engine.stage import NotRun, StageResult, Work
from evolora_core.errors import StageError, Unaffordable
from evolora_core.language.hosts.host import load_host
from evolora_core.searches.merging.controls import adam, best_parent, ensemble, fine_tuned_mean, grid, multitask, soup
from evolora_core.searches.merging.controls.task import Task, mean, shifted
from evolora_core.searches.merging.data import Splits
from evolora_core.searches.merging.experiment import MergeExperiment
from evolora_core.searches.merging.judging.judge import Failed, Judge
from evolora_core.searches.merging.models import fill, shell
from evolora_core.searches.merging.settings import FineTuning, Gradients
from evolora_core.searches.merging.stages import choosing, measuring
from evolora_core.searches.merging.stages.evaluate import Evaluation
from evolora_core.searches.merging.stages.evaluate import make as evaluate
from evolora_core.searches.merging.training import BACKWARD, early_looks, fine_tune, looks
from evolora_core.searches.merging.weights import Loaded


def task(judge: Judge, evaluations: float, folder: Path = Path(), **changes: Any) -> Task:
    """A control of three parents that may spend so many measurements of a plain model."""
    return Task(
        judge=judge,
        parents=changes.get("parents", PARENTS),
        parent="",
        groups=changes.get("groups", 1),
        finalists=2,
        budget=round(evaluations * judge.plain_cost()),
        seed=changes.get("seed", 3),
        gradients=changes.get("gradients", Gradients(learning_rates=[1e-4], share=0.1, checkpoints=4)),
        specialists=changes.get("specialists", FineTuning()),
        train=changes.get("train", []),
        folder=folder,
        report=lambda *_: None,
    )


@pytest.fixture
def broken(judge: Judge) -> Iterator[str]:
    """The name of a parent whose training gave NaN."""
    own = judge.pool.models["code"]
    judge.pool.models["broken"] = Loaded(
        own.config, {name: torch.full_like(own.get(name), float("nan")) for name in own.names}
    )
    yield "broken"
    del judge.pool.models["broken"]


def test_a_parent_that_gives_no_numbers_never_wins(judge: Judge, broken: str) -> None:
    own = task(judge, 60, parents=("math", broken, "code"))
    for control, evaluations in ((best_parent, 3), (soup, 4)):
        choice = control.choose(own)  # type: ignore[attr-defined]
        assert choice.genome is not None and broken not in choice.genome.text and choice.evaluations == evaluations
    for control in (best_parent, soup, grid, adam):
        with pytest.raises(Failed, match="none of .* could be measured"):
            control.choose(task(judge, 60, parents=(broken,)))  # type: ignore[attr-defined]
    assert issubclass(Failed, StageError)  # no fault of the machine's, which would be tried again


def test_a_soup_ends_where_its_budget_does(judge: Judge) -> None:
    choice = soup.choose(task(judge, 4.5))  # three parents, one mean of two, and not the second one
    assert choice.evaluations == 4 and judge.meter.total() <= 4.5 * judge.plain_cost()


@pytest.mark.parametrize(("evaluations", "most"), [(30, 20), (6, 4)])
def test_the_grid_has_as_many_weights_as_the_budget_pays_for(judge: Judge, evaluations: int, most: int) -> None:
    choice = grid.choose(task(judge, evaluations))
    assert judge.meter.total() <= evaluations * judge.plain_cost() and choice.evaluations == most
    known = {shifted(PARENTS, np.full((3, 1), round(n / most, 2))).id for n in range(1, most + 1)}
    assert choice.genome is not None and choice.genome.id in known


@pytest.mark.parametrize("control", [grid, adam, fine_tuned_mean])
def test_a_budget_that_does_not_pay_for_a_beginning_says_so(control: Any, judge: Judge) -> None:
    with pytest.raises(Unaffordable, match=r"^(lambda-grid|adam|fine-tuned-mean): .*; raise budget.evaluations$"):
        control.choose(task(judge, 1))


@pytest.mark.parametrize("control", [best_parent, soup, ensemble])
def test_a_budget_that_does_not_pay_for_every_parent_says_so(control: Any, judge: Judge) -> None:
    beside = judge.plain_cost("selection") / judge.plain_cost() if control is best_parent else 0
    with pytest.raises(Unaffordable, match=r": the budget does not pay for every parent; raise budget.evaluations$"):
        control.choose(task(judge, 2.99))
    if beside:
        with pytest.raises(Unaffordable, match="every parent, and the best one on the selection items; raise budget"):
            control.choose(task(judge, 2.99 + beside))
    assert judge.meter.total() == 0
    own = task(judge, 3.001 + beside)
    control.choose(own)
    assert 0 < judge.meter.total() <= own.budget


def test_adam_goes_where_the_score_of_the_search_items_rises(judge: Judge) -> None:
    """Its first step moves every weight by the learning rate, against the sign of its gradient: that of the score, by
    finite differences, for each parent and group of layers.
    """
    (after,), taken = adam._descend(task(judge, 600, groups=2), 1e-3, 1, DATA.search, 0)
    moved = after - np.full((3, 2), 1 / 3)
    assert taken == 1 and np.allclose(np.abs(moved), 1e-3, atol=1e-5)
    rises = np.zeros((3, 2))
    for place in np.ndindex(3, 2):
        for side in (1, -1):
            weights = np.full((3, 2), 1 / 3)
            weights[place] += side * 0.02
            rises[place] += side * judge.measure(shifted(PARENTS, weights)).score
    assert (np.sign(moved) == np.sign(rises)).all(), rises


@pytest.mark.parametrize("share", [0.01, 0.15, 1.0])
def test_adam_pays_for_its_merges_and_the_rows_that_it_takes(share: float, judge: Judge) -> None:
    """As many steps as the budget pays for, none for rows that were not taken."""
    own = task(judge, 30, gradients=Gradients(learning_rates=[0.03, 0.1], share=share, checkpoints=2))
    each = {0.01: 1, 0.15: 1, 1.0: 12}[share]  # of 36 items; 15 % are five, of which each of three domains gives one
    choice = adam.choose(own)
    dearest = 2 * (3 * BACKWARD * each * int(judge.item_costs().max()) + judge.cost(mean(PARENTS)))
    assert own.budget - dearest < judge.meter.total() <= own.budget
    merge = judge.cost(mean(PARENTS)) - judge.plain_cost()
    merges, rest = divmod(judge.meter.accounts["assimilation"].flops, merge)
    steps = merges - 4 - 2  # its states and finalists
    assert rest == 0 and choice.evaluations == steps + 4
    tokens = judge.meter.accounts["update"].tokens / steps / judge.questions["search"].tokens
    assert tokens == pytest.approx(3 * each / 36, rel=0.1)


def test_a_training_is_looked_at_as_often_as_was_reserved(judge: Judge, tmp_path: Path) -> None:
    assert sorted(looks(7, 4)) == [2, 4, 5, 7] and looks(4, 4) == {1, 2, 3, 4}
    assert sorted(early_looks(160, 4)) == [4, 13, 45, 160] and max(early_looks(5, 4)) == 5
    fine_tuned_mean.choose(task(judge, 6.75, tmp_path))  # which pays for seven steps
    assert judge.meter.accounts["selection"].flops == 5 * judge.plain_cost("selection")  # before, and four states


@pytest.mark.parametrize("seed", range(4))
def test_a_fine_tuned_mean_takes_as_many_steps_as_its_budget_pays_for(seed: int, judge: Judge, tmp_path: Path) -> None:
    """Whatever rows its seed draws: some steps are of longer items than the mean. One step more would be too many."""
    gradients = Gradients(learning_rates=[1e-4, 3e-4], share=0.1, checkpoints=2)
    beside = judge.cost(mean(PARENTS)) + 5 * judge.plain_cost("selection")
    six = 2 * 6 * BACKWARD * judge.item_costs().mean() * 4  # steps of four rows, two tries, as dear as the mean
    own = task(judge, (beside + six + 1) / judge.plain_cost(), tmp_path, gradients=gradients, seed=seed)
    fine_tuned_mean.choose(own)
    dearest = 2 * BACKWARD * int(np.sort(judge.item_costs())[-4:].sum())
    assert own.budget - dearest < judge.meter.total() <= own.budget


def test_the_mean_is_fine_tuned_by_the_rate_that_selection_prefers_or_not_at_all(judge: Judge, tmp_path: Path) -> None:
    """A rate that spoils every weight leaves the mean itself; one that helps is taken, and its state is kept."""
    uniform = judge.measure(mean(PARENTS), "selection").score
    for rates, gains in (([1e4], False), ([1e4, 3e-4], True)):
        gradients = Gradients(learning_rates=rates, share=0.5, checkpoints=4)
        left = 110 + judge.meter.total() / judge.plain_cost()
        choice = fine_tuned_mean.choose(task(judge, left, tmp_path, gradients=gradients))
        kept: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "model").eval()
        assert judge.measure_model(kept, "selection").score == pytest.approx(choice.selection_score, abs=1e-5)
        assert choice.selection_score is not None
        if gains:
            assert choice.selection_score > uniform and choice.note.endswith("learning rate 0.0003")
        else:
            assert choice.selection_score == pytest.approx(uniform) and choice.note == "step 0"


def test_the_fine_tuning_on_all_domains_begins_at_the_base_and_takes_the_steps_of_all(
    judge: Judge, tmp_path: Path
) -> None:
    items, own = judge.questions["search"].items, FineTuning(steps=4, rows=6, learning_rate=3e-4)
    begun = judge.measure_model(base_of(judge), "search").score
    choice = multitask.choose(task(judge, 600, tmp_path, specialists=own, train=items))
    again = base_of(judge)
    fine_tune(judge.pool.host, again, items, steps=12, rows=6, learning_rate=3e-4, seed=3, role="merge.multitask")
    assert choice.search_score == judge.measure_model(again, "search").score > begun
    kept: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    for name, value in kept.named_parameters():
        assert torch.equal(value, again.get_parameter(name)), name


def base_of(judge: Judge) -> Any:
    """A copy of the model that all parents came from."""
    base = judge.pool.models["base"]
    model = shell(base.config, judge.pool.host.device)
    fill(model, base.get)
    return model


def test_a_specialist_does_not_depend_on_what_was_drawn_before(tmp_path: Path, splits: Splits) -> None:
    """OPT has dropout, which draws from the state of the whole process."""
    host = character_host(tmp_path, "opt", dropout=0.5, word_embed_proj_dim=32, ffn_dim=64)
    trained = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        model = load_host(str(tmp_path)).model
        fine_tune(host, model, splits["train"]["math"], steps=2, rows=4, learning_rate=0.01, seed=0, role="test")
        trained.append(model.state_dict())
    assert all(torch.equal(trained[0][name], trained[1][name]) for name in trained[0])
    assert not torch.equal(trained[0]["lm_head.weight"], host.model.state_dict()["lm_head.weight"])


@pytest.mark.parametrize(("condition", "body"), [("adam", choosing.control), ("cma", choosing.search)])
def test_a_condition_whose_budget_is_too_small_is_not_run(
    condition: str, body: Any, judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As searches/base.py prescribes: the rest of its seed counts."""
    monkeypatch.setattr(measuring, "judge_of", lambda work, splits: judge)
    comparison = {"a": condition, "b": "base"}
    suite = MergeExperiment.model_validate(
        {"name": "poor", "conditions": ["base", condition], "domains": DOMAINS, "budget": {"evaluations": 1}}
        | {"evaluation": {"comparisons": [comparison]}}
    )
    work = Work(config=choosing.asked(suite, condition), seed=0, folder=tmp_path)
    made = body(work)
    assert isinstance(made.facts, NotRun) and made.facts.not_run.endswith("raise budget.evaluations")
    assert not list(tmp_path.rglob("*.parquet"))
    chosen = StageResult(
        stage="control", condition=condition, seed=0, folder="", identity="0", seconds=0.0, flops=0,
        summary=made.facts.model_dump(),
    )  # fmt: skip
    asked = Evaluation(condition=condition, parents=suite.parents, domains=suite.domains, decoding=suite.decoding)
    judged = evaluate(Work(config=asked, seed=0, folder=tmp_path, results={"chosen": chosen}))
    assert judged.facts == made.facts
