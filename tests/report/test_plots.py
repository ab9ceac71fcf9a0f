"""Plots: every one draws what it is given, and equal data give equal SVG files."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from evolora_core.report import figures, plots
from evolora_core.rng import stream


def _generations() -> pd.DataFrame:
    rng = stream(1, 0, 0, "plots")
    return pd.DataFrame(
        {"condition": condition, "seed": seed, "generation": generation, "population": 16 - generation}
        | dict(zip(("mean_net", "mean_roi", "energy_total"), rng.normal(1, 1, 3), strict=True))
        for condition in ("single", "ecology", "a-new-one")
        for seed in range(2)
        for generation in range(5)
    )


def _families() -> pd.DataFrame:
    families = (("holdout_id", "math"), ("holdout_id", "json_repair"), ("retention", "word.count"))
    return pd.DataFrame(
        {"split": split, "family": family, "condition": condition, "acc": 0.5, "lo": 0.4, "hi": 0.7}
        for split, family in families
        for condition in ("frozen", "ecology", "sft")
    )


def _gains() -> pd.DataFrame:
    return pd.DataFrame(
        {"condition": condition, "routing": routing, "seed": seed, "gain": 0.1 * seed, "retention": 0.9 - 0.1 * seed}
        for condition in ("frozen", "ecology")
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


def _lives() -> pd.DataFrame:
    columns = ("seed", "organelle", "origin", "born", "died", "parent", "joined")
    rows = [
        (0, 0, "founder", 0, None, None, None),
        (0, 1, "founder", 0, 2, None, None),
        (0, 2, "merge", 1, None, 0, 1),
        (0, 2, "merge", 1, None, 1, 1),
        (0, 3, "mutation", 1, None, 2, 1),
    ]
    return pd.DataFrame([dict(zip(columns, row, strict=True)) for row in rows])


DATA = {
    "net_and_roi": _generations,
    "energy_and_population": _generations,
    "accuracy_by_family": _families,
    "gain_and_retention": _gains,
    "comparisons": _comparisons,
    "curve": _curve,
    "lineage": _lives,
}


@pytest.mark.parametrize("name", figures.DRAW)
def test_every_plot_draws_and_is_reproducible(name: str, tmp_path: Path) -> None:
    written = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        folder.mkdir()
        written.append(plots.save(figures.DRAW[name](DATA[name]()), folder, name))
    (png, svg), (_, again) = written
    assert svg.read_bytes() == again.read_bytes()
    pixels = np.asarray(Image.open(png).convert("L"))
    assert pixels.shape[0] > 300 and (pixels < 200).mean() > 0.002


def test_merges_are_drawn_to_both_parents() -> None:
    figure = plots.lineage(_lives())
    segments = [c for c in figure.axes[0].collections if hasattr(c, "get_segments")]
    ends = {tuple(sorted(map(int, segment[:, 1]))) for c in segments[1:] for segment in c.get_segments()}
    assert ends == {(0, 2), (1, 2), (2, 3)}
    assert "seed 0" in figure.axes[0].get_title(loc="left")
