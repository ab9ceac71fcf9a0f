"""A pack of a merge search: what is in it, in which order, and that it verifies from what it carries."""

import dataclasses
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from merge_suite import CONDITIONS, DOMAINS, MEAN, ROUTE, SUITE, TIES, write_suite

from evolora_core.report import StoredSuite, build, export, verify
from evolora_core.searches.merging.pack.facts import checks
from evolora_core.searches.merging.pack.looks import ORDER, in_order, looks_of
from evolora_core.searches.merging.pack.recipes import readable
from evolora_core.searches.merging.pack.sections import SECTIONS
from evolora_core.searches.merging.pack.tables import domain_rows
from evolora_core.store import query, rebuild, store_path
from evolora_core.store.connection import opened

IN_ORDER = [
    "base", "parent-code", "parent-math", "parent-structured", "parent-multilingual", "best-parent", "uniform",
    "greedy-soup", "lambda-grid", "model-stock", "ensemble", "adam", "fine-tuned-mean", "multitask", "random",
    "evomerge-as-published", "evomerge", "evomerge-routes", "cma", "cycleqd", "niches",
]  # fmt: skip


def stored(home: Path, **settings: Any) -> Path:
    home.mkdir(exist_ok=True)
    write_suite(home, **settings)
    rebuild(home)
    return home


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("merges"))


