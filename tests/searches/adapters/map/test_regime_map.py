"""The map: which comparisons of a pack stand on it, in which words, and with which sign."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from example_suite import write_suite
from PIL import Image

from evolora_core.errors import PackError
from evolora_core.report import build
from evolora_core.searches.adapters.map.forest import QUESTIONS, forest, many
from evolora_core.searches.adapters.map.overview import overview
from evolora_core.searches.adapters.map.regime_map import COLUMNS, WITHDRAWALS, build_map, places
from evolora_core.searches.adapters.pack.sections import SECTIONS
from evolora_core.store import rebuild

SUITE = "example-0a1b2c3d"
FILES = ("map.csv", "map.md", "overview.png", "search.png")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_suite(home, SUITE, items=96)
    rebuild(home)
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "example", replace(SECTIONS, plots={}))


@pytest.fixture
def pack(built: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(built, tmp_path / "example"))


def rewrite(
    pack: Path, *, comparisons: list[dict[str, Any]] | None = None, drop: tuple[str, ...] = (), **stamp: object
) -> None:
    """Change the declared comparisons, columns of their table, or the top of the provenance of a pack."""
    document = json.loads((pack / "provenance.json").read_text()) | stamp
    if comparisons is not None:
        document["config"]["evaluation"]["comparisons"] = comparisons
    (pack / "provenance.json").write_text(json.dumps(document))
    table = pd.read_csv(pack / "comparisons.csv").drop(columns=list(drop))
    table.to_csv(pack / "comparisons.csv", index=False)


def test_every_ecology_against_sft_is_a_place_named_by_its_regime_or_its_arms(built: Path) -> None:
    found = places(built)
    assert list(found.columns) == COLUMNS
    assert found["regime"].tolist() == ["all labels, $5 each", "ecology against sft", "ecology against sft"]
    place = found.to_dict("records")[0]
    table = pd.read_csv(built / "comparisons.csv")
    row = table[(table["b"] == "sft") & (table["split"] == "holdout_id")].iloc[0]
    assert (place["regime"], place["routing"], place["verdict"]) == ("all labels, $5 each", "family", "fine-tune")
    assert row["verdict"] == "sft" and row["regime"] == place["regime"]
    assert [place[c] for c in ("diff", "lo", "hi", "p_holm", "n")] == [
        row[c] for c in ("diff", "lo", "hi", "p_holm", "n")
    ]
    spent = pd.read_csv(built / "paper_table.csv").set_index("condition")["total_flops"]
    assert (place["evolved_flops"], place["rival_flops"]) == (spent["ecology"], spent["sft"])


def test_without_regimes_every_ecology_against_sft_is_a_place_in_declared_order(pack: Path) -> None:
    declared = json.loads((pack / "provenance.json").read_text())["config"]["evaluation"]["comparisons"]
    rewrite(pack, comparisons=[{**pair, "regime": None} for pair in reversed(declared)], drop=("regime",))
    found = places(pack)
    assert found["split"].tolist() == ["retention", "holdout_ood", "holdout_id"]  # `frozen` is no fine-tuned arm
    assert set(found["regime"]) == {"ecology against sft"}
    assert dict(zip(found["split"], found["verdict"], strict=True))["holdout_id"] == "fine-tune"


def test_a_pair_that_never_ran_with_one_seed_has_no_place(pack: Path) -> None:
    """Each of the two ran with some seed, so neither is wholly missing."""
    table = pd.read_csv(pack / "paper_table.csv")
    table.assign(not_run=["1" if own in ("ecology", "sft") else "" for own in table["condition"]]).to_csv(
        pack / "paper_table.csv", index=False
    )
    before = len(places(pack))
    found = pd.read_csv(pack / "comparisons.csv")
    found[found["b"] != "sft"].to_csv(pack / "comparisons.csv", index=False)
    assert before == 3 and places(pack).empty


def test_means_over_other_seeds_are_no_share_of_the_flops(pack: Path) -> None:
    table = pd.read_csv(pack / "paper_table.csv", keep_default_na=False)
    table.loc[table["condition"] == "sft", "seeds"] -= 1
    table.to_csv(pack / "paper_table.csv", index=False)
    found = places(pack)
    assert len(found) == 3 and found[["evolved_flops", "rival_flops"]].isna().all(axis=None)
    shown = [text.get_text() for text in forest(found, QUESTIONS[0]).axes[0].texts]
    assert shown.count("–") == 6 and "nan" not in shown  # of three seeds there is no Holm p
    assert "No rival was run" in " ".join(text.get_text() for text in overview(found.query("named")).texts)


@pytest.mark.parametrize(
    ("settings", "changes", "tried", "gold"),
    [
        ({}, {}, {}, False),
        ({"memory": {"labels": 8}}, {}, {}, True),
        ({"memory": {"labels": 8}}, {"memory": {"labels": 0}}, {}, False),
        ({}, {"plasticity": {"rule": "gold"}}, {}, True),
        ({}, {}, {"plasticity": {"rule": "gold"}}, True),
    ],
)
def test_an_ecology_that_sees_gold_answers_is_named(
    pack: Path, tmp_path: Path, settings: dict[str, Any], changes: dict[str, Any], tried: dict[str, Any], gold: bool
) -> None:
    config = json.loads((pack / "provenance.json").read_text())["config"]
    config["ecology"] |= settings
    config["arms"] = {"ecology": {"like": "ecology", "changes": changes}}
    rewrite(pack, config=config)
    tuning = [("ecology", "{}", False), ("ecology", json.dumps(tried), True), ("sft", "{}", True)]
    pd.DataFrame(tuning, columns=["condition", "changes", "chosen"]).to_csv(pack / "tuning.csv", index=False)
    assert set(places(pack)["gold"]) == {"ecology" if gold else ""}
    text = " ".join((build_map([pack], tmp_path / "out") / "map.md").read_text().split())
    named = f", but for `{SUITE}.ecology`, which are given some" if gold else ""
    assert f"and see no gold answer{named}. *Search*" in text


def test_a_condition_called_like_a_missing_value_keeps_its_name(pack: Path) -> None:
    for file in ("paper_table.csv", "comparisons.csv", "provenance.json"):
        text = (pack / file).read_text()
        (pack / file).write_text(text.replace('"sft"', '"null"').replace(",sft,", ",null,"))
    stamp = json.loads((pack / "provenance.json").read_text())
    stamp["config"]["arms"] = {"null": {"like": "sft"}}
    (pack / "provenance.json").write_text(json.dumps(stamp))
    assert set(places(pack)["rival"]) == {"null"}


def test_differences_are_evolved_less_fine_tuned_whichever_was_declared_first(pack: Path) -> None:
    before = places(pack).iloc[0]
    table = pd.read_csv(pack / "comparisons.csv", keep_default_na=False)
    mine = (table["b"] == "sft") & (table["split"] == "holdout_id")
    table.loc[mine, ["a", "b"]] = ["sft", "ecology"]
    for column, number in (("diff", -before["diff"]), ("lo", -before["hi"]), ("hi", -before["lo"])):
        table.loc[mine, column] = number
    table.to_csv(pack / "comparisons.csv", index=False)
    document = json.loads((pack / "provenance.json").read_text())
    document["config"]["evaluation"]["comparisons"][1] |= {"a": "sft", "b": "ecology"}
    (pack / "provenance.json").write_text(json.dumps(document))
    pd.testing.assert_series_equal(places(pack).iloc[0], before)


def test_the_map_is_written_and_again_alike(pack: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(pack, tmp_path / "other"))
    rewrite(other, suite="other-11111111", drop=("regime",))
    first, second = (build_map([pack, other], tmp_path / name) for name in ("first", "second"))
    assert {path.name for path in first.iterdir()} == {*FILES}
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    rows = pd.read_csv(first / "map.csv")
    assert rows["suite"].tolist() == [*[SUITE] * 3, *["other-11111111"] * 3]
    text = (first / "map.md").read_text()
    assert "| all labels, $5 each " in text and "| fine-tune" in text and "Equal compute" in text
    assert not re.search(r"\bnan\b", text)
    width, height = Image.open(first / "search.png").size
    assert width > height > 300


def test_every_row_stands_in_the_plot_with_its_verdict(built: Path) -> None:
    figure = forest(places(built), QUESTIONS[0])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert {"example, host nano", "all labels, $5 each", "in distribution, family routing", "fine-tune*"} <= set(words)
    left, right = figure.axes[0].get_xlim()
    assert left == -right


def test_the_overview_has_a_line_for_each_named_regime_the_best_for_the_ecology_on_top(built: Path) -> None:
    one = places(built).query("named")
    assert one["regime"].tolist() == ["all labels, $5 each"]
    better = one.assign(regime="few labels", diff=0.08, lo=0.07, hi=0.09, verdict="search", seeds=8)
    again = better.assign(suite="other-11111111", diff=0.01, lo=-0.01, hi=0.03, verdict="undecided", routing="learned")
    figure = overview(pd.concat([one, again, better, better.assign(suite="third-11111111", diff=0.07)]))
    (panel,) = figure.axes
    words = [text.get_text() for text in panel.texts]
    assert words[::3] == [
        "few labels (example)",
        "few labels (third)",
        "few labels, router learned",
        "all labels, $5 each, 3 seeds",
    ]
    assert words[2::3] == ["search", "search", "undecided", "fine-tune*"]
    assert panel.get_xlim()[0] == -panel.get_xlim()[1] <= -9
    note = " ".join(text.get_text().replace("\n", " ") for text in figure.texts)
    assert "Adjusted over all 4 lines here" in note and "times the ecology's FLOPs" in note
    assert "* Fewer than 5 seeds" in note


def test_a_long_regime_leaves_room_for_where_and_how_many_seeds(built: Path) -> None:
    one = places(built).query("named").assign(regime="a regime " * 20, routing="single")
    words = [text.get_text() for text in overview(pd.concat([one, one.assign(split="holdout_ood")])).axes[0].texts]
    assert words[0].endswith(" …, router single, 3 seeds")
    assert words[3].endswith(" …, out of distribution, router single, 3 seeds")
    assert max(map(len, words[::3])) <= 68


def test_packs_that_name_no_regime_have_no_overview(pack: Path, tmp_path: Path) -> None:
    rewrite(pack, drop=("regime",))
    out = build_map([pack], tmp_path / "out")
    assert {path.stem for path in out.iterdir()} == {"map", "search"}
    assert "overview" not in (out / "map.md").read_text()


@pytest.mark.parametrize(
    ("bare", "word", "hollow"),
    [
        ("ecology in 1 of 3 seeds, sft in 3 of 3 seeds", "fine-tune*†", True),
        ("ecology in 3 of 3 seeds", "fine-tune*†", False),
        ("", "fine-tune*", False),
    ],
)
def test_a_row_with_the_bare_host_is_marked(built: Path, bare: str, word: str, hollow: bool) -> None:
    figure = forest(places(built).head(1).assign(bare=bare), QUESTIONS[0])
    assert word in [text.get_text() for text in figure.axes[0].texts]
    assert any("is no merit" in text.get_text().replace("\n", " ") for text in figure.texts) == word.endswith("†")
    points = [line for line in figure.axes[0].lines if line.get_marker() not in ("None", "", "|")]
    assert [line.get_markerfacecolor() == "white" for line in points] == [hollow]


def test_what_is_no_pack_or_has_no_place_is_told(pack: Path, tmp_path: Path) -> None:
    with pytest.raises(PackError, match="is not a pack, it has no provenance.json"):
        build_map([tmp_path], tmp_path / "out")
    with pytest.raises(PackError, match=f"{SUITE}: two of the packs are of this suite"):
        build_map([pack, pack], tmp_path / "out")
    with pytest.raises(PackError, match="is a file; name a folder"):
        build_map([pack], pack / "README.md")
    rewrite(pack, comparisons=[{"a": "ecology", "b": "frozen", "split": "holdout_id"}])
    with pytest.raises(PackError, match="compares no ecology with a fine-tuned arm or with `single`"):
        build_map([pack], tmp_path / "out")
    rewrite(pack, comparisons=[{"a": "ecology", "b": "sft", "split": "holdout_id"}], drop=("p_holm",))
    with pytest.raises(PackError, match=r"damaged or not whole \('p_holm'\)"):
        build_map([pack], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_pack_with_spoilt_numbers_is_told(pack: Path, tmp_path: Path) -> None:
    for file, column in (("comparisons.csv", "p"), ("paper_table.csv", "total_flops")):
        table = pd.read_csv(pack / file, dtype=str, keep_default_na=False)
        table.assign(**{column: "many"}).to_csv(pack / file, index=False)
        with pytest.raises(PackError, match="damaged or not whole .*many"):
            build_map([pack], tmp_path / "out")
        table.to_csv(pack / file, index=False)
    assert len(places(pack)) == 3


def test_a_routing_with_dollars_is_no_formula(built: Path) -> None:
    figure = forest(places(built).assign(routing=r"$\nothing$"), QUESTIONS[0])
    figure.canvas.draw()
    assert r"in distribution, $\nothing$ routing" in [text.get_text() for text in figure.axes[0].texts]


def test_a_pack_without_a_place_is_left_out(
    built: Path, pack: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rewrite(pack, comparisons=[{"a": "ecology", "b": "frozen", "split": "holdout_id"}], suite="other-0a1b2c3d")
    out = build_map([pack, built], tmp_path / "out")
    assert set(pd.read_csv(out / "map.csv")["suite"]) == {SUITE}
    assert f"{pack}: it compares no ecology with a fine-tuned arm or with `single`; left out" in caplog.text


def test_a_pack_of_another_search_has_no_place() -> None:
    kept = Path(__file__).resolve().parents[4] / "docs" / "paper_packs"
    assert places(kept / "merge-race").empty and places(kept / "attention-table").empty


def test_what_the_population_adds_is_a_question_of_its_own(pack: Path, tmp_path: Path) -> None:
    declared = json.loads((pack / "provenance.json").read_text())["config"]["evaluation"]["comparisons"]
    table = pd.read_csv(pack / "comparisons.csv", keep_default_na=False)
    table.loc[table["b"] == "frozen", "b"] = "single"
    table.loc[table["b"] == "single", "verdict"] = "ecology"
    table.to_csv(pack / "comparisons.csv", index=False)
    renamed = [pair | ({"b": "single"} if pair["b"] == "frozen" else {}) for pair in declared]
    rewrite(pack, comparisons=renamed)
    found: Any = places(pack).set_index("question")
    assert list(found.index) == ["search", "search", "search", "population"]
    assert found.loc["population", ["regime", "rival", "verdict"]].tolist() == [
        "ecology against single",
        "single",
        "population",
    ]
    out = build_map([pack], tmp_path / "out")
    assert {path.stem for path in out.iterdir()} == {"map", "overview", "search", "population"}
    assert "| population" in (out / "map.md").read_text()


def test_a_withdrawn_verdict_is_no_verdict_on_the_map(pack: Path, tmp_path: Path) -> None:
    reason = "unequal generations"
    (pack / WITHDRAWALS).write_text(json.dumps([{"a": "ecology", "b": "sft", "reason": reason}]))
    found = places(pack)
    decided = pd.read_csv(pack / "comparisons.csv").query("b == 'sft' and verdict != 'undecided'")
    assert 0 < (found["verdict"] == "withdrawn").sum() == len(decided)
    assert set(found.loc[found["verdict"] == "withdrawn", "note"]) == {reason}
    text = (build_map([pack], tmp_path / "out") / "map.md").read_text()
    assert f"| withdrawn | {reason}" in text
    entry = {"a": "sft", "b": "ecology", "split": "retention", "routing": "single", "reason": reason}
    (pack / WITHDRAWALS).write_text(json.dumps([entry]))
    gone = places(pack).query("verdict == 'withdrawn'")
    assert len(gone) < len(decided) and set(zip(gone["split"], gone["routing"], strict=True)) <= {
        ("retention", "single")
    }
    for damaged in ("[{}]", json.dumps([entry | {"slit": "retention"}]), "[" * 100_000):
        (pack / WITHDRAWALS).write_text(damaged)
        with pytest.raises(PackError, match="damaged or not whole"):
            places(pack)


def test_the_map_says_what_an_adjustment_over_all_its_rows_would_leave(built: Path) -> None:
    found = pd.concat([places(built)] * 11, ignore_index=True).assign(p=2 / 2**8)
    assert many(found, "rows") == (
        "Holm p is adjusted within one suite. Adjusted over all 33 rows, the smallest would be 0.258, and no verdict "
        "would stand."
    )
    assert many(found.assign(p=1e-5, verdict="search"), "rows").endswith("and 33 verdicts would stand.")
    assert many(found.assign(p=1e-5, verdict="withdrawn"), "rows").endswith("and no verdict would stand.")
    shown = " ".join(text.get_text().replace("\n", " ") for text in forest(places(built), QUESTIONS[0]).texts)
    assert "Adjusted over all 3 rows here" in shown
