"""The exhaustive table: shards, scores, and strategies that are replayed on what is known."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_suite import part, suite_id, write_stage

from evolora_core.engine.meter import Meter
from evolora_core.engine.run_index import write_suite as write_suite_file
from evolora_core.engine.stage import Stage, StageRequest, StageResult, Step, Suite, Work
from evolora_core.engine.strict import Strict
from evolora_core.engine.tables import read_table, write_table
from evolora_core.errors import StageError
from evolora_core.report import StoredSuite
from evolora_core.searches.attention import evolution
from evolora_core.searches.attention.corpus.base import save
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.exhaustive import BASELINE, Worth, genomes, number_of, stretch, worths
from evolora_core.searches.attention.experiment import AttentionExperiment
from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.grammar.table import TABLE
from evolora_core.searches.attention.names import STRATEGIES
from evolora_core.searches.attention.pack import exhaustive, exhaustive_plots
from evolora_core.searches.attention.plan import plan
from evolora_core.searches.attention.programs.rejection import Rejection
from evolora_core.searches.attention.proposers.grammar import GrammarProposer
from evolora_core.searches.attention.replaying import replay, walk
from evolora_core.searches.attention.settings import Bounds, Budget, Training
from evolora_core.searches.attention.stages import table as shards
from evolora_core.searches.attention.stages.rates import RATES
from evolora_core.searches.attention.stages.replay import REPLAY, Replay
from evolora_core.searches.attention.stages.table import ROWS, TABLE_SHARD, Shard
from evolora_core.searches.attention.stages.table_scores import SCORES, TABLE_SCORES, Scoring, read_scores
from evolora_core.store import record

SIZES, SEEDS = {"xs": 6_000, "s": 25_000, "m": 85_000}, (0, 1)
SUITE = "tables-0a1b2c3d"
WALK: dict[str, int] = {"programs": 40, "together": 5, "failures": 20}


def made_up(seed: int, below: float | None = None) -> list[Worth]:
    """A table: the score is a sum over genes and a little noise. below: scores under it fail a guard."""
    rng = np.random.default_rng(seed)
    effects = {(gene.name, choice): rng.normal() for gene in TABLE.genes for choice in gene.choices}
    scores = np.array([sum(effects[own] for own in genome.items()) for genome in genomes()])
    scores = scores + 0.3 * rng.standard_normal(len(scores))
    scores -= scores[BASELINE]
    truths = scores + 0.3 * rng.standard_normal(len(scores)) * (np.arange(len(scores)) != BASELINE)
    return [
        Worth(number, None if below is not None and own < below else float(own), float(truth), "")
        for number, (own, truth) in enumerate(zip(scores, truths, strict=True))
    ]


def losses(refused: Sequence[int] = ()) -> list[dict[str, Any]]:
    """Rows of a made-up table, in which a program's gain grows with its number."""
    rows = []
    for number, genome in enumerate(genomes()):
        for place, (size, n) in enumerate(SIZES.items()):
            for seed in SEEDS:
                loss = 3 - 0.2 * place - 1e-4 * number * (1 + place) + 0.001 * seed
                facts: dict[str, Any] = {"loss": loss, "flops": 10 * n, "parameters": n, "seconds": 1.0, "reason": ""}
                if number in refused:
                    facts |= {
                        "loss": None,
                        "flops": None,
                        "parameters": None,
                        "reason": "train: the loss is not finite",
                    }
                key = {"program": number, "genome": json.dumps(genome), "size": size, "train_seed": seed}
                rows.append(key | facts)
    return rows


def body(stage: Stage, config: Strict, folder: Path, **inputs: Path) -> Path:
    """What a stage leaves."""
    folder.mkdir(exist_ok=True)
    stage.body(Work(config=config, seed=0, folder=folder, inputs=inputs))
    return folder


