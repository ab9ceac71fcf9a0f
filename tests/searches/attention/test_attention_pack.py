"""A pack of an attention suite: what is in it, that it verifies, and that its best program runs without Evolora.

The suite is small and made up: real tables with losses of a known law. Nothing here is a result.
"""

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from example_suite import part, suite_id, write_stage

from evolora_core.engine.run_index import write_suite
from evolora_core.errors import PackError
from evolora_core.report import StoredSuite, build, export, verify
from evolora_core.searches.attention.experiment import AttentionExperiment
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.pack import best, facts, fidelities, looks, plots, plotted, searched, tables
from evolora_core.searches.attention.pack.closing import closing
from evolora_core.searches.attention.pack.sections import SECTIONS
from evolora_core.searches.attention.programs.block import block_of
from evolora_core.searches.attention.programs.normal import program_id
from evolora_core.searches.attention.seeds import fresh_seeds, selection_seeds
from evolora_core.store import rebuild, store_path
from evolora_core.store.connection import opened

SUITE = "attentions-0a1b2c3d"
SIZES = {"xs": 6592, "s": 25472, "m": 84912, "l": 200064}
MEASURED, LARGEST = ("xs", "s", "m"), "l"
SEEDS = (0, 1, 2)
FLOOR = 1.2
LEVEL = {"mha": 1.0, "rope": 0.9, "uniform": 1.6, "evolution": 0.8, "random": 0.95}  # of what lies above the floor
SEARCHES = ("evolution", "random")
CHOSEN = 1  # the candidate that a search takes: not the one with the best first score
GRAMMAR = get_grammar("coefficient-dynamics")
GENOMES = [{"kernel": "relu2"}, {"normaliser": "count", "gate": "silu"}, {"position": "rope", "local": "shift-kv"}]


def loss(arm: str, size: str, seed: int, factor: float = 1.0) -> float:
    """A loss of the law, with a little that its seed adds."""
    noise = 0.004 * np.sin(7.0 * seed + SIZES[size])
    return float(FLOOR + factor * LEVEL[arm] * (SIZES[size] / 6592) ** -0.2 + noise)


def source(number: int) -> str:
    return GRAMMAR.program(GRAMMAR.baseline() | GENOMES[number])


def score(arm: str, seed: int, factor: float) -> float:
    """What a search says of a candidate, from its first training seed."""
    (first,) = selection_seeds(seed, 1)
    return loss("mha", MEASURED[-1], first) - loss(arm, MEASURED[-1], first, factor)


def rows(program: str, arm: str, split: str, seeds: list[int], sizes: tuple[str, ...], factor: float = 1.0) -> Any:
    return [
        {
            "program": program, "size": size, "train_seed": seed, "split": split, "parameters": SIZES[size],
            "flops": 10 * SIZES[size], "texts": 64, "loss": loss(arm, size, seed, factor), "seconds": 1.0,
        }
        for size in sizes
        for seed in seeds
    ]  # fmt: skip


