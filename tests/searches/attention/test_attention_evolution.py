"""The loop of the attention search with real sandboxes: how many work at a time and where it is killed changes nothing,
known programs cost nothing, those that fail never win, budgets are kept.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confinement import confined

from evolora_core.engine.meter import Meter
from evolora_core.engine.probes import probe
from evolora_core.searches.attention.candidates import ranked
from evolora_core.searches.attention.chosen import leave
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.evolution import Run, _candidate, evolve, rows_of
from evolora_core.searches.attention.finalists import choose, complete, reached
from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.measuring import loss_rows, measure_all
from evolora_core.searches.attention.names import STRATEGIES
from evolora_core.searches.attention.panel import LADDER_STEPS, Panel, select
from evolora_core.searches.attention.programs.rejection import Rejected, Rejection
from evolora_core.searches.attention.proposers.base import Call, Proposal, Proposer, Request, Scored, Unusable
from evolora_core.searches.attention.proposers.grammar import GrammarProposer
from evolora_core.searches.attention.settings import Budget, Training
from evolora_core.searches.attention.strategies import BASELINE

pytestmark = confined

FRAMEWORK, SIZES, SEED, FURTHER = "coefficient-dynamics", ("xs", "s", "m"), 3, 4
TEMPLATE = get_framework(FRAMEWORK).source
BUDGET = Budget(together=3, parallel=3, finalists=2, failures=4)
RATE = 0.004
MOST = 7  # baseline measurements that a run may spend: some programs in two generations


def make_panel(parallel: int) -> Panel:
    """Sandboxes, a corpus of 24 texts and training of 6 steps."""
    settings = CorpusSettings(shares={"markov": 1.0}, train=64, held_out=48, context=32)
    corpus = select(make_corpus(settings, 1), "selection")
    budget = BUDGET.model_copy(update={"parallel": parallel})
    return Panel(corpus, Training(steps=6, batch=4, warmup=1), dict.fromkeys(SIZES, RATE), budget, trusted=False)


@pytest.fixture(scope="module")
def panel() -> Iterator[Panel]:
    """Three sandboxes."""
    with make_panel(3) as made:
        yield made


@pytest.fixture(scope="module")
def baseline(panel: Panel) -> Curve:
    """What was measured of softmax attention."""
    args = (Meter(), "selection", lambda *_: None)
    return measure_all(panel, "mha", TEMPLATE, SIZES, (SEED, FURTHER), *args)


def new_run(baseline: Curve, **budget: Any) -> Run:
    """A run in which nothing was tried."""
    own = BUDGET.model_copy(update=budget)
    return Run(FRAMEWORK, TEMPLATE, baseline, SIZES, (SEED,), own, 7, Meter())


def go(
    run: Run, panel: Panel, folder: Path, programs: float, proposer: Proposer | None = None, strategy: str = "evolution"
) -> Run:
    """Spend what so many baseline measurements cost."""
    own = proposer or GrammarProposer(get_grammar(FRAMEWORK))
    limit = int(programs * panel.plain(run.baseline, SIZES[-1:]))
    evolve(strategy, own, panel, run, limit=limit, checkpoints=folder, report=lambda *_: None)
    return run


def test_an_answer_of_which_no_program_can_be_made_is_a_child_of_whom_the_model_was_shown() -> None:
    """So it counts among the children that a parent has had, and stands in the lineage."""
    givers = tuple(Scored(name, "", None, 0.1) for name in ("first", "second"))
    call = Call("m", 1, 1, 0.1, 0.0, "unusable", "0", "no program")

    class Answers:
        def propose(self, request: Request) -> Proposal:
            raise Unusable(Rejection("syntax", "it has no program", ""), call, (request.parents[0].program_id,))

    own, asked = _candidate(Answers(), Request(FRAMEWORK, givers, (), (0, 1, 0)), 9, 1, 0, (4, 5))
    assert own.parents == (4,) and own.status == "rejected" and asked is call


def left(run: Run, panel: Panel, folder: Path) -> dict[str, Any]:
    """All that the stage writes of a run: tables and files, apart from seconds."""
    finalists = complete(choose(run, panel, [FURTHER], ranked(run.past)[:2]), run, panel, [FURTHER])
    best = finalists[0]
    folder.mkdir()
    leave(folder, best.source, best.curve, FRAMEWORK, best.genome)
    losses = [row | {"seconds": 0} for row in loss_rows(best.program_id, best.curve, "selection")]
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "curve.json"}
    facts = json.loads((folder / "curve.json").read_text())
    spent = [(row["purpose"], row["flops"], row["tokens"]) for row in run.meter.rows()]
    tables = rows_of(run.past, finalists)
    programs = [row | {"seconds": 0} for row in tables["attention_programs"]]
    return tables | {
        "attention_programs": programs, "attention_losses": losses, "files": files, "flops": facts["flops"],
        "n": facts["n"], "compute": spent,
    }  # fmt: skip


@pytest.fixture(scope="module")
def whole(panel: Panel, baseline: Curve, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, dict[str, Any]]:
    """A run of some generations that nothing disturbed, and what it left."""
    folder = tmp_path_factory.mktemp("whole")
    run = go(new_run(baseline), panel, folder / "checkpoints", MOST)
    return run, left(run, panel, folder / "left")


@pytest.mark.slow
def test_three_at_a_time_are_as_good_as_one(whole: tuple[Run, dict[str, Any]], baseline: Curve, tmp_path: Path) -> None:
    with make_panel(1) as narrow:
        run = go(new_run(baseline, parallel=1), narrow, tmp_path / "checkpoints", MOST)
        assert left(run, narrow, tmp_path / "left") == whole[1]


class Killed(BaseException):
    """Like a signal: nothing catches it."""


def test_a_killed_run_ends_as_if_nothing_had_been(
    whole: tuple[Run, dict[str, Any]], panel: Panel, baseline: Curve, tmp_path: Path
) -> None:
    kills: list[int] = []

    def die(generation: int, **_: Any) -> None:
        kills.append(generation)
        raise Killed

    with probe("committed", die):
        while True:
            try:
                run = go(new_run(baseline), panel, tmp_path / "checkpoints", MOST)
                break
            except Killed:
                continue
    assert kills == [*range(1, 1 + max(own.generation for own in run.past) + 1)] and len(kills) > 1
    assert left(run, panel, tmp_path / "left") == whole[1]


def test_the_budget_is_kept_to_one_program(whole: tuple[Run, dict[str, Any]], panel: Panel, baseline: Curve) -> None:
    run, limit = whole[0], MOST * panel.plain(baseline, SIZES[-1:])
    spent = [own.flops for own in run.past]
    assert sum(spent) >= limit > sum(spent[:-1])
    ids = [own.program_id for own in run.past if own.twin is None]
    assert len(set(ids)) == len(ids) > 2 and len({own.generation for own in run.past}) > 1
    assert any(own.parents for own in run.past if own.generation)


class Scripted:
    """Gives the same texts in the same order, then the last one for ever; an exception is raised."""

    def __init__(self, *texts: str | Exception) -> None:
        self.texts, self.asked = list(texts), 0

    def propose(self, request: Request) -> Proposal:
        text = self.texts[min(self.asked, len(self.texts) - 1)]
        self.asked += 1
        if isinstance(text, Exception):
            raise text
        return Proposal(text, None, "scripted", tuple(own.program_id for own in request.parents))


def changed(before: str, after: str) -> str:
    """The template with one thing in its block changed."""
    assert TEMPLATE.count(before) == 1
    return TEMPLATE.replace(before, after)


FINISHED = '-> y [B, H, T, d]."""\n        return y'
GOOD = changed("/ math.sqrt(q.shape[-1])", "/ (1.5 * math.sqrt(q.shape[-1]))")
OTHER = changed("/ math.sqrt(q.shape[-1])", "/ (2.5 * math.sqrt(q.shape[-1]))")
TWIN = GOOD.replace("scores", "products").replace("        future = ", "        # what comes later\n        future = ")
TWIN = TWIN.replace('"""alpha = softmax(q k / sqrt(d)) over the past."""', '"""Another text."""')
RAISES = changed(FINISHED, FINISHED.replace("return y", "return y.view(7, 7, 7)"))
LEAKS = changed("        return q, k, v", "        return q, k, v + v.mean(dim=2, keepdim=True)")
# The ladder looks at longer texts at the smallest size alone, which has 16 channels.
NANS = changed(
    FINISHED,
    FINISHED.replace("return y", "return y * math.nan if y.shape[1] * y.shape[3] > 16 and y.shape[2] > 20 else y"),
)
# The ladder has no batch of four rows of the context's length.
FAILS_WHERE_SMALL = changed(
    FINISHED,
    FINISHED.replace(
        "return y", "return y * math.nan if y.shape[::2] == (4, 32) and y.shape[1] * y.shape[3] == 16 else y"
    ),
)