def test_shards_cover_every_program_once() -> None:
    for count in (1, 5, 7, 576):
        assert [own for shard in range(count) for own in stretch(shard, count)] == list(range(len(genomes())))
    assert [number_of(genome) for genome in genomes()] == list(range(len(genomes())))
    assert genomes()[BASELINE] == TABLE.baseline()


def test_random_is_drawing_without_replacement() -> None:
    """The expected best of n programs drawn without replacement from all but the baseline, which is there before."""
    table, runs, n = made_up(0), 300, 25
    found = np.array([replay("random", table, seed=own, **WALK | {"programs": n}).regret[-1] for own in range(runs)])
    scores = np.sort([own.score for own in table if own.program != BASELINE and own.score is not None])
    total = len(scores)
    # P(the best is the k-th smallest) = C(k-1, n-1) / C(N, n), by a product that does not overflow.
    at_most = np.ones(total)
    for place in range(n):
        at_most *= np.clip((np.arange(1, total + 1) - place) / (total - place), 0, None)
    expected = float((np.diff(np.r_[0, at_most]) * (scores[-1] - np.maximum(scores, 0))).sum())
    assert abs(found.mean() - expected) < 4 * found.std(ddof=1) / np.sqrt(runs)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replay_is_reproducible_and_regret_never_rises(strategy: str) -> None:
    table = made_up(1, below=-1.0)
    runs = [replay(strategy, table, seed=seed, **WALK) for seed in range(3)]
    for seed, own in enumerate(runs):
        assert (np.diff(own.regret) <= 0).all() and (own.regret >= 0).all() and np.isfinite(own.truth_regret).all()
        assert (own.truth_regret >= 0).all() and all(table[number].score is not None for number in own.best)
        order = walk(strategy, table, seed=seed, **WALK)
        assert len(set(order)) == len(order) == own.measured and len(order) <= WALK["programs"]
        assert walk(strategy, table, seed=seed, **WALK | {"programs": 18}) == order[:18]
        assert order == walk(strategy, table, seed=seed, **WALK)
    assert not np.array_equal(runs[0].best, runs[1].best)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replay_asks_for_what_the_real_loop_asks_for(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proposals of `evolution.py` with the texts of programs, fed with the same scores."""
    monkeypatch.setattr("evolora_core.searches.attention.grammar.registry.get_grammar", lambda _: TABLE)
    table, seed = made_up(2, below=0.0), 5
    run = evolution.Run(
        TABLE.framework, get_framework(TABLE.framework).source, Curve(), (), (0,), Budget(), seed, Meter()
    )
    numbers: list[int] = []
    for generation in range(4):
        for own in evolution._propose(strategy, GrammarProposer(TABLE), run, generation, WALK["together"]):
            assert own.genome is not None
            worth = table[number_of(own.genome)]
            refused = Rejection("train", "guard", "") if worth.score is None else None
            run.past.append(replace(own, score=worth.score, rejection=refused))
            numbers.append(worth.program)
    assert len(set(numbers)) == 20 and any(own.rejection for own in run.past)
    assert walk(strategy, table, seed=seed, **WALK | {"programs": 20}) == numbers


def test_a_run_ends_when_it_asks_for_what_it_knows() -> None:
    flat = [Worth(number, -1.0 if number else 0.0, -1.0 if number else 0.0, "") for number in range(len(genomes()))]
    found = replay("greedy", flat, seed=0, **WALK | {"programs": 100})
    neighbours = sum(len(gene.choices) - 1 for gene in TABLE.genes)
    assert 5 < found.measured < 5 + neighbours + 5  # the first generation is drawn; then the baseline is the best
    assert (found.best == BASELINE).all() and (found.regret == 0).all()


def test_the_baseline_is_known_from_the_beginning() -> None:
    """Whoever tries the neighbours of the best program again comes upon it at last."""
    best = number_of(TABLE.baseline() | {"gate": "silu"})
    flat = [Worth(own, gain := float(own == best) - float(own not in (best, BASELINE)), gain, "") for own in range(576)]
    assert not any(BASELINE in walk("greedy", flat, seed=seed, **WALK | {"programs": 100}) for seed in range(5))


def test_scores_are_those_of_a_search_and_truths_are_of_other_seeds() -> None:
    table = worths(losses(refused=[7]), list(SIZES), SEEDS)
    assert table[BASELINE].score == table[BASELINE].truth == 0.0
    assert table[7] == Worth(7, None, None, "train: the loss is not finite")
    scores = [own.score for own in table if own.score is not None]
    assert len(scores) == len(genomes()) - 1 and scores == sorted(scores)
    assert table[500].score == table[500].truth == pytest.approx(0.15, abs=1e-9)  # at the largest size, with both seeds
    costly = [row | {"flops": row["flops"] * (4 if row["program"] == 3 else 1)} for row in losses()]
    refused = worths(costly, list(SIZES), SEEDS)[3]
    assert refused.score is None and "flops" in refused.reason and refused.truth is not None


def test_a_table_with_gaps_is_not_scored() -> None:
    with pytest.raises(StageError, match="6 of 3456 measurements"):
        worths([row for row in losses() if row["program"] != 9], list(SIZES), SEEDS)
    with pytest.raises(StageError, match="baseline of the table was refused"):
        worths(losses(refused=[0]), list(SIZES), SEEDS)


def test_a_killed_shard_goes_on_to_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four programs, trained for real."""
    corpus, rates = tmp_path / "corpus", tmp_path / "rates"
    corpus.mkdir()
    rates.mkdir()
    save(make_corpus(CorpusSettings(shares={"markov": 1.0}, train=64, held_out=40, context=16), 1), corpus)
    (rates / RATES).write_text(json.dumps({"xs": 0.01}), encoding="utf-8")
    training, bounds = Training(steps=5, batch=4, warmup=1, rates=[0.01]), Bounds(minutes=1, megabytes=1024)
    own = Shard(shard=0, shards=144, size="xs", seeds=[0, 1], checked=[], training=training, bounds=bounds)
    inputs = {"corpus": corpus, "rates": rates}
    whole, killed = body(TABLE_SHARD, own, tmp_path / "whole", **inputs), tmp_path / "killed"
    measured, done = shards._measured, []

    def kill(panel: Any, number: int, *rest: Any) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        done.extend(rows := measured(panel, number, *rest))
        return rows

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shards, "_measured", kill)
        body(TABLE_SHARD, own, killed, **inputs)
    assert len(list((killed / ".work" / "measured").glob("*.json"))) == len(done) == 4
    body(TABLE_SHARD, own, killed, **inputs)
    left, right = (read_table(folder, ROWS) for folder in (whole, killed))
    assert right[:4] == done  # seconds and all: they were not measured again
    assert [row | {"seconds": 0} for row in left] == [row | {"seconds": 0} for row in right]
    assert [(row["program"], row["train_seed"]) for row in left] == [(p, seed) for p in range(4) for seed in (0, 1)]
    assert all(row["loss"] > 0 and row["flops"] > 0 and row["reason"] == "" for row in left)
    spent = [read_table(folder, "compute")[0]["flops"] for folder in (whole, killed)]
    assert spent[0] == spent[1] > 0
    first = own.model_copy(update={"shards": 576, "seeds": [0], "checked": ["xs"]})
    examined = body(TABLE_SHARD, first, tmp_path / "examined", **inputs)
    (compute,), (row,) = read_table(examined, "compute"), read_table(examined, ROWS)
    assert compute["seconds"] > row["seconds"] + 0.1  # the ladder's time is counted as well


