"""What a page holds: items and answers, kin, what is left out, and nothing that a model wrote as markup."""

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from evolora_core.engine.run_index import SuiteId, write_suite
from evolora_core.errors import ConfigError, PackError
from evolora_core.report.stored import StoredSuite
from evolora_core.searches.adapters.scope import vega
from evolora_core.searches.adapters.scope.answers import LONGEST, packed, read_answers, thinned
from evolora_core.searches.adapters.scope.lineage import fitting, lineage_plot, walks
from evolora_core.searches.adapters.scope.stored import Chosen
from evolora_core.searches.adapters.search import SEARCH
from evolora_core.store import query
from flows._artifacts import show_page
from flows.cli import main

SUITE = "example-0a1b2c3d"
ITEMS = 96  # of a split and seed, as in conftest.py
SPLITS, SEEDS = 3, 3


class Elements(HTMLParser):
    """The elements of a page, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script" and data.strip():
            self.scripts.append((self.found[-1][1], data))


def unpacked(page: str) -> dict[str, Any]:
    """The answers that a page carries."""
    (text,) = [text for own, text in Elements(page).scripts if own.get("id") == "packed"]
    document: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(text)))
    return document


@pytest.fixture
def chosen(looked_at: Path) -> Chosen:
    return Chosen(StoredSuite(looked_at, SUITE), [0, 1, 2])


def test_every_answer_of_the_store_is_on_it(looked_at: Path, chosen: Chosen) -> None:
    answers = read_answers(chosen.stored, chosen.seeds)
    assert answers.of == len(answers.items) == ITEMS * SPLITS * SEEDS
    mine = Counter(
        (item.seed, item.split, item.task_id, arm, own.correct)
        for item in answers.items
        for own in item.said
        for arm, _ in own.arms
    )
    stored = query(
        looked_at, "SELECT seed, split, task_id, arm, correct FROM evaluations WHERE suite = ?", [SUITE]
    ).rows
    assert mine == Counter(stored) and len(stored) > 7000
    assert answers.arms[0] == "frozen" and answers.arms[1:3] == ("single", "single:single")
    assert answers.cut == 3 * 1 and max(len(item.prompt) for item in answers.items) < LONGEST + 40


def test_what_does_not_fit_is_left_out_evenly(chosen: Chosen) -> None:
    answers = read_answers(chosen.stored, chosen.seeds)
    whole, everything = packed(answers, 10_000_000)
    text, kept = packed(answers, len(whole) // 2)
    assert len(everything.items) == answers.of
    assert len(text) <= len(whole) // 2 and kept.of == answers.of
    assert thinned(answers, 0.0).cut == 0 < answers.cut
    counts = Counter((item.seed, item.split, item.family) for item in kept.items)
    for group, count in Counter((item.seed, item.split, item.family) for item in answers.items).items():
        assert abs(counts[group] / count - len(kept.items) / answers.of) < 0.1
    assert {item.task_id for item in thinned(answers, 0.2).items} < {
        item.task_id for item in thinned(answers, 0.5).items
    }


def test_kin_are_those_on_the_way_up_and_down(chosen: Chosen) -> None:
    lives, parents = chosen.lives(), chosen.parents()
    assert {row["condition"] for row in lives} == {"ecology"}
    assert {row["role"] for row in parents} == {"parent"}  # none that paid alone
    rows = lineage_plot(lives, parents).data["lives"]
    ties = [(row["run"], row["child"], row["parent"]) for row in parents]
    children = {(run, parent): {c for r, c, p in ties if (r, p) == (run, parent)} for run, _, parent in ties}
    for row in rows:
        below, waiting = set(), [row["organelle"]]
        while waiting:
            waiting = [child for one in waiting for child in children.get((row["run"], one), ())]
            below |= set(waiting)
        assert below <= set(row["kin"])
        for other in rows:  # kinship is mutual
            if other["run"] == row["run"] and other["organelle"] in row["kin"]:
                assert row["organelle"] in other["kin"]
    assert any(len(row["kin"]) > 2 for row in rows) and any(row["kin"] == [row["organelle"]] for row in rows)
    for _, organelles in walks(lives, parents):
        assert all(one in parent["children"] for one in organelles for parent in one["parents"])


def test_lineages_of_whole_runs_are_left_out(chosen: Chosen, monkeypatch: pytest.MonkeyPatch) -> None:
    lives, parents = chosen.lives(), chosen.parents()
    assert fitting(lives, parents) == (lives, parents, [])
    monkeypatch.setattr("evolora_core.searches.adapters.scope.lineage.MOST", 30)
    shown, ties, told = fitting(lives, parents)
    assert {row["run"] for row in shown} == {row["run"] for row in ties} == {"ecology, seed 0"}
    assert told == ["Lineages are those of 1 of 3 runs; --seed shows those of another seed."]


def test_niches_add_up_to_the_population(chosen: Chosen) -> None:
    counted: Counter[tuple[str, int]] = Counter()
    for row in chosen.niches():
        counted[row["run"], row["generation"]] += row["organelles"]
    assert len(counted) == 3 * 8 and min(counted.values()) >= 15  # the example's founders, but for those that died


def test_runs_of_one_condition(looked_at: Path) -> None:
    chosen = Chosen(StoredSuite(looked_at, SUITE), [0, 2], "single")
    assert {(row["condition"], row["seed"]) for row in chosen.generations()} == {("single", 0), ("single", 2)}
    assert not chosen.lives() and not chosen.niches()  # one organelle, without kin
    assert {row["condition"] for row in chosen.accuracies()} > {"single", "frozen"}  # what is compared stays


def test_routers_have_the_host_beside_them(chosen: Chosen) -> None:
    rows = chosen.accuracies()
    for router in ("family", "single"):
        shown = {row["condition"] for row in rows if row["router"] == router}
        assert shown == {"frozen", "single", "ecology", "sft", "sft-double"}
    seeds = chosen.accuracies_by_seed()
    for row in rows:
        key = ("router", "split", "family", "condition")
        own = [one["acc"] for one in seeds if all(one[name] == row[name] for name in key)]
        assert len(own) == 3 and min(own) <= row["acc"] <= max(own)


@pytest.fixture(scope="session")
def page(looked_at: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The page, as text."""
    pytest.importorskip("altair")
    from evolora_core.searches.adapters.scope.page import write_page

    file = tmp_path_factory.mktemp("page") / "page.html"
    made = write_page(looked_at, SUITE, file)
    assert made.items == ITEMS * SPLITS * SEEDS and made.bytes == file.stat().st_size < 10_000_000
    assert list(made.left_out) == [
        f"3 prompts and answers of more than {LONGEST} characters are shown without their end."
    ]
    return file.read_text(encoding="utf-8")


