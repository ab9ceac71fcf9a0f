"""Searches of a suite whose programs others write: a real server as the model, its record, and OpenEvolve."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from importlib import metadata
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from confinement import confined
from searches.attention.attention_server import completion, serving

from evolora_core.engine.home import home_path
from evolora_core.engine.meter import Meter
from evolora_core.engine.stage import StageResult, Step, Suite
from evolora_core.engine.strict import load_yaml, stated
from evolora_core.engine.tables import read_table
from evolora_core.errors import ConfigError, StageError
from evolora_core.sandbox import landlock
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.curves import Curve
from evolora_core.searches.attention.evolution import Run
from evolora_core.searches.attention.experiment import AttentionExperiment, check
from evolora_core.searches.attention.frameworks.registry import get_framework
from evolora_core.searches.attention.grammar.registry import get_grammar
from evolora_core.searches.attention.panel import Panel
from evolora_core.searches.attention.plan import plan
from evolora_core.searches.attention.programs.block import block_of
from evolora_core.searches.attention.proposers.grammar import GrammarProposer
from evolora_core.searches.attention.proposers.making import CALLS
from evolora_core.searches.attention.proposers.settings import ProposerSettings
from evolora_core.searches.attention.rival.loop import evolve
from evolora_core.searches.attention.settings import Bounds, Budget, Training
from evolora_core.searches.registry import suite_id
from tasks.stage import perform

FRAMEWORK = "coefficient-dynamics"
TINY: dict[str, Any] = {
    "search": "attention",
    "name": "asked",
    "seeds": [5],
    "conditions": ["mha"],
    "corpus": {"shares": {"text": 1.0}, "train": 64, "held_out": 48, "context": 32},
    "sizes": {"measured": ["xs", "s", "m"], "predicted": []},
    "training": {"steps": 6, "batch": 4, "warmup": 1, "rates": [0.004]},
    "budget": {"programs": 30, "together": 3, "parallel": 1, "finalists": 1, "finalist_seeds": 0},
    "ablation": {"sizes": []},
}
TABLES = ("candidates", "attention_programs", "proposer_calls")
USAGE = {"prompt_tokens": 900, "completion_tokens": 100}


def suite(*conditions: str, **changes: Any) -> AttentionExperiment:
    """A tiny suite with further conditions."""
    return AttentionExperiment(**(TINY | {"conditions": [*TINY["conditions"], *conditions]} | changes))


def asked(**proposer: Any) -> AttentionExperiment:
    """A suite with a condition that asks, eight times at most."""
    settings = {"max_tokens": 500, "calls": 8, "prices": {"prompt": 1.0, "completion": 10.0}} | proposer
    return suite("asked", arms={"asked": {"like": "evolution", "proposer": settings}})


def searched(config: AttentionExperiment, name: str) -> StageResult:
    """The search of a condition, after the stages that it needs."""
    made = Suite(config, suite_id(config))
    results: dict[str, StageResult] = {}
    for step in plan(made):
        if step.name.startswith("shared.") or step.stage.name in ("measure", "search"):
            needs: dict[str, Any] = {
                role: results[need.name] if isinstance(need, Step) else [results[own.name] for own in need or ()]
                for role, need in step.needs.items()
            }
            results[step.name] = perform(step.stage.request(**step.given, **needs), step.stage)
    return results[f"{name}.s5.search"]


# A model


def answer(**genes: str) -> str:
    """A whole block, as a model gives it."""
    grammar = get_grammar(FRAMEWORK)
    named = {name.replace("_", "-"): choice for name, choice in genes.items()}
    return f"Try this.\n```python\n{block_of(grammar.program(grammar.baseline() | named))}```\n"


TEMPLATE = get_framework(FRAMEWORK).source
LEAK = "        return q, k + k.mean(dim=2, keepdim=True), v"
LEAKING = f"```python\n{block_of(TEMPLATE).replace('        return q, k, v', LEAK)}```"
BROKEN = "```python\nclass Prepare(:\n```"
ANSWERS = [
    answer(position="rope"), "I would rather not.", LEAKING,
    BROKEN, answer(), answer(gate="silu"), answer(head_norm="norm"),
    answer(kernel="relu2"),
]  # fmt: skip


@dataclass
class Served:
    """A server on this machine: what it was asked, and how often it is out of order once it has answered four."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    faults: int = 1


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server that gives the answers in order."""
    state = Served()

    def answer(question: dict[str, Any], _: Message) -> tuple[int, Any]:
        if len(state.asked) == 4 and state.faults:
            state.faults -= 1
            return 400, {"error": {"message": "out of order"}}
        state.asked.append(question)
        return completion(ANSWERS[len(state.asked) - 1], USAGE)

    with serving(answer) as state.url:
        yield state


@pytest.fixture(scope="module")
def found(served: Served) -> Path:
    """The folder of a search that failed in its second generation, as its server did, and then went on."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVOLORA_LLM_URL", served.url)
        patch.setenv("EVOLORA_LLM_MODEL", "tiny")
        config = asked(kind="endpoint")
        check(config)
        with pytest.raises(StageError, match="out of order"):
            searched(config, "asked")
        assert len(served.asked) == 4  # one of them in the generation that was not committed
        (partial,) = home_path().glob("runs/asked/asked-s5/search/*.partial/calls.jsonl")
        with partial.open("a", encoding="utf-8") as file:
            file.write('{"model": "ti')  # as a killed process leaves it
        return searched(config, "asked").path