def test_replays_of_two_seeds_of_a_suite_are_other_runs(tmp_path: Path) -> None:
    """And none is the search of an arm: those have the seeds 0, 1, … themselves."""
    (tmp_path / "shard").mkdir()
    write_table(tmp_path / "shard", ROWS, losses())
    scoring = Scoring(sizes=list(SIZES), seeds=list(SEEDS))
    scores = body(TABLE_SCORES, scoring, tmp_path / "scores", shard=tmp_path / "shard")
    own, found = Replay(strategy="random", runs=3, programs=10, read_at=5, together=5, failures=20), []
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        REPLAY.body(Work(config=own, seed=seed, folder=tmp_path / str(seed), inputs={"scores": scores}))
        found.append(tuple(row["regret"] for row in read_table(tmp_path / str(seed), "attention_replays")))
    plain = [replay("random", read_scores(scores), seed=seed, **WALK | {"programs": 10}) for seed in range(3)]
    assert len({*found, tuple(float(run.regret[4]) for run in plain)}) == 3


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredSuite:
    """A suite with a table of one run seed, 30 runs of every strategy; it is never changed."""
    home, work = (tmp_path_factory.mktemp(name) for name in ("home", "work"))
    (work / "shard").mkdir(parents=True)
    write_table(work / "shard", ROWS, losses(refused=[7]))
    scoring = Scoring(sizes=list(SIZES), seeds=list(SEEDS))
    scores = body(TABLE_SCORES, scoring, work / "scores", shard=work / "shard")
    assert read_scores(scores)[7].score is None
    strategies = list(STRATEGIES)
    tables: dict[str, dict[str, list[dict[Any, Any]]]] = {
        "table-xs-0": {ROWS: read_table(work / "shard", ROWS)},
        "table-scores": {SCORES: read_table(scores, SCORES)},
    }
    for name in strategies:
        own = Replay(strategy=name, runs=30, programs=30, read_at=20, together=5, failures=20)
        found = body(REPLAY, own, work / name, scores=scores)
        tables[f"replay-{name}"] = {
            kind: read_table(found, kind) for kind in ("attention_regrets", "attention_replays")
        }
    made = [write_stage(home, part(SUITE, "shared", 0, stage), own) for stage, own in tables.items()]
    made.append(write_stage(home, part(SUITE, "mha", 0, "evaluate"), {}))
    config = {
        "name": "tables",
        "seeds": [0],
        "conditions": ["mha"],
        "sizes": {"measured": list(SIZES), "predicted": []},
        "ablation": {"sizes": []},
        "table": {"sizes": list(SIZES), "programs": 30, "read_at": 20, "strategies": strategies},
    }
    resolved = AttentionExperiment.model_validate(config).model_dump(mode="json")
    write_suite_file(home, suite_id(SUITE), resolved)
    for stage in made:
        record(home, stage)
    return StoredSuite(home, SUITE)