def test_no_answer_can_become_markup(page: str) -> None:
    document = unpacked(page)
    said = {own[0] for item in document["items"] for own in item[6]}
    assert any("</script>" in text for text in said)  # it is there …
    assert "taken" not in page and "onerror" not in page.split('<script type="module">')[0]  # … and not as text
    elements = Elements(page)
    assert Counter(tag for tag, _ in elements.found)["script"] == 6
    assert not [own for _, own in elements.found if any(name.startswith("on") or name == "src" for name in own)]


def test_only_its_own_scripts_may_run_and_nothing_may_be_asked(page: str) -> None:
    elements = Elements(page)
    (policy,) = [own["content"] or "" for tag, own in elements.found if own.get("http-equiv")]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'" and rules["img-src"] == "data:" and "connect-src" not in rules
    own = [text for attributes, text in elements.scripts if attributes.get("type") == "module"]
    hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in own}
    assert len(own) == 3 and hashes == set(rules["script-src"].split())
    assert not [own for tag, own in elements.found if tag in ("link", "img", "iframe", "object", "base")]


def test_a_name_in_the_settings_is_text(looked_at: Path) -> None:
    from evolora_core.searches.adapters.scope.page import _json, _marked

    assert str(_marked("**a** <b> `c`")) == "<strong>a</strong> &lt;b&gt; <code>c</code>"
    text = str(_json({"name": "</script><!--&\u2028"}))
    assert json.loads(text) == {"name": "</script><!--&\u2028"} and not re.search("[<>&\u2028]", text)


def test_the_words_are_those_of_the_verdicts(page: str) -> None:
    rows = page.split("<ul>", 1)[1].split("</ul>", 1)[0]
    assert rows.count("<li>") == 4 and rows.count("In these runs only") + rows.count("undecided") == 4
    assert "With fewer than 5 seeds every interval speaks of these runs only." in page


