"""The pages: README stays short, links lead somewhere, queries and views are those of the store."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from example_suite import write_suite

from evolora_core.report import verify
from evolora_core.report.pack_folder import read_stamp
from evolora_core.searches.attention.experiment import AttentionExperiment
from evolora_core.searches.registry import load_experiment, sections_of
from evolora_core.store import frame, query, rebuild
from flows.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs").glob("*/*.md"))]
PAGES += sorted((ROOT / "docs" / "paper_packs").glob("*/NOTES.md"))


def prose(page: Path) -> str:
    """A page without its code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)


def test_the_readme_is_read_once() -> None:
    text = prose(ROOT / "README.md")
    assert len(text.split()) <= 1200
    assert len(re.findall(r"^!\[", text, flags=re.MULTILINE)) == 1
    assert len(re.findall(r"^\| -", text, flags=re.MULTILINE)) == 2  # what a run leaves, and what the runs say


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_pages_and_folders_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose(page)):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_kept_pack_is_among_the_attempts() -> None:
    page = (ROOT / "docs" / "attempts.md").read_text()
    kept = sorted((ROOT / "docs" / "paper_packs").glob("*/provenance.json"))
    assert kept
    for provenance in kept:
        suite = json.loads(provenance.read_text())["suite"]
        assert re.search(rf"`{suite}`, .*, kept\.$", page, flags=re.MULTILINE), f"run docs/attempts.py for {suite}"


KEPT = sorted((ROOT / "docs" / "paper_packs").glob("*/data"))
QUICK = {"quickstart", "merge-smollm2", "attention-search"}  # one of each search; the others take a minute together


@pytest.mark.parametrize(
    "data",
    [pytest.param(data, marks=[] if data.parent.name in QUICK else pytest.mark.slow) for data in KEPT],
    ids=[data.parent.name for data in KEPT],
)
def test_a_kept_pack_that_carries_its_data_verifies_without_a_store(data: Path, tmp_path: Path) -> None:
    assert verify(tmp_path, data.parent, sections_of(read_stamp(data.parent)["config"])) == []


def test_the_queries_of_the_pages_are_answered(tmp_path: Path) -> None:
    write_suite(tmp_path, "quickstart-0a1b2c3d", items=24)
    rebuild(tmp_path)
    names = ("README.md", "docs/running.md", "docs/extending.md", "docs/attention.md")
    texts = [(ROOT / name).read_text() for name in names]
    queries = [sql for text in texts for sql in re.findall(r'^evolora sql "(.*?)"', text, flags=re.MULTILINE)]
    assert len(queries) > 5
    for sql in queries:
        query(tmp_path, sql)
    views = texts[1].partition("| view |")[2].partition("\n\n")[0]
    listed = re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in views.splitlines()[2:]))
    assert len(listed) > 20
    for name in listed:
        frame(tmp_path, f"SELECT * FROM {name} LIMIT 1", [])


def commands() -> list[list[str]]:
    """The words of every line of the pages' shell blocks that calls `evolora` or `make`."""
    found = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(), flags=re.DOTALL):
            line = ""
            for part in block.replace("\\\n", " ").splitlines():
                line += f" {part}"
                try:
                    words = shlex.split(re.split(r" [|>] ", line)[0], comments=True)
                except ValueError:  # a quotation that the next line goes on with
                    continue
                if words and words[0] in ("evolora", "make"):
                    found.append(words)
                line = ""
    return found


def test_the_commands_of_the_pages_are_those_that_there_are() -> None:
    """Read and not run: their options and files exist, and suites take what `--set` says."""
    rules = re.findall(r"^([\w -]+):(?!=)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    targets = {target for rule in rules for target in rule.split()}
    made = read = tried = 0
    for program, *words in commands():
        for word in words:
            if file := re.search(r"configs/[\w/.-]+\.yaml", word):
                assert (ROOT / file[0]).is_file(), word
        if program == "make":
            assert {word for word in words if "=" not in word} <= targets, words
            made += 1
            continue
        app.parse_args(words, exit_on_error=False, print_error=False)
        read += 1
        changes = [after for word, after in pairwise(words) if word == "--set"]
        if words[0] == "run" and words[1].startswith("configs/") and changes:
            load_experiment(ROOT / words[1], changes)
            tried += 1
    assert made > 4 and read > 80 and tried > 0


def test_the_settings_of_the_attention_page_are_valid() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "attention.md").read_text(), flags=re.DOTALL)
    assert len(blocks) > 1
    for block in blocks:
        AttentionExperiment.model_validate(
            yaml.safe_load(block) | {"name": "page", "search": "attention", "seeds": [0]}
        )