def test_the_pack_says_what_the_replays_come_to(stored: StoredSuite) -> None:
    rows = exhaustive.replay_rows(stored)
    assert rows["strategy"].to_list() == list(STRATEGIES) and (rows["runs"] == 30).all()
    near = stored.frame("SELECT strategy, run, near FROM attention_replay WHERE suite = $suite")
    wide = near.pivot(index="run", columns="strategy", values="near").astype(float)
    ahead = wide["evolution"] - wide["random"]
    first = rows.iloc[0]
    assert first["ahead"] == pytest.approx(ahead.mean()) and first["within"] == pytest.approx(wide["evolution"].mean())
    half = 1.959964 * ahead.std(ddof=1) / np.sqrt(30)
    assert first["ahead_hi"] - first["ahead"] == pytest.approx(half)
    assert first["reads"] == ("ahead" if ahead.mean() > half else "behind" if ahead.mean() < -half else "undecided")
    assert not any(rows["reads"].to_list()[1:])
    table = exhaustive.replay_table(SUITE, rows)
    assert "after 20 programs" in table.caption and "| evolution  " in table.to_markdown()
    programs = exhaustive.program_rows(stored)
    assert len(programs) == len(genomes()) and programs["program"].iloc[0] == len(genomes()) - 1
    assert "the baseline" in programs.set_index("program")["says"][BASELINE]
    assert len(exhaustive.best_table(SUITE, programs).records()) == exhaustive.BEST
    ranks = exhaustive.rank_rows(stored)
    assert ranks["what"].to_list() == [*(f"loss at {size}" for size in SIZES), "score"]
    assert (ranks["rank"] > 0.999).all() and (ranks["programs"] == len(genomes()) - 1).all()
    assert "rank correlation" in exhaustive.rank_table(SUITE, ranks).to_markdown()


