"""Tables in their four forms, and the sentences that are written from comparisons."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evolora_core.report.tables import NONE, Column, Table, difference, p_value, percent, rows_of, words
from evolora_core.report.takeaways import takeaway


@pytest.fixture
def table() -> Table:
    data = pd.DataFrame({"name": ["a_b", "c&d"], "value": [1 / 3, None], "n": [3, 4]})
    columns = [
        words("name"),
        Column("value %", lambda r: NONE if r["value"] is None else f"{r['value']:.2f}"),
    ]
    return Table("some_table", "100 % of it", data, columns)


def test_markdown_is_aligned(table: Table) -> None:
    assert table.to_markdown() == ("| name | value % |\n| ---- | ------: |\n| a_b  |    0.33 |\n| c&d  |       – |\n")


def test_latex_is_escaped_and_booktabs(table: Table) -> None:
    text = table.to_latex()
    assert r"a\_b & 0.33 \\" in text and r"c\&d & -- \\" in text and r"\caption{100 \% of it}" in text
    assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\label{tab:some-table}"))


def test_numbers_of_latex_have_minus_signs_and_powers_of_ten() -> None:
    named = ["ecology-8 at 2026-11-29", "ood-9b14a4e3", "recall-44e37031", "sft-1e-3"]
    data = pd.DataFrame({"v": ["-5.2 [-7.6, 3e-07]", "5.04e+10", *named]})
    lines = Table("t", "", data, [Column("v", lambda r: r["v"], left=True)]).to_latex().splitlines()
    assert lines[6] == r"    $-$5.2 [$-$7.6, 3$\times10^{-7}$] \\"
    assert lines[7:12] == [r"    5.04$\times10^{10}$ \\", *(rf"    {own} \\" for own in named)]


def test_no_cell_is_an_option_or_a_command_of_latex() -> None:
    table = Table("t", "", pd.DataFrame({"v": ["[8] labels, 2^3 [a]"]}), [words("v")])
    assert r"    {[}8] labels, 2\textasciicircum{}3 [a] \\" in table.to_latex().splitlines()


def test_greek_letters_and_arrows_are_formulas_of_latex() -> None:
    """pdflatex refuses them in text."""
    columns = [words("drift |τ|/|θ₀|", "v")]
    table = Table("t", "β → γ²", pd.DataFrame({"v": ["a · b"]}), columns).to_latex()
    assert r"drift $|$$\tau$$|$/$|$$\theta$$_0$$|$ \\" in table and r"\caption{$\beta$ $\to$ $\gamma$$^2$}" in table
    assert r"a $\cdot$ b" in table and table.isascii()


def test_csv_and_records_keep_the_raw_numbers(table: Table) -> None:
    assert table.to_csv() == "name,value,n\na_b,0.333333333333,3\nc&d,,4\n"
    assert table.records() == [{"name": "a_b", "value": 1 / 3, "n": 3}, {"name": "c&d", "value": None, "n": 4}]


def test_people_see_the_numbers_of_the_csv() -> None:
    """0.5875, which is rounded up, where the mean of the store is a little less."""
    table = Table("t", "", pd.DataFrame({"v": [0.58749999999999999 - 1e-16]}), [Column("v", lambda r: percent(r["v"]))])
    assert table.to_csv() == "v\n0.5875\n" and table.cells() == [[percent(0.5875)]] != [[percent(0.5875 - 1e-15)]]


def test_a_cell_cannot_break_a_markdown_table() -> None:
    table = Table("t", "", pd.DataFrame({"v": ["a | b\nc"]}), [words("v")])
    assert table.to_markdown().splitlines()[2] == r"| a \| b c |"


def test_a_key_shows_long_data_once_per_key() -> None:
    data = pd.DataFrame({"k": ["b", "b", "a"], "v": [1, 2, 3]})
    table = Table("t", "", data, [Column("k", lambda r: r["k"]), Column("v", lambda r: str(r["v"]))], key=("k",))
    assert table.cells() == [["b", "1"], ["a", "3"]]


def test_a_list_in_a_cell_is_a_value() -> None:
    assert rows_of(pd.DataFrame({"seeds": [[0, 1], None]})) == [{"seeds": [0, 1]}, {"seeds": None}]


def test_a_split_called_like_a_number_keeps_its_name(tmp_path: Path) -> None:
    from evolora_core.report.other_forms import _read

    (tmp_path / "rows.csv").write_text("split,seed,acc\n2024,1,0.5\n")
    assert _read(tmp_path / "rows.csv").to_dict("records") == [{"split": "2024", "seed": 1, "acc": 0.5}]


def test_numbers_for_people() -> None:
    assert percent(0.4312, 0.41, 0.45) == "43.1 [41.0, 45.0]"
    assert (percent(None), percent(1.0)) == (NONE, "100.0")
    assert difference(-0.012, -0.03, 0.004) == "-1.2 [-3.0, +0.4]"
    assert (p_value(0.0001), p_value(0.05)) == ("< 0.001", "0.050")


ROW = {"split": "holdout_id", "a": "ecology", "b": "sft", "n": 2048, "diff": 0.05, "lo": 0.01, "hi": 0.09}
ROW |= {"routing": "headline"}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (
            {"verdict": "ecology", "seeds": 8, "p_holm": 0.0312, "note": ""},
            "**ecology answers more than sft in distribution.** +5.0 [+1.0, +9.0] points (ecology − sft), 8 seeds, "
            "Holm p = 0.031.",
        ),
        (
            {"verdict": "sft", "seeds": 3, "p_holm": 1.0, "note": "these runs only"},
            "**In these runs only, sft answers more than ecology in distribution.** +5.0 [+1.0, +9.0] points "
            "(ecology − sft); each of the 3 seeds' own paired test agrees, which says nothing certain about a "
            "further seed.",
        ),
        (
            {"verdict": "sft", "seeds": 1, "p_holm": 1.0, "note": "these runs only; without seed 3"},
            "**In these runs only, sft answers more than ecology in distribution.** +5.0 [+1.0, +9.0] points "
            "(ecology − sft); the seed's own paired test agrees, which says nothing certain about a further seed; "
            "without seed 3.",
        ),
        (
            {"verdict": "undecided", "seeds": 3, "p_holm": 0.75, "note": "these runs only"},
            "**ecology against sft, in distribution: undecided.** +5.0 [+1.0, +9.0] points (ecology − sft), 3 seeds "
            "(these runs only).",
        ),
        (
            {"verdict": "undecided", "seeds": 5, "p_holm": 0.0005, "note": "too few"},
            "**ecology against sft, in distribution: undecided.** +5.0 [+1.0, +9.0] points (ecology − sft), 5 seeds, "
            "Holm p < 0.001 (too few).",
        ),
        (
            {"verdict": "sft", "seeds": 8, "p_holm": 0.03, "note": "ecology not worse by more than 5 points: shown"},
            "**sft answers more than ecology in distribution.** +5.0 [+1.0, +9.0] points (ecology − sft), 8 seeds, "
            "Holm p = 0.030; ecology not worse by more than 5 points: shown.",
        ),
        (
            {"verdict": "sft", "seeds": 8, "p_holm": 0.02, "note": "", "routing": "single", "split": "retention"},
            "**sft answers more than ecology on the retention families, under the variant `single`.** +5.0 "
            "[+1.0, +9.0] points (ecology − sft), 8 seeds, Holm p = 0.020.",
        ),
    ],
)
def test_takeaways_are_as_strong_as_their_verdict(more: dict[str, Any], expected: str) -> None:
    assert takeaway(ROW | more) == expected