@pytest.fixture(scope="module")
def pack(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(home, SUITE, tmp_path_factory.mktemp("packs") / "merges", SECTIONS)


def test_it_has_every_table_and_plot_and_verifies_with_and_without_the_store(
    home: Path, pack: Path, tmp_path: Path
) -> None:
    names = {
        path.relative_to(pack).as_posix() for path in pack.rglob("*") if path.is_file() and path.parent.name != "data"
    }
    expected = {f"{table}.csv" for table in SECTIONS.tables if table != "not_run"} | {
        "README.md",
        "summary.json",
        "provenance.json",
    }
    assert names == expected | {f"plots/{plot}.{form}" for plot in SECTIONS.plots for form in ("png", "csv")}
    assert verify(home, pack, SECTIONS) == verify(tmp_path, pack, SECTIONS) == []
    text = (pack / "README.md").read_text()
    for plot in SECTIONS.plots:
        assert text.count(f"plots/{plot}.png") == 1
    assert "\n\n\n" not in text.partition("## Arms")[2]


def test_the_arms_stand_in_one_order_everywhere(pack: Path) -> None:
    assert sorted(IN_ORDER) == sorted(CONDITIONS)
    for name in ("merge_table", "merge_domains", "recipes", "plots/test_by_arm", "plots/domains"):
        assert list(dict.fromkeys(pd.read_csv(pack / f"{name}.csv")["arm"])) == IN_ORDER, name
    searched = [arm for arm in IN_ORDER if arm in pd.read_csv(pack / "candidates.csv")["arm"].tolist()]
    assert searched == IN_ORDER[-7:]
    assert list(dict.fromkeys(pd.read_csv(pack / "compute.csv")["condition"])) == [*IN_ORDER, "shared"]


def test_arms_of_a_suites_own_stand_behind_what_they_are_like_and_look_alike() -> None:
    config = {"conditions": ["mine", "cma", "evomerge"], "arms": {"mine": {"like": "evomerge"}}}
    rows = in_order(pd.DataFrame({"arm": ["cma", "mine", "evomerge"]}), config)
    assert rows["arm"].tolist() == ["evomerge", "mine", "cma"]
    looks = looks_of(rows)
    assert looks["mine"].colour == looks["evomerge"].colour != looks["cma"].colour
    assert looks["mine"].marker != looks["evomerge"].marker and looks["mine"].line != looks["evomerge"].line
    every = looks_of(pd.DataFrame({"arm": list(ORDER), "kind": list(ORDER)}))
    assert len({(look.colour, look.marker) for look in every.values()}) == len(ORDER)


def test_it_carries_no_genomes_of_candidates_but_the_chosen_recipes(pack: Path) -> None:
    columns = pq.read_schema(pack / "data" / "candidates.parquet").names
    assert "genome" not in columns and {"genome_id", "score", "generation", "candidate", "fresh"} <= set(columns)
    assert not (pack / "data" / "candidate_domains.parquet").exists()
    chosen = pq.read_table(pack / "data" / "merge_choices.parquet").to_pylist()
    assert {row["genome"] for row in chosen if row["condition"] == "evomerge-routes"} == {ROUTE.text}


def test_an_arm_whose_budget_is_too_small_is_named_with_its_reason(tmp_path: Path) -> None:
    home = stored(tmp_path / "home", instruments=False, conditions=("base", "adam", "evomerge"), poor={"adam": 1})
    pack = build(home, SUITE, tmp_path / "pack", dataclasses.replace(SECTIONS, plots={}))
    (row,) = pd.read_csv(pack / "not_run.csv", dtype=str).to_dict("records")
    assert row["condition"] == "adam" and row["not_run"] == "1" and row["reason"].startswith("adam: 0 steps are left")
    seeds = pd.read_csv(pack / "merge_table.csv").set_index("arm")["seeds"].to_dict()
    assert seeds == {"base": 3, "adam": 2, "evomerge": 3}
    text = (pack / "README.md").read_text()
    assert (
        "adam: 0 steps are left" in text and "Incomplete" not in text and "\n\n\n" not in text.partition("## Arms")[2]
    )
    assert verify(home, pack, dataclasses.replace(SECTIONS, plots={})) == []


def test_seeds_that_differ_make_a_domains_interval_wide(tmp_path: Path) -> None:
    home = stored(tmp_path / "home", instruments=False, conditions=("base", "adam", "evomerge"))
    with opened(store_path(home)) as connection:
        connection.execute("UPDATE data.evaluations SET correct = seed = 0 WHERE split = 'test'")
    rows = domain_rows(StoredSuite(home, SUITE))  # one of three seeds has all of it right, two nothing
    assert rows["score"].tolist() == pytest.approx([1 / 3] * len(rows)) and len(rows) > 1
    assert (rows["lo"] < 0.01).all() and (rows["hi"] > 0.99).all()


def test_a_changed_number_is_found(pack: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(pack, tmp_path / "copy"))
    table = pd.read_csv(copy / "plots" / "progress.csv", dtype=str)
    table.loc[3, "best"] = "-0.5"
    table.to_csv(copy / "plots" / "progress.csv", index=False)
    (line,) = verify(tmp_path, copy, SECTIONS)
    assert line.startswith("plots/progress.csv: line 5 has `-0.5`, its data gives `")


def test_best_so_far_never_falls_and_ends_at_what_was_chosen_from(home: Path, pack: Path) -> None:
    lines = pd.read_csv(pack / "plots" / "progress.csv")
    own = lines[(lines["arm"] == "evomerge") & lines["evaluations"].notna()].sort_values("evaluations")
    assert (own["best"].diff().dropna() >= 0).all() and (own["lo"] <= own["best"]).all()
    assert own["evaluations"].is_unique and own["seeds"].eq(3).all()
    assert own["running"].iloc[-1] == 1  # two of three runs ended before
    best = query(home, "SELECT avg(search_score) FROM merge_choice WHERE condition = 'evomerge'").rows[0][0]
    assert own["best"].iloc[-1] == pytest.approx(best)
    assert set(lines.loc[lines["evaluations"].isna(), "arm"]) == {"best-parent", "uniform", "adam"}


def test_domains_are_a_wide_table_and_parents_say_what_they_learned(pack: Path) -> None:
    text = (pack / "README.md").read_text()
    heading = re.search(r"^\| arm +\|(.*code %.*)\|$", text, flags=re.MULTILINE)
    assert heading and all(f"{domain} %" in heading[1] for domain in DOMAINS)
    parents = pd.read_csv(pack / "parents.csv")
    assert (parents["own"] > parents["base"]).all() and parents["drift"].between(0.05, 0.09).all()
    provenance = json.loads((pack / "provenance.json").read_text())
    assert provenance["parents"][0] == {"seed": 0, "parent": "code", "weights_sha256": "0code"}


def test_checks_find_a_failed_candidate_that_won_and_a_stranger(tmp_path: Path) -> None:
    home = stored(tmp_path / "home", seeds=(0,), items=4)
    found = checks(StoredSuite(home, SUITE))
    assert found["prompts_shared_between_splits"] == found["failed_candidates_that_won"] == 0
    assert found["parents_that_drifted_half_of_the_base_or_more"] == found["test_items_that_a_run_answered_twice"] == 0
    assert found["largest_drift_of_a_parent"] == 0.08 and found["candidates_that_failed"] > 0
    with opened(store_path(home)) as connection:
        connection.execute("UPDATE data.merge_choices SET candidate = 7 WHERE condition = 'evomerge'")
        connection.execute("UPDATE data.merge_parents SET drift = 1.4 WHERE parent = 'math'")
        connection.execute("INSERT INTO data.evaluations FROM data.evaluations WHERE condition = 'cma' LIMIT 1")
    found = checks(StoredSuite(home, SUITE))
    assert found["failed_candidates_that_won"] == found["test_items_that_a_run_answered_twice"] == 1
    assert found["parents_that_drifted_half_of_the_base_or_more"] == 1 and found["largest_drift_of_a_parent"] == 1.4


def test_a_pack_without_strategies_leaves_their_tables_and_plots_out(tmp_path: Path) -> None:
    home = stored(tmp_path / "home", seeds=(0,), conditions=("uniform", "base"), items=8, instruments=False)
    pack = build(home, SUITE, tmp_path / "pack", SECTIONS)
    assert not (pack / "candidates.csv").exists()
    assert {path.stem for path in (pack / "plots").glob("*.png")} == {
        "test_by_arm", "domains", "comparisons", "search_against_test"
    }  # fmt: skip
    text = (pack / "README.md").read_text()
    assert "plots/progress" not in text and "`candidates`" not in text and "first failure" not in text
    assert not any(word in text for word in ("## Landscape", "## Law", "Replayed", "regret", "law_"))
    assert not any((pack / f"{name}.csv").exists() for name in ("landscape_marks", "regret", "law_fits", "law_points"))
    assert verify(tmp_path / "nowhere", pack, SECTIONS) == []


def test_it_is_exported_from_its_csv_alone(pack: Path, tmp_path: Path) -> None:
    files = {path.relative_to(tmp_path).as_posix() for path in export(pack, ("latex", "md", "svg"), tmp_path, SECTIONS)}
    assert files == SECTIONS.exported - {"not_run.tex", "not_run.md"}  # every arm was run
    readme = (pack / "README.md").read_text()
    for table in SECTIONS.tables.keys() - {"not_run"}:
        assert (tmp_path / f"{table}.md").read_text().split("\n\n", 1)[1].strip() in readme, table


def test_recipes_are_read_by_people() -> None:
    assert readable(MEAN.text) == "linear(code, math, structured, multilingual)"
    assert readable(TIES.text) == (
        "ties(0.5/0.71·code, 1·math, 0.25·structured, 0.333·multilingual; density 0.4)"
    )  # fmt: skip
    assert readable(ROUTE.text) == "layers(#0 0–1 → math 1 → math 1 ×0.9; #0 = linear(code, math), rest #0)"
    assert readable('{"recipe": "base", "seed": 0}') == "base"
    assert readable('{"recipe": {"op": "dare_ties", "inputs": ["a", "b"], "options": {"rescale": "l1"}}}') == (
        "dare_ties(a, b; rescale l1)"
    )
    assert readable("no recipe") == "no recipe"
