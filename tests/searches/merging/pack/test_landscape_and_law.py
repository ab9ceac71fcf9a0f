"""What a pack says of a landscape and of a law: its numbers are computed by hand here, or from single rows."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from instruments import FAILED, LANDSCAPE, LAW, SIZES
from merge_suite import PARENTS, SUITE, write_suite
from scipy import stats

from evolora_core.report import StoredSuite, build
from evolora_core.report.tables import rows_of
from evolora_core.searches.merging.pack import landscape, landscape_plots, law
from evolora_core.searches.merging.pack.sections import SECTIONS
from evolora_core.statistics.inference import wilson
from evolora_core.store import query, rebuild, store_path
from evolora_core.store.connection import opened

REPLAYED = 120
ON, NEVER = range(1, 41), [math.inf]
# The evaluation after which each of 40 runs is within a tenth. 80 % of them are 32. Wilson's upper bound reaches 80 %
# with 28 of 40, the lower one with 37.
HITS: dict[str, Sequence[float]] = {
    "random": [3 * run for run in ON],  # the 28th, 32nd and 37th run: 84, 96, 111
    "evomerge": [math.ceil(run / 2) for run in ON],  # 14, 16, 19
    "niches": [20 + run for run in ON],  # 48, 52, 57
    "cma": [10] * 32 + NEVER * 8,
    "cycleqd": [10] * 20 + NEVER * 20,
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A store with one seed."""
    write_suite(tmp_path, seeds=(0,), conditions=("uniform", "base"), items=4)
    rebuild(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pack of two seeds."""
    home = tmp_path_factory.mktemp("instruments")
    write_suite(home, seeds=(0, 1), conditions=("uniform", "base"), items=4)
    rebuild(home)
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "merges", SECTIONS)


def replayed(home: Path, hits: Mapping[str, Sequence[float]]) -> dict[str, dict[str, str]]:
    """What the table says, by strategy and heading, of runs that come within a tenth when `hits` says."""
    rows = []
    for strategy, own in hits.items():
        for evaluations in range(1, REPLAYED + 1):
            near = sum(hit <= evaluations for hit in own)
            regret = math.inf if strategy == "cma" else 1 / evaluations
            shares = (near / len(own), *wilson(near, len(own)))
            rows.append((strategy, evaluations, len(own), regret, 0.5 * regret, 2 * regret, *shares))
    with opened(store_path(home)) as connection:
        keys = connection.execute("SELECT suite, run_id, condition, seed, stage FROM data.regrets").fetchone()
        assert keys
        connection.execute("DELETE FROM data.regrets")
        connection.executemany(
            f"INSERT INTO data.regrets VALUES ({', '.join('?' * 14)})", [(*keys, *row) for row in rows]
        )
    table = landscape.regret_table(SUITE, landscape.regret_rows(StoredSuite(home, SUITE)))
    headings = [column.heading for column in table.columns]
    cells = [dict(zip(headings, row, strict=True)) for row in table.cells()]
    return {row["strategy"]: row for row in cells}


def test_the_hypothesis_is_read_as_by_hand(home: Path) -> None:
    found = replayed(home, HITS)
    until, ratio = "evaluations until 80 %", "random needs so many times as many"
    assert {name: row[until] for name, row in found.items()} == {
        "random": "96 [84, 111]", "evomerge": "16 [14, 19]", "niches": "52 [48, 57]", "cma": "10 [10, > 120]",
        "cycleqd": "> 120",
    }  # fmt: skip
    assert {name: row[ratio] for name, row in found.items()} == {
        "random": "–", "evomerge": "6.0 [4.4, 7.9]", "niches": "1.8 [1.5, 2.3]", "cma": "9.6 [–, 11.1]",
        "cycleqd": "< 0.9",
    }  # fmt: skip
    share = {name: row["within a tenth %"].split()[0] for name, row in found.items()}  # after 25 evaluations
    assert share == {"random": "20.0", "evomerge": "100.0", "niches": "12.5", "cma": "80.0", "cycleqd": "50.0"}
    reads = {name: (row["80 % at 25?"], row["random 2 times?"]) for name, row in found.items()}
    assert reads == {
        "random": ("no", "–"), "evomerge": ("yes", "yes"), "niches": ("no", "undecided"),
        "cma": ("undecided", "undecided"), "cycleqd": ("no", "no"),
    }  # fmt: skip
    regret = {row["regret, nats [10th, 90th percentile]"] for row in found.values()}
    assert regret == {"0.0400 [0.0200, 0.0800]", "–"}  # of cma some run has measured nothing that lives
    assert list(found) == ["random", "evomerge", "cma", "cycleqd", "niches"]  # as the suite says, then by name


def test_what_random_search_never_reaches_is_a_bound(home: Path) -> None:
    found = replayed(home, {"random": NEVER * 40, "evomerge": HITS["evomerge"]})
    ratio = "random needs so many times as many"
    assert found["random"]["evaluations until 80 %"] == "> 120"
    assert found["evomerge"][ratio] == "> 6.3" and found["evomerge"]["random 2 times?"] == "yes"  # 120 / 19
    alone = replayed(home, {"evomerge": HITS["evomerge"]})["evomerge"]
    assert alone[ratio] == alone["random 2 times?"] == "–" and alone["80 % at 25?"] == "yes"


def test_real_replays_are_read_from_their_curves(home: Path) -> None:
    stored = StoredSuite(home, SUITE)
    rows = rows_of(landscape.regret_rows(stored))
    assert [row["strategy"] for row in rows] == LANDSCAPE.strategies
    gain = query(
        home,
        "SELECT max(search_score) - max(search_score) FILTER (list_contains(['code code', 'math math', "
        "'structured structured', 'multilingual multilingual'], genes)) FROM landscape",
    ).rows[0][0]
    for row in rows:
        curve = query(home, f"SELECT evaluations, within, regret FROM regret WHERE strategy = '{row['strategy']}'").rows
        assert row["until"] == min((at for at, within, _ in curve if within >= 0.8), default=None)
        assert [(row["within"], row["regret"])] == [own[1:] for own in curve if own[0] == LANDSCAPE.read_at]
        assert row["gain"] == pytest.approx(gain) and row["replayed"] == LANDSCAPE.evaluations
    assert any(row["until"] for row in rows)
    curves = landscape_plots.regret_curves(stored)
    assert set(curves["tenth"]) == {0.1 * rows[0]["gain"]} and set(curves["read_at"]) == {LANDSCAPE.read_at}
    assert len(curves) == LANDSCAPE.evaluations * len(LANDSCAPE.strategies)


def test_the_landscape_shows_every_model_that_lives_and_marks_the_best(pack: Path) -> None:
    points = pd.read_csv(pack / "plots" / "landscape.csv")
    for seed, own in points.groupby("seed"):
        models, marks = own[own["what"].isna()], own[own["what"].notna()].set_index("what")
        assert len(models) == 80 - 1 and list(marks.index) == [*sorted(PARENTS), *landscape.OPTIMA]
        assert marks.loc["optimum of search", "search"] == models["search"].max()
        assert marks.loc["optimum of test", "test"] == models["test"].max()
        said = landscape_plots.correlation(models)
        spearman, pearson = (test(models["search"], models["test"])[0] for test in (stats.spearmanr, stats.pearsonr))
        assert said == f"Spearman {spearman:.3f}, Pearson {pearson:.3f}", seed
    assert landscape_plots.correlation(points[:2]) == "too few for a correlation"
    marks = pd.read_csv(pack / "landscape_marks.csv")
    assert marks["genes"].head(2).tolist() == ["code code", "math math"] and (marks["model"] != FAILED).all()
    assert marks["test_solved"].between(0, 1).all()


def test_the_errors_of_the_law_are_those_of_its_points(pack: Path) -> None:
    fits, points = pd.read_csv(pack / "law_fits.csv"), pd.read_csv(pack / "law_points.csv")
    assert (points["merged"] >= LAW.first_predicted).all() and len(fits) == 2 * len(LAW.methods)
    for fit in rows_of(fits):
        own = points[(points["method"] == fit["method"]) & (points["seed"] == fit["seed"])]
        assert len(own) == fit["points"] == len(SIZES) and own["subsets"].tolist() == [1, 1, 1]  # of all four
        errors = {name: (own[name] - own["loss"]).abs().mean() for name in ("predicted", "same_as_before")}
        assert fit["law_error"] == pytest.approx(errors["predicted"], rel=1e-9)
        assert fit["same_error"] == pytest.approx(errors["same_as_before"], rel=1e-9)
        assert fit["ratio"] == pytest.approx(errors["predicted"] / errors["same_as_before"], rel=1e-9)
    assert fits["method"].tolist() == LAW.methods * 2
    assert (fits.loc[fits["method"] == "linear", "ratio"] < 1).all()  # the losses were made by the law


def test_the_curves_of_the_law_have_every_number(pack: Path, home: Path) -> None:
    points = pd.read_csv(pack / "plots" / "law.csv")
    assert len(points) == 2 * len(LAW.methods) * len(SIZES) * len(PARENTS)
    assert points.groupby("merged")["fitted"].all().to_dict() == {1: True, 2: True, 3: True, 4: False}
    rows = law.law_points(StoredSuite(home, SUITE))
    panels = law.law(rows).axes
    assert [panel.get_title(loc="left") for panel in panels] == ["linear", "ties"]
    before = rows[(rows["method"] == "ties") & (rows["parameters"] == SIZES[0]) & (rows["merged"] == LAW.fitted)]
    (rival,) = [line for line in panels[1].get_lines() if line.get_linestyle() == ":" and line.get_color() == "#0072B2"]
    assert np.asarray(rival.get_xdata()).tolist() == [3, 4]
    assert np.asarray(rival.get_ydata()).tolist() == pytest.approx([before["loss"].item()] * 2)


def test_the_readme_explains_both(pack: Path) -> None:
    text = (pack / "README.md").read_text()
    assert f"after {LANDSCAPE.read_at} evaluations, evolution" in " ".join(text.split())
    assert f"of up to {LAW.fitted}, by method" in " ".join(text.split())
    order = [text.index(words) for words in ("## Landscape", "### Replayed runs", "## Law", "## Compute", "## Checks")]
    assert order == sorted(order)
    for words in ("SELECT * FROM law_point WHERE", "another landscape: all replayed runs share one a seed."):
        assert words in text


def test_a_suite_without_them_has_no_rows(tmp_path: Path) -> None:
    write_suite(tmp_path, seeds=(0,), conditions=("uniform", "base"), items=4, instruments=False)
    rebuild(tmp_path)
    stored = StoredSuite(tmp_path, SUITE)
    reads: list[Any] = [landscape.regret_rows, landscape.mark_rows, law.fit_rows, law.point_rows, law.law_points]
    reads += [landscape_plots.regret_curves, landscape_plots.landscape_points]
    assert all(read(stored).empty for read in reads)
