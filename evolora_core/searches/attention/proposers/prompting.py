"""Writes the prompts: the framework and its rules, the programs to start from, and what was refused and why."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from evolora_core.searches.attention.frameworks.base import Framework
from evolora_core.searches.attention.programs.block import END, START, block_of
from evolora_core.searches.attention.programs.rejection import STAGES, Rejected
from evolora_core.searches.attention.proposers.answers import DIVIDE, REPLACE, SEARCH
from evolora_core.searches.attention.proposers.base import Request, Scored

PROMPTS = Path(__file__).parent / "prompts"


def system_prompt(framework: Framework) -> str:
    """What the model is asked to do, what may change, and the forms of an answer."""
    return _environment().get_template("system.md.j2").render(
        framework=framework, stages=STAGES, start=START, end=END, search=SEARCH, divide=DIVIDE, replace=REPLACE
    )  # fmt: skip


def user_prompt(request: Request, parent: Scored) -> str:
    """The programs of a request; `parent` is the one that edits change."""
    failures = [own for own in request.failures if own.rejection is not None]
    texts = [own for own in failures if own.source.strip()]  # an answer of which no program can be made has none
    return _environment().get_template("user.md.j2").render(
        parent=parent,
        others=[own for own in request.parents if own is not parent],
        failures=failures,
        last_failure=_block(texts[-1]) if texts else "",
        block=_block,
        score=_score,
    )  # fmt: skip


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(PROMPTS), undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip


def _block(program: Scored) -> str:
    """The block of a program; all of a text whose block cannot be found."""
    try:
        return block_of(program.source).strip("\n")
    except Rejected:
        return program.source.strip("\n")


def _score(program: Scored) -> str:
    return "no score yet" if program.score is None else f"the score {program.score:+.4f}"
