"""What one sees in the plots of the merge search."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from evolora_core.searches.merging.pack import plots


def test_domains_are_shown_where_their_marks_lie() -> None:
    points = pd.DataFrame(
        {"arm": ["base", "cma"] * 2, "kind": ["base", "cma"] * 2, "domain": ["code", "code", "math", "math"]}
        | {"score": [0.55, 0.9, 0.6, 0.7], "lo": [0.45, 0.85, 0.5, 0.6], "hi": [0.6, 0.95, 0.65, 0.8]}
    )
    for shown in (points, points.assign(lo=points["score"], hi=points["score"], score=0.8)):
        limits = [panel.get_xlim() for panel in plots.domains(shown).axes]
        assert len(limits) == 2 and limits[0] == limits[1]
        values = 100 * shown[["score", "lo", "hi"]].to_numpy(float)
        least, most = values.min(), values.max()
        assert least - 10 < limits[0][0] < least and most < limits[0][1] < most + 10
    (low, high) = plots.domains(points.assign(score=1.0, lo=1.0, hi=1.0)).axes[0].get_xlim()
    assert low < 100 < high


def test_the_best_so_far_holds_until_the_next() -> None:
    lines = pd.DataFrame(
        {"arm": "cma", "kind": "cma", "evaluations": [1, 2, 3], "seeds": 2, "running": [2, 2, 1]}
        | {"flops": [10.0, 20.0, 30.0], "best": [-3.0, -2.0, -1.0], "lo": [-4.0, -3.0, -2.0], "hi": [-2.0, -1.0, 0.0]}
    )
    for panel in plots.progress(lines).axes:
        assert {line.get_drawstyle() for line in panel.get_lines()} == {"steps-post"}
        (band,) = panel.collections
        corners = np.asarray(band.get_paths()[0].vertices)
        assert all(here[0] == there[0] or here[1] == there[1] for here, there in pairwise(corners))


@pytest.mark.parametrize("seeds", [1, 2])
def test_open_marks_hide_nothing(seeds: int) -> None:
    arms = ["base", "parent-a", "parent-b", "best-parent", "cma"]
    kinds = ["base", "parent", "parent", "best-parent", "cma"]
    points = pd.concat(
        pd.DataFrame({"arm": arms, "kind": kinds, "seed": seed, "search": -0.1, "acc": 0.5}) for seed in range(seeds)
    )
    marks = plots.search_against_test(points).axes[0].get_lines()
    large = {str(kind): mark for kind, mark in zip(arms, (m for m in marks if m.get_markersize() > 5), strict=True)}
    assert {arm for arm, mark in large.items() if mark.get_markerfacecolor() != "none"} == {"cma"}
    assert all(large[arm].get_zorder() > large["cma"].get_zorder() for arm in arms[:-1])
    assert len(marks) == len(arms) * min(seeds, 2)