def test_one_seed_and_a_small_page(looked_at: Path, tmp_path: Path) -> None:
    from evolora_core.searches.adapters.scope.page import write_page

    one = write_page(looked_at, SUITE, tmp_path / "one.html", seed=1)
    text = one.file.read_text(encoding="utf-8")
    assert one.items == ITEMS * SPLITS and {item[0] for item in unpacked(text)["items"]} == {1}
    assert "Runs and answers are those of seed 1" in text
    run = write_page(looked_at, SUITE, tmp_path / "run.html", seed=1, condition="ecology")
    text = run.file.read_text(encoding="utf-8")
    assert unpacked(text)["arms"] == unpacked(one.file.read_text(encoding="utf-8"))["arms"]  # answers are of all arms
    assert "Of single runs, those of <b>ecology</b> are shown" in text
    small = one.bytes - 3000
    cut = write_page(looked_at, SUITE, tmp_path / "cut.html", seed=1, largest=small)
    assert cut.bytes <= small and cut.items < ITEMS * SPLITS
    assert cut.left_out[0].startswith(f"{cut.items} of {ITEMS * SPLITS} items are shown")
    assert cut.left_out[0] in cut.file.read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="--seed 9: not complete in example-0a1b2c3d; choose from 0, 1, 2"):
        write_page(looked_at, SUITE, tmp_path / "none.html", seed=9)
    with pytest.raises(ConfigError, match="nobody: no condition of example-0a1b2c3d; choose from frozen, "):
        write_page(looked_at, SUITE, tmp_path / "none.html", condition="nobody")
    with pytest.raises(ConfigError, match="fills 0.01 MB; show one seed by --seed"):
        write_page(looked_at, SUITE, tmp_path / "none.html", largest=10_000)
    with pytest.raises(PackError, match="no such suite"):
        write_page(looked_at, "nope-00000000", tmp_path / "none.html")
    assert not (tmp_path / "none.html").exists()


def asked(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> tuple[int, str, str]:
    """Exit code of `evolora scope`, and what it printed."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
        patch.setenv("EVOLORA_HOME", str(home))
        main(["scope", *words])
    printed = capsys.readouterr()
    return int(end.value.code or 0), printed.out, printed.err


def test_the_command_says_what_it_wrote(
    capsys: pytest.CaptureFixture[str], looked_at: Path, page: str, tmp_path: Path
) -> None:
    code, out, err = asked(capsys, looked_at, "example", "--out", str(tmp_path / "new" / "look.html"))
    assert code == 0, err
    assert out.startswith(f"{tmp_path}/new/look.html: 1.") and "864 items" in out and out.count("\n") == 2
    assert (tmp_path / "new" / "look.html").read_text(encoding="utf-8") == page  # equal suites give equal pages


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["nope"], "nope: no such suite"),
        (["example", "--seed", "7"], "--seed 7: not complete"),
        (["example.nobody.s0"], "nobody: no condition of example-0a1b2c3d; choose from frozen, "),
        (["example.ecology.s0", "--seed", "1"], "--seed 1: example.ecology.s0 has a seed; leave out one of them"),
        (["example", "--out", "page.txt"], "name a file that ends with .html"),
        (["example", "--out", "."], "is no place for a page"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], looked_at: Path, words: list[str], reason: str
) -> None:
    pytest.importorskip("altair")
    code, out, err = asked(capsys, looked_at, *words)
    assert (code, out) == (1, "") and err.startswith("error: ") and err.count("\n") == 1
    assert reason in err


def test_a_search_without_a_page_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    write_suite(tmp_path, SuiteId("merged", "0a1b2c3d"), {"search": "merging"})
    code, out, err = asked(capsys, tmp_path, "merged")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "merged-0a1b2c3d: the search 'merging' draws no page; `evolora pack merged-0a1b2c3d`" in err


def test_a_page_that_cannot_be_drawn_fails_no_run(
    caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("altair")
    monkeypatch.setenv("EVOLORA_HOME", str(tmp_path))
    show_page(SUITE, SEARCH)
    assert f"the page of {SUITE} was not drawn" in caplog.text and not (tmp_path / "scope").exists()


def test_a_missing_extra_is_named(
    capsys: pytest.CaptureFixture[str], looked_at: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vega.NEEDED, "altair", "a_module_that_nobody_has")
    code, out, err = asked(capsys, looked_at, "example")
    assert (code, out) == (1, "") and err.count("\n") == 1
    assert "needs altair" in err and "pip install -c constraints.txt -e '.[scope]'" in err
