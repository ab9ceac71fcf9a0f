"""The page itself: what is shown in which order, its text, and its file.

Nothing of a page comes from a network, and its policy forbids it to ask: only the scripts that it carries run, each
known by its hash. Text of models, users and hosts is either escaped or compressed, and scripts write it as text.
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from evolora_core.engine.artifacts import write_atomic
from evolora_core.errors import ConfigError
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import rows_of
from evolora_core.searches.adapters.pack import paper
from evolora_core.searches.adapters.pack.curves import curve_frame
from evolora_core.searches.adapters.pack.robustness import robustness_frame, robustness_table
from evolora_core.searches.adapters.pack.transfer import transfer_frame, transfer_table
from evolora_core.searches.adapters.scope.answers import LONGEST, Answers, packed, read_answers
from evolora_core.searches.adapters.scope.ecology import archive_plot, generation_plots, niche_plot
from evolora_core.searches.adapters.scope.learning import STEPS, budget_plot, found_plot, step_plot
from evolora_core.searches.adapters.scope.lineage import fitting, lineage_plot, walks
from evolora_core.searches.adapters.scope.look import FACES, Plot, Rows
from evolora_core.searches.adapters.scope.outcome import accuracy_plot, comparison_plot
from evolora_core.searches.adapters.scope.stored import Chosen
from evolora_core.searches.adapters.scope.vega import check_installed, installed, library
from evolora_core.searches.base import Page
from evolora_core.statistics.inference import MIN_SEEDS

__all__ = ["installed", "write_page"]

LARGEST = 10_000_000  # bytes of a page
SCRIPTS = ("charts", "answers")
TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True)
class Part:
    """A chapter of plots."""

    name: str
    title: str
    plots: Sequence[Plot]


def write_page(
    home: Path, suite: str, out: Path, seed: int | None = None, condition: str | None = None, largest: int = LARGEST
) -> Page:
    """Write the page of a suite to `out`; runs and answers are of one seed, or of all that are complete, and the runs
    that are shown one by one of one condition, or of all.

    ConfigError without the extra `scope`, for a seed that is not complete, for another condition than the suite's, and
    where `largest` bytes cannot hold the page; PackError where the store has no such suite or no complete seed.
    """
    check_installed()
    stored = StoredSuite(home, suite)
    stored.check_complete()
    if seed is not None and seed not in stored.seeds:
        raise ConfigError(f"--seed {seed}: not complete in {suite}; choose from {', '.join(map(str, stored.seeds))}")
    conditions = stored.config["conditions"]
    if condition is not None and condition not in conditions:
        raise ConfigError(f"{condition}: no condition of {suite}; choose from {', '.join(conditions)}")
    chosen = Chosen(stored, stored.seeds if seed is None else [seed], condition)
    lives, parents, left_out = fitting(chosen.lives(), chosen.parents())
    told = _told(chosen, lives, parents) | {"library": Markup(_inline(library(home)))}
    answers = read_answers(stored, chosen.seeds)
    room = largest - len(_rendered(told, left_out, "").encode()) - len(str(_left_out(answers, answers.of - 1)))
    if room < 1000:
        raise ConfigError(f"{suite}: all but its answers fills {largest / 1e6:.3g} MB; show one seed by --seed")
    text, kept = packed(answers, room)
    left_out += _left_out(kept, len(kept.items))
    html = _rendered(told, left_out, text)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, html)
    return Page(out, len(html.encode()), len(kept.items), left_out)


def _shown(chosen: Chosen, lives: Rows, parents: Rows) -> list[Part]:
    """The plots of which there is data."""
    config = chosen.stored.config
    declared, means = rows_of(paper.comparison_rows(chosen.stored)), chosen.accuracies()
    found = [comparison_plot(declared)] if declared else []
    found += [accuracy_plot(means, chosen.accuracies_by_seed())] if means else []
    generations, niches, archive = chosen.generations(), chosen.niches(), chosen.archive()
    ecology = generation_plots(generations) if generations else []
    ecology += [niche_plot(niches)] if niches else []
    ecology += [archive_plot(archive)] if archive else []
    ecology += [lineage_plot(lives, parents)] if lives else []
    practice = chosen.found()
    learning = [found_plot(practice)] if practice else []
    learning += [step_plot(name, rows) for name, (value, _, _) in STEPS.items() if (rows := chosen.steps(name, value))]
    budgets = [
        row for row in rows_of(curve_frame(chosen.stored)) if row["total_flops"] and row["condition"] != "frozen"
    ]
    learning += [budget_plot(budgets)] if budgets and "arms" in config else []
    parts = [
        Part("found", "Differences and accuracy", found),
        Part("ecology", "The ecology over time", ecology),
        Part("learning", "Learning curves", learning),
    ]
    return [part for part in parts if part.plots]


def _told(chosen: Chosen, lives: Rows, parents: Rows) -> dict[str, Any]:
    """What the template says, apart from the answers."""
    stored = chosen.stored
    parts = _shown(chosen, lives, parents)
    tables = [paper.paper_table(stored.suite, paper.paper_rows(stored))]
    tables += [
        draw(stored.suite, frame)
        for rows, draw in ((transfer_frame, transfer_table), (robustness_frame, robustness_table))
        if not (frame := rows(stored)).empty
    ]
    return {
        "suite": stored.suite,
        "config": stored.config,
        "seeds": stored.seeds,
        "min_seeds": MIN_SEEDS,
        "chosen": chosen.seeds,
        "condition": chosen.condition,
        "missing": stored.missing_in_words,
        "takeaways": [_marked(paper.takeaway(row)) for row in rows_of(paper.comparison_rows(stored))],
        "tables": tables,
        "parts": parts,
        "plots": _json({plot.name: plot.spec() for part in parts for plot in part.plots}),
        "faces": _json(FACES),
        "families": walks(lives, parents),
        "css": Markup((TEMPLATES / "page.css").read_text(encoding="utf-8")),
        "scripts": {name: Markup((TEMPLATES / f"{name}.js").read_text(encoding="utf-8")) for name in SCRIPTS},
    }


def _rendered(told: Mapping[str, Any], left_out: Sequence[str], answers: str) -> str:
    """The page as text."""
    hashes = " ".join(_hash(text) for text in (told["library"], *told["scripts"].values()))
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined, autoescape=True, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True,
    )  # fmt: skip
    return environment.get_template("page.html.j2").render(told, left_out=left_out, answers=answers, policy=policy)


def _left_out(answers: Answers, kept: int) -> list[str]:
    """What a page with so many items leaves out of the answers."""
    told = []
    if kept < answers.of:
        told.append(
            f"{kept} of {answers.of} items are shown, the same share of each seed, split and family, chosen by a hash "
            "of their ids; --seed shows more of one seed."
        )
    if answers.cut:
        told.append(f"{answers.cut} prompts and answers of more than {LONGEST} characters are shown without their end.")
    return told


def _marked(text: str) -> Markup:
    """A sentence in Markdown as HTML: bold and code, all else escaped."""
    bold = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", str(escape(text)))
    return Markup(re.sub(r"`(.+?)`", r"<code>\1</code>", bold))


def _json(document: Mapping[str, Any]) -> Markup:
    """JSON that can stand in a script element: no character of it can end the element or begin a comment."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)


def _inline(script: str) -> str:
    """A script that can stand in a page. ConfigError for one that would end its own element."""
    if re.search(r"</script|<!--", script, re.IGNORECASE):
        raise ConfigError("the plotting library cannot stand in a page; install the version of constraints.txt")
    return script


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