def test_the_plots_are_drawn(stored: StoredSuite, tmp_path: Path) -> None:
    curves = exhaustive_plots.replay_curves(stored)
    assert len(curves) == len(STRATEGIES) * 30 and (curves["read_at"] == 20).all()
    exhaustive_plots.replays(curves).savefig(tmp_path / "replays.png")
    points = exhaustive_plots.table_points(stored)
    assert len(points) == len(genomes()) - 1
    exhaustive_plots.table_programs(points).savefig(tmp_path / "table.png")


def test_a_suite_without_a_table_has_no_rows_of_it(tmp_path: Path) -> None:
    config = AttentionExperiment.model_validate({"name": "tables", "seeds": [0], "conditions": ["mha"]})
    write_suite_file(tmp_path, suite_id(SUITE), config.model_dump(mode="json"))
    record(tmp_path, write_stage(tmp_path, part(SUITE, "mha", 0, "evaluate"), {}))
    stored = StoredSuite(tmp_path, SUITE)
    for rows in (exhaustive.replay_rows, exhaustive.program_rows, exhaustive.rank_rows):
        assert rows(stored).empty
    assert exhaustive_plots.replay_curves(stored).empty and exhaustive_plots.table_points(stored).empty


def test_a_table_needs_sizes_that_are_measured() -> None:
    config = {"name": "tables", "conditions": ["mha"], "sizes": {"measured": ["xs", "s", "m"], "predicted": []}}
    with pytest.raises(ValueError, match=r"table\.sizes: 'l' is not among"):
        AttentionExperiment.model_validate(config | {"table": {"sizes": ["xs", "s", "l"]}})
    with pytest.raises(ValueError, match="read_at: 50 is more than the 40 programs"):
        AttentionExperiment.model_validate(
            config | {"table": {"sizes": ["xs", "s", "m"], "programs": 40, "read_at": 50}}
        )


def test_taking_a_size_out_keeps_what_was_measured() -> None:
    """Small sizes stand first in the plan; every shard of a size that stays is the stage that it was."""
    config: dict[str, Any] = {"name": "tables", "seeds": [0], "conditions": ["mha"]}
    found: list[dict[str, StageRequest]] = []
    for sizes in (["xs", "s", "m", "l"], ["xs", "s", "m"]):
        own = AttentionExperiment.model_validate(config | {"table": {"sizes": sizes, "shards": 2}})
        suite = Suite(own, suite_id(SUITE))
        steps = [step for step in plan(suite) if step.stage in (TABLE_SHARD, TABLE_SCORES, REPLAY)]
        names = [f"table-{size}-{shard}" for size in sizes for shard in range(2)]
        names += ["table-scores", *(f"replay-{name}" for name in STRATEGIES)]
        assert [step.name.rpartition(".")[2] for step in steps] == names
        found.append({step.name: step.stage.request(**step.given, **_results(step)) for step in steps})
    whole, less = found
    for name, request in less.items():
        stays = ".table-" in name and not name.endswith("-scores")
        assert (request.identity == whole[name].identity) == (stays or ".replay-" in name), name


def _results(step: Step) -> dict[str, Any]:
    """A finished stage for each that a step needs."""

    def done(needed: Step) -> StageResult:
        _, _, stage = needed.name.split(".")
        return StageResult(
            stage=stage, condition="shared", seed=0, folder="", identity=stage, seconds=0, flops=0, summary={}
        )

    return {
        name: [done(own) for own in need] if isinstance(need, Sequence) else done(need)
        for name, need in step.needs.items()
        if need is not None
    }