def write(home: Path, seeds: tuple[int, ...] = SEEDS, conditions: tuple[str, ...] = tuple(LEVEL)) -> Path:
    """A finished suite with two finalists, of which the second in the first seed's scores is chosen."""
    searches = [name for name in SEARCHES if name in conditions]
    config = {
        "name": suite_id(SUITE).name, "search": "attention", "seeds": list(seeds), "conditions": list(conditions),
        "sizes": {"measured": list(MEASURED), "predicted": [LARGEST]}, "budget": {"finalists": 2, "finalist_seeds": 1},
        "evaluation": {"seeds": 2, "contrasts": [{"a": name, "b": "mha"} for name in searches]},
    }  # fmt: skip
    write_suite(home, suite_id(SUITE), AttentionExperiment.model_validate(config).model_dump(mode="json"))
    for seed in seeds:
        law = {"floor": FLOOR, "floor_se": 0.01, "bend": 0.0, "programs": "mha,rope"}
        write_stage(home, part(SUITE, "shared", seed, "law"), {"attention_laws": [law]})
        rates = [
            {"size": size, "rate": rate, "loss": 2.0 + rate, "chosen": rate == 0.004}
            for size in SIZES
            for rate in (0.004, 0.008)
        ]
        write_stage(home, part(SUITE, "shared", seed, "rates"), {"attention_rates": rates})
        for arm in conditions:
            own = selection_seeds(seed, 2)
            if arm in searches:
                write_stage(home, part(SUITE, arm, seed, "search"), _searched(arm, seed))
                genes = [
                    {"gene": gene, "choice": choice, "size": "m", "seeds": 2, "loss": 0.01, "lo": 0.0, "hi": 0.02}
                    for gene, choice in GENOMES[CHOSEN].items()
                ]
                write_stage(home, part(SUITE, arm, seed, "ablate"), {"attention_ablations": genes})
                together = [
                    {"size": "m", "members": name, "models": 2, "loss": 2.0 + lower, "alone": 2.1}
                    for name, lower in (("programs", -0.05 - 0.01 * seed), ("seeds", -0.02))
                ]
                write_stage(home, part(SUITE, arm, seed, "ensemble"), {"attention_ensembles": together})
            else:
                measured = {"attention_losses": rows(arm, arm, "selection", own, MEASURED)}
                write_stage(home, part(SUITE, arm, seed, "measure"), measured)
            gain = loss("mha", LARGEST, 0) - loss(arm, LARGEST, 0)
            told: Any = {"size": LARGEST, "parameters": SIZES[LARGEST], "loss": loss(arm, LARGEST, 0), "gain": gain}
            told |= {"loss_lo": told["loss"] - 0.02, "loss_hi": told["loss"] + 0.02}
            told |= {"gain_lo": gain - 0.02, "gain_hi": gain + 0.02}
            judged = {
                "attention_predictions": [told],
                "attention_losses": rows(arm, arm, "test", fresh_seeds(seed, 2), tuple(SIZES)),
                "compute": [
                    {"purpose": "evaluation", "flops": 10**9, "executed_flops": 10**9, "tokens": 0, "seconds": 1.0}
                ],
            }
            made = {"summary": {"comparable": {"sizes": list(SIZES)}}, "identity_document": {"code": "c" * 16}}
            write_stage(home, part(SUITE, arm, seed, "evaluate"), judged, **made)
    rebuild(home)
    compared = {name: own for name, own in closing(StoredSuite(home, SUITE)).items() if own}
    write_stage(home, part(SUITE, "suite", 0, "compare"), compared)
    rebuild(home)
    return home


def _searched(arm: str, seed: int) -> dict[str, list[dict[Any, Any]]]:
    factors = (0.98, 1.0, 1.3)
    candidates, programs = [], []
    for number, factor in enumerate(factors):
        text = source(number)
        found = score(arm, seed, factor) if number < 2 else None
        candidates.append(
            {
                "candidate": number, "generation": 0, "slot": number, "operator": ("draw", "draw", "gate=silu")[number],
                "genome": None,
                "genome_id": program_id(text), "status": "ok" if number < 2 else "failed",
                "reject_stage": "" if number < 2 else "train", "reason": "" if number < 2 else "guard: flops",
                "score": found, "fresh": True, "flops": 10**9,
            }
        )  # fmt: skip
        programs.append(
            {
                "candidate": number, "program_id": program_id(text), "source": text, "score_lo": None, "score_hi": None,
                "chosen": number == CHOSEN, "seconds": 3.5, "final_score": found, "final_lo": None, "final_hi": None,
            }
        )  # fmt: skip
    own = selection_seeds(seed, 2)
    losses = [
        row
        for number, factor in enumerate(factors)
        for row in rows(program_id(source(number)), arm, "selection", own[: 2 if number < 2 else 1], MEASURED, factor)
    ]
    made = [{"child": 2, "parent": 0, "role": "parent"}]
    return {
        "candidates": candidates, "candidate_parents": made, "attention_programs": programs, "attention_losses": losses
    }  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("attentions"))


@pytest.fixture(scope="module")
def pack(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "attentions", SECTIONS)


def test_it_has_every_table_and_plot_and_verifies_with_and_without_the_store(
    home: Path, pack: Path, tmp_path: Path
) -> None:
    names = {path.relative_to(pack).as_posix() for path in pack.rglob("*") if path.is_file()}
    usual = [
        name for name in (*SECTIONS.tables, *SECTIONS.plots) if not name.startswith("table_")
    ]  # no instrument here
    expected = {f"{table}.csv" for table in SECTIONS.tables if table in usual} | {
        best.FILE,
        "README.md",
        "summary.json",
    }
    expected |= {f"plots/{plot}.{form}" for plot in SECTIONS.plots if plot in usual for form in ("png", "csv")}
    assert names - expected - {"provenance.json"} == {name for name in names if name.startswith("data/")}
    assert expected <= names
    assert verify(home, pack, SECTIONS) == verify(tmp_path, pack, SECTIONS) == []
    text = (pack / "README.md").read_text()
    for plot in SECTIONS.plots:
        assert text.count(f"plots/{plot}.png") == (plot in usual)
    assert "\n\n\n" not in text.partition("## Arms")[2]
    assert "**evolution against mha, loss at size l: undecided.** +0.101 nats (mha − evolution), 3 run seeds" in text


