"""Learning curves: which conditions are points of one, and what stands at them."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_suite import write_suite

from evolora_core.report import StoredSuite, build, verify
from evolora_core.searches.adapters.pack.curves import curve_frame, curves
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.searches.adapters.pack.tradeoffs import curve
from evolora_core.store import query, rebuild
from evolora_core.store.connection import opened, store_path

SUITE = "example-0a1b2c3d"
ONE_PLOT = replace(SECTIONS, plots={"curve": SECTIONS.plots["curve"]})  # plots take most of the time
BUDGETS = {"sft-2": 2.0, "sft-half": 0.5}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("curves")
    write_suite(home, SUITE, items=48, budgets=BUDGETS)
    rebuild(home)
    return home


def config(conditions: list[str], **arms: dict[str, Any]) -> dict[str, Any]:
    return {"conditions": ["frozen", "ecology", *conditions], "arms": arms}


def test_conditions_that_differ_in_their_budget_alone_are_one_curve() -> None:
    few = {"labels": 8, "trials": [{"learning_rate": 0.001}]}
    arms = {
        "sft-half": {"like": "sft", "budget": 0.5, "changes": {}},
        "sft-4": {"like": "sft", "budget": 4.0, "changes": {"trials": [{"learning_rate": 0.001}]}},
        "few": {"like": "sft", "budget": 1.0, "changes": few},
        "few-4": {"like": "sft", "budget": 4.0, "changes": dict(reversed(few.items()))},
        "one-4": {"like": "single", "budget": 4.0, "changes": {}},
        "ecology-4": {"like": "ecology", "budget": 4.0, "changes": {"population": 4}},
    }
    found = curves(config(["sft", *arms], **arms))
    assert found == {
        "sft-half": ("sft", 0.5),
        "sft": ("sft", 1.0),
        "sft-4": ("sft", 4.0),
        "few": ("few", 1.0),
        "few-4": ("few", 4.0),
    }
    assert list(found)[:3] == ["sft-half", "sft", "sft-4"]  # by rising budget
    del arms["few"]
    assert curves(config([*arms], **arms))["sft-half"] == ("sft-half", 0.5)  # nobody has the whole budget
    same = {"again": {"like": "sft", "changes": {}}}
    assert curves(config(["sft", "again"], **same)) == {}
    ranks = {"sft-wide": {"like": "sft", "changes": {"trials": [{"rank": 16, "learning_rate": 0.001}]}}}
    wide = config(["sft", "sft-wide", "sft-half"], **ranks, **{"sft-half": arms["sft-half"]})
    assert set(curves(wide)) == {"sft", "sft-half"}  # other ranks are another method, other rates are not
    assert set(curves(wide | {"sft": {"trials": [{"rank": 32, "learning_rate": 0.002}]}})) == {"sft", "sft-half"}
    assert curves({"conditions": ["frozen", "ecology", "sft"]}) == {}  # of a suite from before there were arms


def test_the_points_are_those_of_the_store(home: Path) -> None:
    points = curve_frame(StoredSuite(home, SUITE))
    assert points["condition"].tolist() == ["frozen", "sft-half", "sft", "sft-2"]
    assert points["curve"].tolist() == ["frozen", "sft", "sft", "sft"]
    assert points["budget"].tolist()[1:] == [0.5, 1.0, 2.0] and np.isnan(points["budget"][0])
    arms = {(r["arm"], r["split"]): r for r in query(home, "FROM accuracies WHERE family = '*'").records()}
    paper = {r["condition"]: r for r in query(home, "FROM paper_table").records()}
    for point in points.to_dict("records"):
        name = point["condition"]
        kept = arms[name if name == "frozen" else f"{name}:single", "retention"]
        for column in ("acc", "lo", "hi"):
            assert point[f"id_{column}"] == arms[name, "holdout_id"][column]
            assert point[f"retention_{column}"] == kept[column]
        assert point["total_flops"] == paper[name]["total_flops"]


def test_a_budget_that_was_not_run_is_no_point(home: Path, tmp_path: Path) -> None:
    """Be it the one that the curve is called like; without any, there is no curve."""
    own = Path(shutil.copytree(home, tmp_path / "home"))

    def without(*conditions: str) -> Any:
        with opened(store_path(own)) as connection:
            connection.execute(
                "DELETE FROM data.accuracies WHERE list_contains(?, split_part(arm, ':', 1))", [list(conditions)]
            )
        return curve_frame(StoredSuite(own, SUITE))

    points = without("sft")
    assert points["condition"].tolist() == ["frozen", "sft-half", "sft-2"] and set(points["curve"]) == {"frozen", "sft"}
    curve(points.assign(curve=points["curve"].replace("sft", "mine")))  # an arm of the suite, which was not run
    assert without("sft-half", "sft-2").empty


def test_a_pack_shows_its_curves_and_verifies(home: Path, tmp_path: Path) -> None:
    pack = build(home, SUITE, tmp_path / "pack", ONE_PLOT)
    assert {"curve.csv", "plots/curve.csv", "plots/curve.png"} <= {
        path.relative_to(pack).as_posix() for path in pack.rglob("*.*")
    }
    text = (pack / "README.md").read_text()
    assert "plots/curve.png" in text and "| sft    | sft-half  " in text and "`found` and `curve`" in text
    assert verify(home, pack, ONE_PLOT) == []
    (pack / "curve.csv").write_text((pack / "curve.csv").read_text().replace("sft-half,0.5", "sft-half,0.6"))
    assert verify(home, pack, ONE_PLOT) == ["curve.csv: line 3 has `0.6`, its data gives `0.5`"]


def test_lines_rise_by_budget_on_a_logarithmic_axis_and_the_host_is_a_level(home: Path) -> None:
    points = curve_frame(StoredSuite(home, SUITE))
    figure: Any = curve(points)
    assert [axes.get_xscale() for axes in figure.axes] == ["log", "log"]
    x, y = figure.axes[0].lines[0].get_data()
    assert list(x) == points["total_flops"].tolist()[1:] == sorted(x)
    assert list(y) == pytest.approx(100 * points["id_acc"].to_numpy()[1:])
    levels = [line for line in figure.axes[0].lines if len(set(line.get_ydata())) == 1]
    assert [line.get_ydata()[0] for line in levels] == [pytest.approx(100 * points["id_acc"][0])]
    assert len(curve(points.assign(retention_acc=np.nan)).axes) == 1
    whole = curve(points.assign(total_flops=points["total_flops"].fillna(0).astype(int)))  # as a CSV may be read
    assert whole.axes[0].get_xlabel() == figure.axes[0].get_xlabel()