def test_the_chosen_one_has_its_curve_at_every_size(panel: Panel, baseline: Curve, tmp_path: Path) -> None:
    run = go(new_run(baseline, together=2, failures=2), panel, tmp_path, 20, Scripted(FAILS_WHERE_SMALL, GOOD))
    assert [own.status for own in run.past] == ["ok", "ok", "twin", "twin"]
    assert all(set(own.curve.texts) == {("m", SEED)} for own in run.past[:2])  # a search asks the largest size alone
    before = run.meter.flops("selection")
    ways = [run.past[:2], run.past[1::-1]]
    for finalists in ways:
        first, second = complete(finalists, run, panel, [FURTHER])
        assert (first.source, second.source) == (GOOD, FAILS_WHERE_SMALL)  # it cannot be trained at every size
        assert set(first.curve.texts) == {("m", SEED)} | {
            (size, seed) for size in ("xs", "s") for seed in (SEED, FURTHER)
        }
    assert run.meter.flops("selection") == before and run.meter.flops("evaluation") > 0
    only = complete(run.past[:1], run, panel, [])
    assert [own.source for own in only] == [FAILS_WHERE_SMALL]


def test_a_finalist_that_the_budget_does_not_reach_is_none(panel: Panel, baseline: Curve, tmp_path: Path) -> None:
    run = go(new_run(baseline, together=2, failures=2), panel, tmp_path, 20, Scripted(GOOD, OTHER))
    spent, (first, second) = run.meter.total(), ranked(run.past)
    one = panel.plain(first.curve, ["m"])
    for budget, number in ((0, 1), (spent + one, 1), (spent + one + 1, 2)):
        found, others = reached(run, panel, [FURTHER], budget)
        assert [*found, *others] == [first, second] and len(found) == number
    assert reached(run, panel, [], 0) == ([first, second], [])  # they cost nothing more
    chosen = choose(run, panel, [FURTHER], [first])
    assert [own.number for own in chosen] == [first.number] and len(chosen[0].curve.texts) == 2
    assert run.meter.total() == spent + one