def test_a_contrast_that_does_not_follow_from_the_losses_is_found(tmp_path: Path) -> None:
    home = write(tmp_path / "home", seeds=(0,), conditions=("mha", "rope", "evolution"))
    compared = closing(StoredSuite(home, SUITE))
    compared["attention_contrasts"][0]["gain"] += 0.1
    write_stage(home, part(SUITE, "suite", 0, "compare"), compared)
    rebuild(home)
    with pytest.raises(PackError, match=r"attention_contrasts evolution mha: gain is 0\.2.* from its items \(1 diff"):
        build(home, SUITE, tmp_path / "pack", SECTIONS)


def test_a_rate_that_diverged_is_shown_as_such(tmp_path: Path) -> None:
    home = write(tmp_path, seeds=(0, 1), conditions=("mha", "rope"))
    ended = tables.rate_rows(StoredSuite(home, SUITE))
    assert list(ended) == ["size", "rate", "loss", "seeds", "chosen"]  # as in packs that were kept
    for seed, largest in ((0, None), (1, 2.5)):
        losses = {0.004: 2.0, 0.008: largest, 0.016: None}
        tried = [{"size": "xs", "rate": rate, "loss": loss, "chosen": loss == 2} for rate, loss in losses.items()]
        write_stage(home, part(SUITE, "shared", seed, "rates"), {"attention_rates": tried})
    rebuild(home)
    found = tables.rate_table(SUITE, tables.rate_rows(StoredSuite(home, SUITE)))
    assert found.cells() == [["xs", "2.000 (2)", "2.500 (0), 1 diverged", "diverged"]]


def test_a_best_program_that_was_changed_or_removed_is_found(pack: Path, tmp_path: Path) -> None:
    file = pack / best.FILE
    text = file.read_text()
    try:
        file.write_text(text.replace("nn.Linear(dim, dim)", "nn.Linear(dim, 2 * dim)", 1))
        assert [line for line in verify(tmp_path, pack, SECTIONS) if line.startswith(f"{best.FILE}: line")]
        file.unlink()
        assert f"{best.FILE}: is missing" in verify(tmp_path, pack, SECTIONS)
    finally:
        file.write_text(text)
    assert best.FILE in SECTIONS.files  # so that another build replaces it


def test_the_best_program_is_the_chosen_one_of_the_best_arm(home: Path) -> None:
    stored = StoredSuite(home, SUITE)
    found = best.best_of(stored)
    assert found is not None
    assert (found.arm, found.candidate, found.run_seeds) == ("evolution", CHOSEN, len(SEEDS))
    gains = plotted.paired(stored)
    own = gains[(gains["arm"] == "evolution") & (gains["size"] == LARGEST)].groupby("run_seed")["gain"].mean()
    assert found.seed == own.idxmax() and found.gain == pytest.approx(own.max())
    assert found.arm_gain == pytest.approx(own.mean()) and found.source == source(CHOSEN)
    says = dict(found.changes)
    assert set(says) == {"Coefficients", "Finish"}
    genes = {gene.name: gene for gene in GRAMMAR.genes}
    for name, slot in (("normaliser", "Coefficients"), ("gate", "Finish")):
        assert genes[name].says[GENOMES[CHOSEN][name]].lower() in says[slot].lower()