@pytest.mark.slow
@confined
def test_every_call_is_kept_and_the_budget_ends_the_search(found: Path, served: Served) -> None:
    assert len(served.asked) == 8  # none was asked twice, though the search was cut off
    candidates, calls = read_table(found, "candidates"), read_table(found, "proposer_calls")
    assert [row["candidate"] for row in calls] == [0, 1, 2, 3, 4, 4, 5, 6]
    assert [row["outcome"] for row in calls] == ["used", "unusable", *6 * ["used"]]
    assert {(row["model"], row["prompt_tokens"], row["completion_tokens"]) for row in calls} == {("tiny", 900, 100)}
    assert [row["usd"] for row in calls] == pytest.approx(8 * [0.0019])
    lines = [json.loads(line) for line in (found / CALLS).read_text(encoding="utf-8").splitlines()]
    assert [own["request_hash"] for own in lines] == [row["request_hash"] for row in calls]
    assert [own["response"] for own in lines] == ANSWERS
    assert [row["reject_stage"] for row in candidates][1:4] == ["syntax", "causality", "syntax"]
    assert [row["candidate"] for row in candidates] == list(range(7)) and candidates[0]["reject_stage"] != "syntax"
    assert [row["flops"] > 0 for row in candidates] == [True, False, True, False, True, True, True]
    programs = read_table(found, "attention_programs")
    assert programs[3]["source"] and len({row["program_id"] for row in programs}) == 6  # two have none
    told = served.asked[3]["messages"][1]["content"]
    assert "causality" in told and "neither SEARCH/REPLACE edits nor a code block" in told


def timeless(folder: Path, table: str) -> list[dict[str, Any]]:
    """Rows without processor time; how long a model took is recorded."""
    recorded = table == "proposer_calls"
    return [{k: v for k, v in row.items() if k != "seconds" or recorded} for row in read_table(folder, table)]


