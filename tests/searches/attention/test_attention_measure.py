"""Evaluations in real child processes: what is measured, what is refused and how, and that the run goes on."""

import json
import math
import os
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from confinement import confined
from safetensors.torch import load_file, save_file
from searches.attention.attention_attacks import BLOCKS_OF_64, HONEST, MORE_WORK, ROWS_OF_16, program

from evolora_core.sandbox.limits import Limits
from evolora_core.sandbox.run import Outcome, Sandbox
from evolora_core.sandbox.untrusted import Unreadable
from evolora_core.searches.attention.corpus import text
from evolora_core.searches.attention.corpus.base import Corpus, save
from evolora_core.searches.attention.corpus.registry import make_corpus
from evolora_core.searches.attention.corpus.settings import CorpusSettings
from evolora_core.searches.attention.frameworks.registry import FRAMEWORKS
from evolora_core.searches.attention.host import training
from evolora_core.searches.attention.host.flops import cost_of_step
from evolora_core.searches.attention.host.model import build
from evolora_core.searches.attention.host.sizes import SIZES, non_embedding
from evolora_core.searches.attention.host.training import TrainSpec, train
from evolora_core.searches.attention.judging import job
from evolora_core.searches.attention.judging.loading import load_program
from evolora_core.searches.attention.judging.measure import (
    CHILD,
    Contract,
    Measured,
    _measured,
    _steps,
    baseline_costs,
    check,
    measure,
)
from evolora_core.searches.attention.programs.rejection import LADDER

pytestmark = confined

CONTEXT = 24
SPEC = TrainSpec(steps=20, batch=4, context=CONTEXT, rate=5e-3, warmup=2)
LIMITS = Limits(seconds=60, memory=1 << 30, file_bytes=1 << 24)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    """Texts of a Markov source."""
    settings = CorpusSettings(shares={"markov": 1.0}, train=200, held_out=90, context=CONTEXT)
    return make_corpus(settings, seed=1)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """One nursery for all of these tests: whatever one program does, the next is measured."""
    with Sandbox((CHILD,)) as made:
        yield made


def measured(
    sandbox: Sandbox, source: str, corpus: Corpus, folder: Path, limits: Limits = LIMITS, seed: int = 0
) -> Measured:
    """A program at the smallest size."""
    return measure(sandbox, source, SIZES["xs"], SPEC, corpus, seed, folder, limits)


def test_a_program_is_measured(sandbox: Sandbox, corpus: Corpus, tmp_path: Path) -> None:
    found = measured(sandbox, HONEST, corpus, tmp_path / "one")
    assert found.rejection is None and found.losses is not None and found.losses.shape == (90,)
    assert found.losses.dtype == np.float64 and 0 < found.losses.mean() < math.log(corpus.vocab)
    model = build(load_program(HONEST), SIZES["xs"], corpus.vocab, seed=0)
    assert found.parameters == non_embedding(model) and found.flops > 1e6 and 0 < found.cpu_seconds < 60
    assert not [path for path in (tmp_path / "one").iterdir() if path.suffix == ".safetensors"]
    again = measured(sandbox, HONEST, corpus, tmp_path / "again")
    other = measured(sandbox, HONEST, corpus, tmp_path / "other", seed=1)
    assert again.losses is not None and other.losses is not None
    assert np.array_equal(found.losses, again.losses)
    assert not np.array_equal(found.losses, other.losses)


def test_work_that_hides_counts(sandbox: Sandbox, corpus: Corpus, tmp_path: Path) -> None:
    """Behind a gate that is shut until it is trained, where the ladder does not see it, and in layers of torch."""
    plain = measured(sandbox, HONEST, corpus, tmp_path / "plain")
    found = measured(sandbox, WORKS_ONCE_TRAINED, corpus, tmp_path / "more")
    assert found.rejection is None and found.flops > 3 * plain.flops
    layers = measured(sandbox, LAYERS_OF_TORCH, corpus, tmp_path / "layers")  # which have shortcuts in evaluation
    assert layers.rejection is None and layers.flops > 2 * plain.flops
    assert plain.flops == cost_of_step(load_program(HONEST), SIZES["xs"], corpus.vocab, SPEC.batch, CONTEXT).flops