def test_it_runs_with_torch_alone_and_learns(pack: Path, tmp_path: Path) -> None:
    text = (pack / best.FILE).read_text()
    assert block_of(text) == block_of(source(CHOSEN)) and source(CHOSEN).rstrip() in text
    main = ast.parse(text).body[-1]
    assert isinstance(main, ast.If) and main.end_lineno is not None and main.end_lineno - main.lineno <= 10
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [a.name for a in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported == {"math", "torch", "sys"}
    (tmp_path / best.FILE).write_text(text)
    (tmp_path / "text.txt").write_text("to be or not to be, that is the question; " * 40)
    done = subprocess.run(
        [sys.executable, "-I", best.FILE, "text.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    match = re.fullmatch(r"(\d+\.\d+) nats a byte after 300 steps\n", done.stdout)
    assert match and float(match[1]) < 2.0  # a uniform guess costs 5.5


def test_a_suite_without_searches_has_no_program(tmp_path: Path) -> None:
    home = write(tmp_path / "home", seeds=(0,), conditions=("mha", "rope", "uniform"))
    made = build(home, SUITE, tmp_path / "pack", SECTIONS)
    assert not (made / best.FILE).exists() and not (made / "candidates.csv").exists()
    assert verify(tmp_path / "none", made, SECTIONS) == []
    (made / best.FILE).write_text("print()\n")
    assert verify(tmp_path / "none", made, SECTIONS) == [f"{best.FILE}: does not follow from its data"]


def test_intervals_are_over_run_seeds_or_the_training_seeds_of_one(home: Path, tmp_path: Path) -> None:
    stored = StoredSuite(home, SUITE)
    found: Any = plotted.gains(stored).set_index(["arm", "size"]).loc[("rope", "m")]
    own = plotted.paired(stored).query("arm == 'rope' and size == 'm'")
    runs = own.groupby("run_seed")["gain"].mean()
    half = 4.302653 * runs.std(ddof=1) / np.sqrt(3)
    assert found["gain"] == pytest.approx(runs.mean()) and found["hi"] - found["gain"] == pytest.approx(half)
    assert (found["run_seeds"], found["trained"]) == (3, 6)
    single = StoredSuite(write(tmp_path / "single", seeds=(0,), conditions=("mha", "rope")), SUITE)
    values = plotted.paired(single).query("size == 'm'")["gain"]
    found = plotted.gains(single).set_index("size").loc["m"]
    assert found["hi"] - found["lo"] == pytest.approx(2 * 12.7062 * values.std(ddof=1) / np.sqrt(2), rel=1e-5)


def test_what_must_lose_does_not_stretch_an_axis() -> None:
    points = pd.DataFrame({"arm": ["mha", "rope", "uniform"], "loss": [2.0, 1.0, 9.0]})
    low, high = looks.limits(points, "loss", zero=False)
    assert low < 1.0 and 2.0 < high < 3.0
    near = pd.DataFrame({"arm": ["mha", "rope", "uniform"], "loss": [2.0, 1.0, 2.2]})
    assert looks.limits(near, "loss", zero=False)[1] > 2.2


def test_names_at_the_ends_of_lines_do_not_overlap(home: Path) -> None:
    points = plotted.losses(StoredSuite(home, SUITE))
    far = points.assign(loss=points["loss"].where(points["arm"] != "uniform", points["loss"] + 5))
    figure = plots.scaling(far)
    figure.draw_without_rendering()
    names = [text for text in figure.axes[0].texts if text.get_text()]
    assert sorted(text.get_text().split()[0] for text in names) == sorted(LEVEL)
    assert [text.get_text() for text in names if "↑" in text.get_text()] != []
    boxes = sorted((text.get_window_extent() for text in names), key=lambda box: box.y0)
    assert all(below.y1 <= above.y0 + 1 for below, above in zip(boxes, boxes[1:], strict=False))


def test_predictions_are_counted_and_ranked(home: Path) -> None:
    stored = StoredSuite(home, SUITE)
    context = facts.context(stored)
    assert context["predictions"] == len(LEVEL) * len(SEEDS)
    rows_ = tables.prediction_rows(stored)
    assert context["inside"] == int(((rows_["lo"] <= rows_["measured"]) & (rows_["measured"] <= rows_["hi"])).sum())
    law, largest = context["foretold"]["law"], context["foretold"]["largest"]
    assert law.rank.programs == len(LEVEL) - 1 and law.rank.value == pytest.approx(1) == largest.rank.value
    gains = plotted.judged(stored).query("arm != 'mha'")
    assert law.error == pytest.approx((gains["predicted"] - gains["gain"]).abs().mean())
    assert largest.error != pytest.approx(law.error)
    shown = tables.prediction_table(SUITE, rows_).cells()
    assert len(shown) == len(LEVEL)  # one row for all run seeds
    assert facts.checks(stored)["times_that_one_of_them_is_ahead_of_another_arm"] == 0


def test_cheap_measurements_are_ranked_within_a_run_seed(home: Path) -> None:
    found: Any = fidelities.rank_rows(StoredSuite(home, SUITE)).set_index(["what", "cheap"])
    own = found.loc[("mechanisms", "gain at xs")]
    assert (own["run_seeds"], own["programs"], own["rank"]) == (3, 2, pytest.approx(1))  # rope, and uniform
    assert ("those that need not lose", "gain at xs") not in found.index  # one program has no rank
    assert found.loc[("mechanisms", "predicted gain"), "rank"] == pytest.approx(1)


def test_operators_are_held_against_what_they_were_given(home: Path) -> None:
    found: Any = searched.operator_rows(StoredSuite(home, SUITE)).set_index(["arm", "operator"])
    own, changed = found.loc[("evolution", "draw")], found.loc[("evolution", "change")]
    assert (own["proposed"], own["scored"], own["better"]) == (6, 6, 6)  # all are better than the baseline
    assert (changed["proposed"], changed["scored"], changed["better"]) == (3, 0, 0)
    assert (changed["genes"], changed["kinds"], changed["among"]) == (1, 1, 3)
    assert own["step"] == pytest.approx(np.mean([score("evolution", s, f) for s in SEEDS for f in (0.98, 1.0)]))


def test_a_cross_with_the_baseline_is_held_against_the_better_of_both(home: Path, tmp_path: Path) -> None:
    """The baseline, whose score is 0, stands in no lineage."""
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with opened(store_path(own)) as connection:
        connection.execute("UPDATE data.candidates SET operator = 'cross', score = 0.1 WHERE candidate = 1")
        connection.execute(
            """INSERT INTO data.candidate_parents BY NAME
            SELECT suite, run_id, condition, seed, stage, 1 AS child, 0 AS parent, 'parent' AS role
            FROM data.candidates WHERE candidate = 1"""
        )
    for given, better in ((-0.2, 0.0), (0.04, 0.04)):
        with opened(store_path(own)) as connection:
            connection.execute("UPDATE data.candidates SET score = ? WHERE candidate = 0", [given])
        found: Any = searched.operator_rows(StoredSuite(own, SUITE)).set_index(["arm", "operator"])
        assert found.loc[("evolution", "cross"), "step"] == pytest.approx(0.1 - better)


def test_a_pack_says_stop_where_a_mechanism_that_must_lose_does_not(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Stop here" not in (pack / "README.md").read_text()
    monkeypatch.setitem(LEVEL, "uniform", 0.95)
    upset = write(tmp_path / "home")
    words = (build(upset, SUITE, tmp_path / "pack", replace(SECTIONS, plots={})) / "README.md").read_text()
    assert (
        words.index("**Stop here.**")
        < words.index("the evaluator, and it does not rank them last")
        < words.index("## Arms")
    )
    assert "is ahead of `mha`. No other figure" in words and "is ahead of `rope`" not in words


def test_a_pack_says_where_losses_were_predicted_at_an_arm_s_own_parameters(pack: Path, tmp_path: Path) -> None:
    says = ("It is at equal numbers of parameters, the", "Losses are predicted at an arm's own number of parameters.")
    assert not any(word in (pack / "README.md").read_text() for word in says)  # as in stores of before
    home = write(tmp_path / "home", seeds=(0,), conditions=("mha", "rope"))
    with opened(store_path(home)) as connection:
        connection.execute(
            "UPDATE data.attention_predictions SET parameters = 1.1 * parameters WHERE condition = 'rope'"
        )
    words = (build(home, SUITE, tmp_path / "pack", replace(SECTIONS, plots={})) / "README.md").read_text()
    assert all(word in words for word in says) and "\n\n\n" not in words.partition("## Arms")[2]


def test_kinds_are_counted_among_equally_many() -> None:
    assert searched.rarefied(np.array([3, 2, 1]), 6) == pytest.approx(3)
    assert searched.rarefied(np.array([3, 2, 1]), 1) == pytest.approx(1)
    pairs = [len({a, b}) for place, a in enumerate("aaabbc") for b in "aaabbc"[place + 1 :]]
    assert searched.rarefied(np.array([3, 2, 1]), 2) == pytest.approx(np.mean(pairs))


def test_what_was_chosen_is_held_against_fresh_seeds(home: Path) -> None:
    found: Any = searched.candidate_rows(StoredSuite(home, SUITE)).set_index("arm").loc["evolution"]
    assert found["chosen"] == pytest.approx(np.mean([score("evolution", seed, 1.0) for seed in SEEDS]))
    assert found["best"] == pytest.approx(np.mean([score("evolution", seed, 0.98) for seed in SEEDS]))
    assert found["anew"] == pytest.approx(loss("mha", "m", 0) - loss("evolution", "m", 0))


def test_a_program_that_is_the_baseline_is_no_best_one(home: Path, tmp_path: Path) -> None:
    """A proposer may give it back; no search chooses it."""
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with opened(store_path(own)) as connection:
        connection.execute("UPDATE data.candidates SET score = -0.1 WHERE candidate < 2")
        connection.execute("UPDATE data.candidates SET score = 0, status = 'ok', fresh = false WHERE candidate = 2")
    stored = StoredSuite(own, SUITE)
    assert searched.candidate_rows(stored)["best"].to_numpy() == pytest.approx(-0.1)
    assert plotted.progress(stored)["best"].to_numpy() == pytest.approx(-0.1)


def test_a_program_that_a_language_model_wrote_is_named_as_such(home: Path, pack: Path, tmp_path: Path) -> None:
    assert "A language model wrote it" not in (pack / "README.md").read_text() + (pack / best.FILE).read_text()
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with opened(store_path(own)) as connection:
        connection.execute("UPDATE data.candidates SET operator = 'ask: edits'")
    made = build(own, SUITE, tmp_path / "pack", replace(SECTIONS, plots={}))
    for file in ("README.md", best.FILE):
        assert "A language model wrote it, and nothing confines it" in (made / file).read_text()


def test_a_pack_says_where_the_best_program_was_not_taken_apart(home: Path, pack: Path, tmp_path: Path) -> None:
    """`ablation.of` may name another search than the one that turns out best."""
    assert "Each gene of the best program is set back" in (pack / "README.md").read_text()
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with opened(store_path(own)) as connection:
        connection.execute("DELETE FROM data.attention_ablations WHERE condition = 'evolution'")
    words = (build(own, SUITE, tmp_path / "pack", replace(SECTIONS, plots={})) / "README.md").read_text()
    assert "Each gene of a chosen program, but not of the best one, is set back" in words
    assert "`random` in 3 of 3 run seeds" in words and "without each of its genes" not in words


def test_the_law_and_its_rival_are_held_against_the_same_arms(home: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(home, tmp_path / "home"))
    with opened(store_path(own)) as connection:
        connection.execute("DELETE FROM data.attention_predictions WHERE condition = 'random'")
    found = facts.context(StoredSuite(own, SUITE))["foretold"]
    assert found["law"].rank.programs == found["largest"].rank.programs == len(LEVEL) - 2


def test_programs_together_are_held_against_one_as_often(home: Path) -> None:
    found: Any = searched.ensemble_rows(StoredSuite(home, SUITE)).set_index("arm").loc["random"]
    assert found["ahead"] == pytest.approx(0.04) and found["run_seeds"] == len(SEEDS)
    assert found["hi"] - 0.04 == pytest.approx(4.302653 * 0.01 / np.sqrt(3))


def test_it_is_exported_from_its_csv_alone(pack: Path, tmp_path: Path) -> None:
    files = {path.name for path in export(pack, ("latex", "md", "svg"), tmp_path / "out", SECTIONS)}
    assert {"attention_table.tex", "ablations.md", "prediction.svg", "rates.md"} <= files
    shown = (tmp_path / "out" / "ablations.md").read_text()
    assert shown.count("normaliser") == 1  # of the best program alone; the CSV has all
    assert pd.read_csv(pack / "ablations.csv")["gene"].eq("normaliser").sum() == len(SEARCHES) * len(SEEDS)


def test_a_takeaway_is_no_stronger_than_its_verdict() -> None:
    row = {"a": "evolution", "b": "random", "size": "xl", "seeds": 8, "gain": 0.02, "lo": 0.01, "hi": 0.03}
    row |= {"p_holm": 0.0156, "verdict": "evolution", "note": ""}
    assert tables.takeaway(row) == (
        "**evolution has a lower loss than random at size xl.** +0.020 [+0.010, +0.030] nats (random − evolution), "
        "8 run seeds, Holm p = 0.016."
    )
    assert "undecided" in tables.takeaway(row | {"verdict": "undecided"})