@pytest.mark.slow
@confined
def test_the_record_gives_the_same_candidates_without_a_model(
    found: Path, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVOLORA_LLM_URL", raising=False)
    record = tmp_path / "record.jsonl"
    record.write_bytes((found / CALLS).read_bytes())
    config = asked(kind="replay", recorded=str(record))
    check(config)
    again = searched(config, "asked").path
    assert again != found and len(served.asked) == 8
    for table in TABLES:
        assert timeless(again, table) == timeless(found, table), table
    for file in (CALLS, "program.py"):
        assert (again / file).read_bytes() == (found / file).read_bytes()
    moved = record.rename(tmp_path / "moved.jsonl")
    assert searched(asked(kind="replay", recorded=str(moved)), "asked").path == again  # where it lies decides nothing
    other = asked(kind="replay", recorded=str(moved), temperature=0.1)
    with pytest.raises(StageError, match="no recorded answer"):
        searched(other, "asked")


# What is refused before anything is computed


@confined
def test_who_cannot_be_asked_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVOLORA_LLM_URL", raising=False)
    record = tmp_path / "record.jsonl"
    with pytest.raises(ConfigError, match="EVOLORA_LLM_URL: set it"):
        check(asked(kind="endpoint", model="tiny"))
    with pytest.raises(ConfigError, match="record.jsonl: the recorded calls cannot be read"):
        check(asked(kind="replay", recorded=str(record)))
    record.write_text("\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="holds no recorded call"):
        check(asked(kind="replay", recorded=str(record)))
    monkeypatch.setenv("EVOLORA_LLM_URL", "http://127.0.0.1:1/v1")
    check(asked(kind="endpoint", model="tiny"))
    with pytest.raises(ConfigError, match="EVOLORA_LLM_MODEL: set it"):
        check(asked(kind="endpoint"))


def test_foreign_programs_are_refused_where_nothing_confines_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    record = str(tmp_path / "record.jsonl")
    for config in (asked(kind="endpoint"), asked(kind="replay", recorded=record), suite("openevolve")):
        with pytest.raises(ConfigError, match="that others write are not run here: the kernel has to offer Landlock"):
            check(config)
    check(suite("evolution"))


@pytest.mark.parametrize("shares", [{"recall": 1.0}, {"text": 0.5, "markov": 0.5}])
def test_foreign_programs_get_no_corpus_that_follows_from_its_seed(
    shares: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVOLORA_LLM_URL", "http://127.0.0.1:1/v1")
    corpus = TINY["corpus"] | {"shares": shares}
    check(suite("evolution", corpus=corpus))
    arms = {"asked": {"like": "evolution", "proposer": {"kind": "endpoint", "model": "tiny"}}}
    with pytest.raises(ConfigError, match="corpus.shares: asked runs programs that others write"):
        check(suite("asked", arms=arms, corpus=corpus))


@pytest.mark.parametrize(
    ("proposer", "words"),
    [
        ({"calls": 3}, "a grammar is asked for nothing else"),
        ({"kind": "replay"}, "kind replay needs `recorded`"),
        ({"kind": "endpoint", "recorded": "x"}, "kind replay needs `recorded`"),
        ({"kind": "endpoint", "usd": 1.0}, "without prices nothing costs money"),
        ({"kind": "openai"}, "kind"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(proposer: dict[str, Any], words: str, tmp_path: Path) -> None:
    file = tmp_path / "suite.yaml"
    file.write_text(yaml.safe_dump(TINY | {"proposer": proposer}), encoding="utf-8")
    with pytest.raises(ConfigError, match=words):
        load_yaml(file, AttentionExperiment)
    with pytest.raises(ValueError, match="OpenEvolve is given the grammar alone"):
        suite("openevolve", proposer={"kind": "endpoint"})
    arm = {"like": "openevolve", "proposer": {"kind": "grammar"}}
    assert suite("rival", arms={"rival": arm}, proposer={"kind": "endpoint"}).proposer_of("rival") is None


def test_the_grammar_leaves_no_trace_in_what_suites_and_stages_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVOLORA_LLM_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("EVOLORA_LLM_MODEL", "tiny")
    plain = suite("evolution")
    assert "proposer" not in stated(plain) and suite_id(plain) == suite_id(suite("evolution", proposer={}))
    config = asked(kind="endpoint")
    assert config.asked("asked") == (ProposerSettings(kind="endpoint", model="tiny", **_limits()), "")
    assert config.asked("mha") == plain.asked("evolution") == (None, "")
    assert plain.trusted("evolution") and not config.trusted("asked") and not suite("openevolve").trusted("openevolve")


def _limits() -> dict[str, Any]:
    return {"max_tokens": 500, "calls": 8, "prices": {"prompt": 1.0, "completion": 10.0}}


# OpenEvolve


def installed() -> bool:
    return find_spec("openevolve") is not None and metadata.version("openevolve").startswith("0.4.")


@pytest.fixture
def without_openevolve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution of that name comes first: an old one, whose module is missing."""
    (tmp_path / "openevolve.py").write_text("raise ModuleNotFoundError(\"No module named 'openevolve'\")\n")
    facts = tmp_path / "openevolve-0.1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: openevolve\nVersion: 0.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@confined
@pytest.mark.usefixtures("without_openevolve")
def test_openevolve_is_refused_where_it_is_not_installed() -> None:
    with pytest.raises(ConfigError, match=r"openevolve: needs OpenEvolve 0.4 .* pip install .* '.\[openevolve\]'"):
        check(suite("openevolve"))


@pytest.mark.usefixtures("without_openevolve")
def test_a_process_that_does_not_start_is_said_in_one_line(tmp_path: Path) -> None:
    run = Run(FRAMEWORK, TEMPLATE, Curve(), ("xs",), (5,), Budget(), 5, Meter())
    own, panel = GrammarProposer(get_grammar(FRAMEWORK)), cast(Panel, None)  # it measures nothing
    with pytest.raises(StageError, match="OpenEvolve ended with status 1: ModuleNotFoundError: .*'openevolve'"):
        evolve(own, panel, run, limit=1, checkpoints=tmp_path / "checkpoints", report=lambda *_: None)
    assert not run.past


STAND_IN = """
class OpenEvolve:
    def __init__(self, initial_program_path, **_):
        self.first = initial_program_path

    async def run(self, iterations):
        from evolora_core.searches.attention.rival.talk import ask

        with open(self.first) as file:
            ask({"measure": ask({"change": file.read()})["program"]})
"""
STAND_IN_CONFIG = """
from types import SimpleNamespace as LLMModelConfig


def Config():
    return LLMModelConfig(llm=LLMModelConfig(), evaluator=LLMModelConfig())
"""


def test_who_interrupts_openevolve_does_not_wait_for_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The training of the program that it asks for would take half an hour."""
    (tmp_path / "openevolve").mkdir()
    (tmp_path / "openevolve" / "__init__.py").write_text(STAND_IN)
    (tmp_path / "openevolve" / "config.py").write_text(STAND_IN_CONFIG)
    monkeypatch.syspath_prepend(str(tmp_path))
    corpus = make_corpus(CorpusSettings(shares={"markov": 1.0}, train=64, held_out=40, context=16), 1)
    training = Training(steps=1_000_000, batch=2, warmup=1, rates=[0.01])
    run = Run(FRAMEWORK, TEMPLATE, Curve({"xs": 1}, {"xs": 1}), ("xs",), (5,), Budget(), 5, Meter())

    def report(done: float, total: float, text: str = "", /) -> None:
        if any(sandbox._lock.locked() for sandbox in panel._sandboxes):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Panel(corpus, training, {"xs": 0.01}, Bounds(), trusted=True) as panel:
        own = GrammarProposer(get_grammar(FRAMEWORK))
        evolve(own, panel, run, limit=10**18, checkpoints=tmp_path / "checkpoints", report=report)
    assert not run.past


@pytest.mark.slow
@confined
@pytest.mark.skipif(not installed(), reason="needs the extra openevolve")
def test_openevolve_searches_with_our_grammar_and_evaluator() -> None:
    config = suite("openevolve", budget=TINY["budget"] | {"programs": 5})
    check(config)
    folder = searched(config, "openevolve").path
    candidates = read_table(folder, "candidates")
    assert all("=" in row["operator"] for row in candidates)  # a gene that the grammar changed
    spent = [row["flops"] for row in candidates]
    whole = max(spent)  # none of them was twice as large as another
    assert len(spent) >= 3 and sum(spent[:-1]) < 10 * whole
    grammar = get_grammar(FRAMEWORK)
    sources = [row["source"] for row in read_table(folder, "attention_programs")]
    for row, source in zip(candidates, sources, strict=True):
        genome = json.loads(row["genome"])
        assert source == grammar.program(genome) != TEMPLATE
    genomes = [row["genome"] for row in candidates]
    assert len(set(genomes)) == len(genomes)
    lineage = read_table(folder, "candidate_parents") if (folder / "candidate_parents.parquet").exists() else []
    assert all(row["parent"] < row["child"] for row in lineage)
    assert all(one < other for one, other in pairwise(row["candidate"] for row in candidates))