def test_no_held_out_source_is_in_a_child_s_memory(sandbox: Sandbox) -> None:
    """Modules of the standard library carry their docstrings, which is text of the corpus."""
    root = Path(sysconfig.get_path("stdlib")).resolve()
    loaded = {Path(name) for name in sandbox.loaded}
    held_out = {root / name for name in text.sources() if text.may_be_held_out(name)}
    assert len(held_out) > 100 and root / "inspect.py" in loaded and not loaded & held_out
    assert not [name for name in sandbox.loaded if "pydoc_data" in name]


LOOP = program(before="while self.training:\n    pass")
GREEDY = program(before="waste = torch.ones(3 * 2**28) if self.training else 0")
BLIND = program(after="y = y if self.training else y * math.nan")
FRAGILE = program(after="y = y if self.training else y[:, :-1]")
LEAK = program(before="v = v + v.mean(dim=2, keepdim=True)")
OPENS = program(
    "self.one = nn.Parameter(torch.ones(1))",
    before="v = v + (self.one != 1) * v.mean(dim=2, keepdim=True).detach() + self.one - 1",
)
ROWS = program(before=ROWS_OF_16)
ROWS_ANSWERED = program(before=ROWS_OF_16.replace("b % 16 == 0", "b == 90 and not self.training"))
ROWS_TRAINED = program(before=ROWS_OF_16.replace("b % 16 == 0", "b == 4 and torch.is_grad_enabled()"))
PATCH = program(before="F.layer_norm = lambda x, *rest: x")
KEEPS = program("self.kept = []", before="if self.training and b == 4:\n    self.kept.append(t)")
KEEPS_ON_A_TENSOR = program(
    "self.value.weight.kept = []",
    before="w = self.value.weight\nif self.training and t > 17:\n    w.kept.append(x.detach().clone())",
    after="y = y if self.training else y + 0.1 * len(w.kept)",
)
KEEPS_AMONG_HOOKS = program(
    before="kept = self._load_state_dict_pre_hooks\nif self.training and t > 17:\n    kept[len(kept)] = x.detach()",
    after="y = y if self.training else y + 0.1 * len(kept)",
)
ANSWERS_AT_LENGTH = program(after=MORE_WORK.format("not (self.training and t > 17)"))
TRAINS_ON_WHAT_COMES = program(
    "self.gate = nn.Parameter(torch.zeros(1))",
    before="later = F.pad(v, (0, 0, 0, 1))[:, :, 1:]\nv = v + self.gate * (later if self.training else v)",
)
WORKS_ONCE_TRAINED = program(
    "self.gate = nn.Parameter(torch.zeros(1))",
    after="y = y + self.gate * x" + MORE_WORK.format("self.gate.item() != 0"),
)
LAYERS_OF_TORCH = program(
    "self.side = nn.MultiheadAttention(dim, heads, batch_first=True).eval()",
    before="with torch.no_grad():\n    for _ in range(20):\n        x = x + 0 * self.side.eval()(x, x, x)[0]",
)
REFUSED_OF_ANOTHER_KIND = (  # than the stage of the ladder at which they are
    (HONEST.replace("class Attention(nn.Module)", "class Attention"), "signature", "no class Attention that is an nn"),
    (f"return 3\n{HONEST}", "syntax", "'return' outside function"),
    (program(before="waste = torch.ones(3 * 2**28)"), "memory", "more memory than it may"),
)
REFUSED = {
    "an endless loop": (LOOP, "timeout", ""),
    "3 GB": (GREEDY, "memory", "more memory than it may"),
    "NaN once it is trained": (BLIND, "train", "NaN or infinity"),
    "another shape once it is trained": (FRAGILE, "train", "size of tensor"),
    "a leak that the ladder has not seen": (LEAK, "causality", "position 0 depends on position"),
    "a leak that training opens": (OPENS, "causality", "position 0 depends on position"),
    "a leak that training opens and answers do not have": (TRAINS_ON_WHAT_COMES, "shapes", "once it is trained"),
    "other rows where a batch is as large as the answers'": (ROWS_ANSWERED, "shapes", "another without other rows"),
    "other rows where a batch is as large as in training": (ROWS_TRAINED, "shapes", "another without other rows"),
    "a torch that is changed while it trains": (PATCH, "train", "torch.nn.functional.layer_norm"),
    "what it keeps where the ladder does not look": (KEEPS, "train", "attribute 0.kept; nothing may be kept"),
    "what it keeps on a parameter": (KEEPS_ON_A_TENSOR, "train", "attributes of 0.value.weight; nothing may be kept"),
    "what it keeps among torch's hooks": (
        KEEPS_AMONG_HOOKS,
        "train",
        "attribute 0._load_state_dict_pre_hooks; nothing",
    ),
    "more work to answer than in training": (ANSWERS_AT_LENGTH, "cost", "in evaluation takes"),
    "no class": ("x = 1", "signature", "no class Attention"),
    "a builtin that reads files": (program(before='open("/etc/passwd")'), "build", "name 'open' is not defined"),
    "a module that opens sockets": ("import socket\n" + HONEST, "build", "not socket"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_fails_has_no_score_and_the_next_is_measured(
    name: str, sandbox: Sandbox, corpus: Corpus, tmp_path: Path
) -> None:
    source, stage, says = REFUSED[name]
    limits = Limits(seconds=1.5, memory=1 << 30, file_bytes=1 << 24) if stage == "timeout" else LIMITS
    found = measured(sandbox, source, corpus, tmp_path / "bad", limits)
    assert found.losses is None and found.rejection is not None
    assert found.rejection.stage == stage, found.rejection
    assert says in str(found.rejection), found.rejection


def test_the_answers_lie_where_no_child_reads(sandbox: Sandbox, corpus: Corpus, tmp_path: Path) -> None:
    """Past the ladder and past `open`: torch itself is asked for what lies outside of the child's folder."""
    save(corpus, tmp_path / "corpus")
    for path in (tmp_path / "corpus" / "texts.safetensors", Path("/etc/passwd"), Path(os.__file__)):
        reads = program(before=f"torch.from_file({str(path)!r}, size=16, dtype=torch.uint8)")
        free = measured(sandbox, reads.replace(str(path), "program.py"), corpus, tmp_path / "own")
        assert free.rejection is None, free.rejection  # its own folder is open to it
        found = measured(sandbox, reads, corpus, tmp_path / "bad")
        assert found.rejection is not None and "Permission denied" in found.rejection.reason, found.rejection


def test_the_ladder_is_climbed_in_a_child(sandbox: Sandbox, tmp_path: Path) -> None:
    sizes = (SIZES["xs"],)
    contract = Contract(sizes, 16, 128, baseline_costs(sizes, 16, 128))
    name = "matrix-mixer"
    good = check(sandbox, FRAMEWORKS[name].source, name, contract, tmp_path / "good", LIMITS)
    assert good.rejection is None and [step.stage for step in good.steps] == list(LADDER)
    assert all(step.passed for step in good.steps) and good.cpu_seconds > 0
    bad = check(sandbox, program(before=BLOCKS_OF_64), None, contract, tmp_path / "bad", LIMITS)
    assert bad.rejection is not None and bad.rejection.stage == "causality"
    assert "depends on position" in bad.rejection.place and len(bad.steps) == LADDER.index("causality") + 1
    for source, stage, says in REFUSED_OF_ANOTHER_KIND:
        other = check(sandbox, source, None, contract, tmp_path / stage, LIMITS)
        assert other.rejection is not None and other.rejection.stage == stage and says in other.rejection.reason
    limits = Limits(seconds=1.5, memory=1 << 30, file_bytes=1 << 24)
    late = check(sandbox, LOOP, None, contract, tmp_path / "late", limits)
    assert late.rejection is not None and late.rejection.stage == "timeout"
    assert late.rejection.place == "at the stage shapes" and len(late.steps) == LADDER.index("shapes")


def test_what_a_killed_training_took_counts(
    sandbox: Sandbox, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its limit, and in what is charged."""
    monkeypatch.setattr(training, "SAVED", 8)

    def measured_after(seconds: float | None) -> Measured:
        folder = tmp_path / str(seconds)
        folder.mkdir()
        if seconds is not None:
            model = build(load_program(HONEST), SIZES["xs"], corpus.vocab, seed=0)
            train(model, corpus.train, SPEC, 0, state=folder / job.STATE)
            state = load_file(folder / job.STATE)
            assert 0 < float(state["seconds"]) < 60 and len(state["losses"]) == 16
            save_file(state | {"seconds": torch.tensor([seconds], dtype=torch.float64)}, folder / job.STATE)
        return measured(sandbox, HONEST, corpus, folder)

    whole, later = measured_after(None), measured_after(20.0)
    assert whole.losses is not None and later.losses is not None and np.array_equal(whole.losses, later.losses)
    assert 20 < later.cpu_seconds < 20 + LIMITS.seconds and whole.cpu_seconds < 20
    for seconds in (59.999, 1e9, math.inf):
        late = measured_after(seconds)
        assert late.rejection is not None and str(late.rejection) == "timeout: more than 60 s"
    for seconds in (-5.0, math.nan):
        assert measured_after(seconds).cpu_seconds < 20


def outcome(status: str = "ok") -> Outcome:
    """As a sandbox reports it."""
    return Outcome(status, "", 1.0, 1.0, 1)  # type: ignore[arg-type]


def left(folder: Path, corpus: Corpus, **changes: object) -> Measured:
    """What is made of a result that a child has written itself."""
    good = {"status": "ok", "parameters": 5, "flops_step": 7, "steps": 20}
    (folder / job.RESULT).write_text(json.dumps(good | changes))
    return _measured(outcome(), corpus, SPEC, folder)


def test_a_forged_result_is_no_result(corpus: Corpus, tmp_path: Path) -> None:
    assert "no result" in str(left(tmp_path, corpus).rejection)  # there are no logits
    save_file({"logits": torch.zeros(90, corpus.vocab)}, tmp_path / job.LOGITS)
    assert left(tmp_path, corpus).losses is not None
    for changes in (
        {"parameters": -1}, {"parameters": True}, {"flops_step": 1e9}, {"steps": 19}, {"steps": 2**70},
        {"flops_step": 2**61}, {"flops_step": 2**50}, {"status": "fine"}, {"status": "rejected", "stage": "none"},
    ):  # fmt: skip
        found = left(tmp_path, corpus, **changes)
        assert found.losses is None and found.rejection is not None, changes
    for name in ("parameters", "flops_step"):  # whose logarithms and ratios are taken later
        found = left(tmp_path, corpus, **{name: 0})
        assert found.losses is None and "cost: the child says that it has no" in str(found.rejection)
    assert left(tmp_path, corpus, flops_step=2**48).flops == 2**48  # more than any size takes
    assert "more than can be counted" in str(left(tmp_path, corpus, flops_step=2**50).rejection)
    save_file({"logits": torch.full((90, corpus.vocab), math.nan)}, tmp_path / job.LOGITS)
    assert "not finite" in str(left(tmp_path, corpus).rejection)
    save_file({"logits": torch.zeros(91, corpus.vocab)}, tmp_path / job.LOGITS)
    assert left(tmp_path, corpus).losses is None
    (tmp_path / job.LOGITS).unlink()
    (tmp_path / job.LOGITS).symlink_to(tmp_path / "elsewhere")
    assert left(tmp_path, corpus).losses is None
    assert _measured(outcome("killed"), corpus, SPEC, tmp_path).rejection is not None


def test_forged_steps_end_where_they_stop_making_sense() -> None:
    good = {"stage": "syntax", "passed": True, "reason": "", "place": "", "seconds": 0.1}
    assert [step.stage for step in _steps({"steps": [good, {**good, "stage": "smoke"}]})] == ["syntax"]
    assert not _steps({"steps": "all"}) and not _steps({"steps": [{**good, "passed": 1}]})[0].passed
    assert len(_steps({"steps": [{**good, "reason": "x\n" * 9999}]})[0].reason) == 500
    with pytest.raises(Unreadable, match="no number"):
        _steps({"steps": [{**good, "seconds": "soon"}]})
    with pytest.raises(Unreadable, match="no number"):
        _steps({"steps": [{**good, "seconds": 10**400}]})
    assert _steps({"steps": [{**good, "reason": "half \ud83d"}]})[0].reason == "half ?"