def test_who_fails_is_recorded_and_never_wins_and_twins_cost_nothing(
    panel: Panel, baseline: Curve, tmp_path: Path
) -> None:
    assert TWIN != GOOD
    proposer = Scripted(RAISES, GOOD, LEAKS, NANS, TWIN)
    run = go(new_run(baseline, together=4, failures=3), panel, tmp_path / "checkpoints", 20, proposer)
    raises, good, leaks, nans, *twins = run.past
    assert [own.rejection.stage for own in (raises, leaks, nans) if own.rejection] == ["shapes", "causality", "train"]
    assert "depends on position" in str(leaks.rejection) and "finite" in str(nans.rejection)
    assert all(own.score is None and own.status == "rejected" for own in (raises, leaks, nans))
    assert good.status == "ok" and good.score is not None
    ladder = LADDER_STEPS * baseline.flops["xs"]
    assert raises.flops == leaks.flops == ladder < nans.flops == good.flops
    assert run.meter.total() == sum(own.flops for own in (raises, good, leaks, nans))
    assert run.meter.accounts["selection"].seconds == pytest.approx(sum(own.seconds for own in run.past))
    assert nans.seconds > raises.seconds > 0  # what is refused takes time too
    # The rest is one program over and over, in other words: it is known, and ends the run.
    assert [(own.status, own.twin, own.flops, own.score) for own in twins] == 4 * [("twin", 1, 0, good.score)]
    assert {own.program_id for own in twins} == {good.program_id} and {own.source for own in twins} == {TWIN}
    assert [own.number for own in ranked(run.past)] == [1]
    assert [own.source for own in choose(run, panel, [FURTHER], ranked(run.past)[:2])] == [GOOD]
    finals = choose(run, panel, [FURTHER], ranked(run.past)[:2])
    tables = rows_of(run.past, finals)
    stored = tables["attention_programs"]
    assert [row["final_score"] for row in stored] == [finals[0].score if own is good else None for own in run.past]
    assert finals[0].score != good.score  # of two seeds
    assert all(row["seconds"] > 0 for row in stored[:4]) and all(row["seconds"] == 0 for row in stored[4:])
    assert [row["candidate"] for row in tables["attention_programs"] if row["chosen"]] == [good.number]
    rows = tables["candidates"]
    assert [(row["status"], row["reject_stage"], row["score"]) for row in rows[:4]] == [
        ("failed", "shapes", None), ("ok", "", good.score), ("failed", "causality", None), ("failed", "train", None),
    ]  # fmt: skip
    assert all(row["reason"] for row in rows if row["status"] == "failed")
    assert [row["fresh"] for row in rows] == 4 * [True] + 4 * [False]


