"""Plots: every one draws what it is given, and equal data give equal SVG files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from evolora_core.engine.rng import stream
from evolora_core.report import figures
from evolora_core.report.plots import save
from evolora_core.searches.adapters.pack import plots
from evolora_core.searches.adapters.pack.earnings import earnings
from evolora_core.searches.adapters.pack.looks import LOOKS, ORIGINS, looks_of
from evolora_core.searches.adapters.pack.plotted import informative_routings, trained_splits
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.searches.adapters.pack.tradeoffs import frontier, pareto_front


def _generations() -> pd.DataFrame:
    rng = stream(1, 0, 0, "plots")
    return pd.DataFrame(
        {"condition": condition, "seed": seed, "generation": generation, "population": 16 - generation}
        | dict(zip(("mean_net", "mean_roi", "energy_total"), rng.normal(1, 1, 3), strict=True))
        for condition in ("single", "ecology", "a-new-one")
        for seed in range(2)
        for generation in range(5)
    )


def test_families_of_a_user_s_column_are_known_without_their_task() -> None:
    config = {
        "tasks": [{"name": "mine", "family": "topic"}],
        "data": {"train_families": ["mine.big", "regex"], "retention_families": ["mine.small"]},
        "evaluation": {"routings": ["family"]},
    }
    rows = pd.DataFrame({"split": ["holdout_id", "retention"], "family": ["mine.big", "mine.small"]})
    kept, note = trained_splits(rows, config)
    assert kept["split"].tolist() == ["holdout_id"] and "the host's" in note
    routed = pd.DataFrame({"routing": ["family", "single"]})
    assert informative_routings(routed, config)[0]["routing"].tolist() == ["single"]


def _families() -> pd.DataFrame:
    families = (("holdout_id", "math"), ("holdout_id", "json_repair"), ("retention", "word.count"))
    return pd.DataFrame(
        {"split": split, "family": family, "condition": condition, "acc": 0.5, "lo": 0.4, "hi": 0.7}
        for split, family in families
        for condition in ("frozen", "ecology", "sft")
    )


def _gains() -> pd.DataFrame:
    return pd.DataFrame(
        {"condition": condition, "curve": curve, "budget": budget, "routing": routing, "seed": seed}
        | {"gain": 0.1 * seed, "retention": 0.9 - 0.1 * seed}
        for condition, curve, budget in (
            ("frozen", "frozen", 1.0),
            ("ecology", "ecology", 1.0),
            ("ecology-2", "ecology", 2.0),
        )
        for routing in ("family", "single")
        for seed in range(3)
    )


def _comparisons() -> pd.DataFrame:
    rows = [
        ("holdout_id", "ecology", "sft", "headline", -0.02, -0.05, 0.01, "undecided"),
        ("holdout_id", "ecology", "sft-8", "headline", 0.08, 0.05, 0.1, "ecology"),
        ("retention", "ecology", "sft", "single", -0.08, -0.1, -0.06, "sft"),
    ]
    columns = ("split", "a", "b", "routing", "diff", "lo", "hi", "verdict")
    return pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])


def _curve() -> pd.DataFrame:
    points = [("frozen", "frozen", np.nan)]
    points += [
        (name, f"{name}-{budget}" if budget > 1 else name, 1e12 * budget)
        for name in ("ecology", "sft", "own")
        for budget in (1, 2, 4)
    ]
    shares = {
        f"{what}_{column}": 0.5 + d
        for what in ("id", "retention")
        for column, d in zip(("acc", "lo", "hi"), (0, -0.1, 0.1), strict=True)
    }
    return pd.DataFrame({"curve": name, "condition": c, "total_flops": flops} | shares for name, c, flops in points)


def _frontier() -> pd.DataFrame:
    return pd.DataFrame(
        {"condition": c, "curve": name, "budget": budget, "seed": seed, "strength": s}
        | {"gain": g * s + seed / 100, "change": -f * s**2}
        for name, c, budget, g, f in (
            ("ecology", "ecology", 1.0, 0.08, 0.01),
            ("sft", "sft", 1.0, 0.11, 0.05),
            ("sft", "sft-half", 0.5, 0.1, 0.04),
            ("own", "own", 1.0, 0.0, 0.02),
        )
        for s in (0.5, 1.0, 1.5)
        for seed in range(3)
    )


def _lives() -> pd.DataFrame:
    columns = ("condition", "seed", "organelle", "origin", "born", "died", "parent", "joined")
    rows = [
        (0, 0, "founder", 0, None, None, None),
        (0, 1, "founder", 0, 2, None, None),
        (0, 2, "merge", 1, None, 0, 1),
        (0, 2, "merge", 1, None, 1, 1),
        (0, 3, "mutation", 1, None, 2, 1),
    ]
    return pd.DataFrame([dict(zip(columns, ("scratch", *row), strict=True)) for row in rows])


def _changes() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "condition": condition,
            "form": form,
            "change": -0.1 * place,
            "change_lo": -0.1 * place - 0.05,
            "change_hi": 0.05,
        }
        for place, form in enumerate(("headings", "aside"))
        for condition in ("frozen", "ecology", "a-new-one")
    )


def _earnings() -> pd.DataFrame:
    """Two conditions; one child dies."""
    columns = ("condition", "seed", "organelle", "origin", "generation", "earned", "dies")
    rows = [
        (condition, 0, organelle, origin, generation, 100.0 * (organelle + 1) * (generation - 1), generation == died)
        for condition in ("ecology", "binding")
        for organelle, origin, born, died in ((0, "founder", 0, None), (1, "founder", 0, None), (2, "mutation", 1, 3))
        for generation in range(born, 5 if died is None else died + 1)
    ]
    return pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])


DATA = {
    "earnings": _earnings,
    "net_and_roi": _generations,
    "energy_and_population": _generations,
    "accuracy_by_family": _families,
    "gain_and_retention": _gains,
    "comparisons": _comparisons,
    "curve": _curve,
    "frontier": _frontier,
    "robustness": _changes,
    "lineage": _lives,
}


@pytest.mark.parametrize("name", SECTIONS.plots)
def test_every_plot_draws_and_is_reproducible(name: str, tmp_path: Path) -> None:
    figure = SECTIONS.plots[name].draw(DATA[name]())
    svg, png = (save(figure, tmp_path, name, form) for form in ("svg", "png"))
    (tmp_path / "again").mkdir()
    again = save(SECTIONS.plots[name].draw(DATA[name]()), tmp_path / "again", name, "svg")
    assert svg.read_bytes() == again.read_bytes()
    pixels = np.asarray(Image.open(png).convert("L"))
    assert pixels.shape[0] > 150 and (pixels < 200).mean() > 0.002


def test_merges_are_drawn_to_both_parents() -> None:
    figure = plots.lineage(_lives())
    segments = [c for c in figure.axes[0].collections if hasattr(c, "get_segments")]
    ends = {tuple(sorted(map(int, segment[:, 1]))) for c in segments[1:] for segment in c.get_segments()}
    assert ends == {(0, 2), (1, 2), (2, 3)}
    assert figure.axes[0].get_title(loc="left") == "Lineage of scratch, seed 0"


def test_an_origin_has_one_colour_in_every_plot() -> None:
    figures_of = (plots.lineage(_lives()), earnings(_earnings()))
    born, paid = ({str(own.get_label()): own.get_color() for own in f.legends[0].get_lines()} for f in figures_of)
    assert paid["mutation"] == born["child by mutation"] == ORIGINS["mutation"]


def test_the_front_is_what_nothing_else_beats() -> None:
    points = np.array([[0, 0], [1, -1], [2, -1], [2, -3], [-1, 0], [3, -4], [3, -4], [2, -1]])
    assert pareto_front(points).tolist() == [[0, 0], [2, -1], [3, -4]]
    cloud = stream(0, 0, 0, "front").normal(size=(60, 2))
    beaten = [any((q >= p).all() and (q > p).any() for q in cloud) for p in cloud]
    assert pareto_front(cloud).tolist() == sorted(cloud[~np.array(beaten)].tolist())


def test_the_frontier_shows_means_over_seeds_and_the_host() -> None:
    panel: Any
    (panel,) = frontier(_frontier()).axes
    lines = [np.transpose(line.get_data()).tolist() for line in panel.lines if len(line.get_xdata()) == 3]
    assert lines[0] == pytest.approx(np.array([[5, -0.25], [9, -1], [13, -2.25]]))
    assert [[0.0], [0.0]] in [[list(line.get_xdata()), list(line.get_ydata())] for line in panel.lines]
    words = [text.get_text() for text in panel.texts]
    assert words.count("×0.5") == 1 and "frozen: doing nothing" in words
    assert [words.count(budget) for budget in ("1", "0.5")] == [1, 1]  # beside the two budgets of one curve
    (legend,) = panel.figure.legends
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown[:3] == ["ecology", "sft", "own"] and "budget, the ecology's = 1" in shown
    colours = [line.get_color() for line in panel.lines if len(line.get_xdata()) == 3]
    assert colours[1] == colours[2] != colours[0]


@pytest.mark.parametrize(("gains", "least"), [([0.02, 0.3], 28.0), ([0.0, 1e-17], 1.0)])
def test_every_point_of_every_panel_is_inside(gains: list[float], least: float) -> None:
    points = pd.DataFrame(
        [
            {"condition": "sft", "curve": "sft", "budget": 1.0, "routing": routing, "seed": 0}
            | {"gain": gain, "retention": 0.9}
            for routing, gain in zip(("family", "single"), gains, strict=True)
        ]
    )
    for panel, gain in zip(plots.gain_and_retention(points).axes, gains, strict=True):
        low, high = panel.get_xlim()
        assert low < 100 * gain < high and high - low >= least - 1e-9


def test_budgets_of_a_curve_look_alike_and_differ_in_size() -> None:
    figure: Any = plots.gain_and_retention(_gains())
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["frozen", "ecology", "larger: more FLOPs"]
    assert sorted(set(figure.axes[0].collections[1].get_sizes())) == pytest.approx([42, 42 * 2**0.5])
    plain = plots.gain_and_retention(_gains().query("budget == 1"))
    assert [text.get_text() for text in plain.legends[0].get_texts()] == ["frozen", "ecology"]


def test_twenty_conditions_look_different() -> None:
    looks = looks_of([*LOOKS, *(f"own-{i}" for i in range(15))])
    assert len(looks) == len(set(looks.values())) == len({colour for colour, _ in looks.values()}) == 20


def _suite(routing: str, train: list[str]) -> dict[str, object]:
    families = {"train_families": train, "retention_families": ["word.count"]}
    return {"host": "nano", "data": families, "evaluation": {"routings": [routing, "single"]}}


@pytest.mark.parametrize(
    ("routing", "train", "splits", "routings", "note"),
    [
        ("family", ["math"], ["holdout_id"], ["single"], "; retention: the host's, as no arm has these families"),
        ("cell", ["math", "word.count"], ["holdout_id", "retention"], ["family", "single"], ""),
        ("single", ["math"], ["holdout_id", "retention"], ["single"], ""),
        ("family", ["string.sort"], ["holdout_id", "retention"], ["single"], ""),  # an empty plot says less
    ],
)
def test_panels_that_are_the_host_by_construction_are_left_out(
    routing: str, train: list[str], splits: list[str], routings: list[str], note: str
) -> None:
    shown, said = SECTIONS.plots["accuracy_by_family"].narrow(_families(), _suite(routing, train))
    assert (list(dict.fromkeys(shown["split"])), said) == (splits, note)
    shown, _ = SECTIONS.plots["gain_and_retention"].narrow(_gains(), _suite(routing, train))
    assert list(dict.fromkeys(shown["routing"])) == routings
    everything = _lives()
    assert SECTIONS.plots["lineage"].narrow(everything, _suite(routing, train)) == (everything, "")


@pytest.mark.parametrize("name", SECTIONS.plots)
def test_every_plot_names_its_suite_and_host(name: str) -> None:
    figure = figures.figure(SECTIONS.plots[name], DATA[name](), "mine-0a1b2c3d", _suite("family", ["math"]))
    assert figure.get_suptitle().startswith("mine-0a1b2c3d, host nano")