def test_a_copy_of_the_baseline_is_known_from_the_beginning(panel: Panel, baseline: Curve, tmp_path: Path) -> None:
    copy = TEMPLATE.replace("        future = ", "        # what comes later\n        future = ")
    run = go(new_run(baseline, together=2, failures=2), panel, tmp_path / "checkpoints", 20, Scripted(copy))
    assert copy != TEMPLATE and [(own.status, own.twin, own.score, own.flops) for own in run.past] == 2 * [
        ("twin", BASELINE, 0.0, 0)
    ]
    assert not ranked(run.past) and run.meter.total() == 0


def test_a_run_of_refused_programs_ends(panel: Panel, baseline: Curve, tmp_path: Path) -> None:
    refused = Scripted("def (", Rejected("syntax", "there is no code in the answer"), TEMPLATE + "\nimport os\n")
    run = go(new_run(baseline, together=2, failures=5), panel, tmp_path / "checkpoints", 50, refused)
    assert len(run.past) == 6 and not ranked(run.past)  # the generation in which the fifth failed
    assert [own.source for own in run.past[:3]] == ["def (", "", TEMPLATE + "\nimport os\n"]
    assert [own.status for own in run.past] == 3 * ["rejected"] + 3 * ["twin"]  # known to be refused
    assert all(own.score is None and own.rejection and own.rejection.stage == "syntax" for own in run.past)
    assert run.meter.total() == sum(own.flops for own in run.past) == LADDER_STEPS * baseline.flops["xs"]


def test_patience_ends_a_run_in_which_nothing_gets_better(panel: Panel, baseline: Curve, tmp_path: Path) -> None:
    proposer = Scripted(GOOD)
    run = go(new_run(baseline, together=2, failures=1000, patience=3), panel, tmp_path / "checkpoints", 50, proposer)
    assert [own.twin for own in run.past] == [None, 0, 0, 0]
    again = go(new_run(baseline, together=2, failures=1000, patience=3), panel, tmp_path / "checkpoints", 50, proposer)
    finals = ranked(run.past)
    assert rows_of(again.past, finals) == rows_of(run.past, finals)  # a run that has ended stays so


class Recording:
    """The offline proposer, until a generation is whole."""

    def __init__(self, together: int) -> None:
        self.inner, self.together = GrammarProposer(get_grammar(FRAMEWORK)), together
        self.made: list[Proposal] = []

    def propose(self, request: Request) -> Proposal:
        if len(self.made) == self.together:
            raise Killed
        assert not request.parents
        self.made.append(self.inner.propose(request))
        return self.made[-1]


def test_all_strategies_of_a_seed_begin_alike(panel: Panel, baseline: Curve, tmp_path: Path) -> None:
    first = {}
    for strategy, seed in [*((name, 7) for name in STRATEGIES), ("evolution", 8)]:
        proposer, run = Recording(3), replace(new_run(baseline, together=4), seed=seed)
        with pytest.raises(Killed):
            go(run, panel, tmp_path / strategy / str(seed), 9, proposer, strategy)
        first[strategy, seed] = tuple(own.source for own in proposer.made)
    assert len({first[name, 7] for name in STRATEGIES}) == 1
    assert len(set(first["random", 7])) == 3 and first["evolution", 7] != first["evolution", 8]
