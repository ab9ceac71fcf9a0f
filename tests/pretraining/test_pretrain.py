"""A pretraining of a few steps is real, can be repeated bit for bit, and never meets a reserved prompt."""

import json
import re
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import torch
from random_host import SHAPE

from evolora_core.engine.artifacts import sha256
from evolora_core.errors import ConfigError
from evolora_core.language.families.canonical import reserved
from evolora_core.language.hosts.catalog import find_host
from evolora_core.language.hosts.host import load_host
from evolora_core.language.hosts.pretrain_config import Measurement, PretrainConfig, Schedule, pretrain_config
from evolora_core.language.hosts.tokenizer import build_tokenizer
from evolora_core.pretraining.card import write_card
from evolora_core.pretraining.data import (
    draw_measured,
    draw_reserved,
    draw_rows,
    encode_rows,
    micro_batches,
    read_mixture,
    that_fit,
)
from evolora_core.pretraining.results import CellAccuracy, PretrainReport
from evolora_core.pretraining.training import build_model, pace_at, pretrain

CONFIG = PretrainConfig(
    seed=3,
    threads=1,
    architecture=SHAPE,
    schedule=Schedule(steps=6, rows=16, micro_batches=2, muon_learning_rate=0.02, adamw_learning_rate=0.01),
    mixture={"code.format": {"short": 3, "medium": 1}, "math": {"short": 1, "long": 0}},
    measurement=Measurement(items_per_cell=2, max_new_tokens=8),
)

Told: TypeAlias = tuple[float, float, str]  # of progress


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[PretrainReport, list[Told]]:
    told: list[Told] = []
    report = pretrain(CONFIG, tmp_path_factory.mktemp("made") / "small", lambda *own: told.append(own))
    return report, told


def test_it_learns_and_reports(trained: tuple[PretrainReport, list[Told]]) -> None:
    report, told = trained
    assert [own[:2] for own in told] == [(step, 6) for step in range(1, 7)]
    losses = [float(text.removeprefix("loss ")) for *_, text in told]
    assert losses[-1] < losses[0]
    assert report.rows == 96 and report.tokens > 0 and report.flops > 0
    assert sum(cell.share for cell in report.accuracy) == pytest.approx(1)
    assert {cell.depth for cell in report.accuracy if cell.family == "math" and cell.share} == {"short"}


def test_a_place_that_cannot_be_written_costs_no_training(tmp_path: Path) -> None:
    (tmp_path / "small").touch()
    told: list[Told] = []
    with pytest.raises(ConfigError, match=r"small: cannot be made \(Not a directory\); name a new folder"):
        pretrain(CONFIG, tmp_path / "small", lambda *own: told.append(own))
    assert not told


def test_what_it_writes_is_a_host(trained: tuple[PretrainReport, list[Told]]) -> None:
    report, _ = trained
    host = load_host(str(report.folder))
    assert host.identity["weights_sha256"] == report.weights_sha256
    card = (report.folder / "README.md").read_text(encoding="utf-8")
    assert report.weights_sha256 in card and "| code.format | short | 60.0% | 2 |" in card
    assert PretrainConfig(**json.loads((report.folder / "pretrain.json").read_text(encoding="utf-8"))) == CONFIG
    assert not list(report.folder.parent.glob(".small-*"))


def test_same_config_same_weights(trained: tuple[PretrainReport, list[Told]], tmp_path: Path) -> None:
    again = pretrain(CONFIG, tmp_path / "again")
    assert again.weights_sha256 == trained[0].weights_sha256 == sha256(tmp_path / "again" / "model.safetensors")
    assert again.accuracy == trained[0].accuracy


def test_global_random_state_and_threads_are_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    build_model(SHAPE, seed=1)
    assert torch.get_num_threads() == threads
    pretrain(CONFIG.model_copy(update={"schedule": CONFIG.schedule.model_copy(update={"steps": 1})}), tmp_path / "x")
    assert torch.get_num_threads() == threads
    assert build_model(SHAPE, seed=1).lm_head.weight.equal(build_model(SHAPE, seed=1).lm_head.weight)
    assert torch.get_rng_state().equal(before)


def test_no_row_is_reserved_and_every_measured_item_is() -> None:
    mixture = read_mixture(CONFIG)
    rows = [item for step in range(40) for item in draw_rows(CONFIG, mixture, step)]
    assert len(rows) == 640 and not any(reserved(item.prompt) for item in rows)
    measured = draw_reserved(CONFIG, "math", "short")
    assert len(measured) == 2 and all(reserved(item.prompt) for item in measured)


def test_a_step_is_a_function_of_seed_and_step() -> None:
    mixture = read_mixture(CONFIG)
    assert draw_rows(CONFIG, mixture, 5) == draw_rows(CONFIG, mixture, 5) != draw_rows(CONFIG, mixture, 6)
    other = CONFIG.model_copy(update={"seed": 4})
    assert draw_rows(other, mixture, 5) != draw_rows(CONFIG, mixture, 5)


def test_micro_batches_hold_every_answer_token_once() -> None:
    tokenizer = build_tokenizer(256)
    rows = encode_rows(tokenizer, draw_rows(CONFIG, read_mixture(CONFIG), 0), 256)
    parts = list(micro_batches(rows, 3, tokenizer.pad_token_id))
    assert sum(len(ids) for ids, _, _ in parts) == len(rows)
    assert sum(len(targets) for _, _, targets in parts) == sum(len(answer) for _, answer in rows)
    for ids, positions, targets in parts:
        assert np.array_equal(ids.ravel()[positions + 1], targets)  # the next token of each position is its target


def test_pace_warms_up_and_decays() -> None:
    schedule = CONFIG.schedule.model_copy(update={"steps": 100, "warmup_steps": 10, "final_fraction": 0.1})
    pace = [pace_at(step, schedule) for step in range(100)]
    assert pace[0] == 0.1 and pace[9] == pace[10] == 1 and pace[99] == pytest.approx(0.1, abs=1e-3)
    assert pace[10:] == sorted(pace[10:], reverse=True)


def test_pace_of_a_cosine_cut_short_is_the_longer_one_so_far() -> None:
    longer = CONFIG.schedule.model_copy(update={"steps": 100})
    cut = longer.model_copy(update={"steps": 60, "decay_steps": 100})
    assert [pace_at(step, cut) for step in range(60)] == [pace_at(step, longer) for step in range(60)]


def test_pace_stays_at_the_end_of_a_decay_that_is_shorter_than_the_training() -> None:
    schedule = CONFIG.schedule.model_copy(update={"steps": 100, "decay_steps": 60, "final_fraction": 0.1})
    pace = [pace_at(step, schedule) for step in range(100)]
    assert pace[60:] == [pytest.approx(0.1)] * 40


def test_mixture_faults_are_named() -> None:
    with pytest.raises(ConfigError, match=r"pretrain\.mixture\.math\.shrot: unknown depth \(did you mean 'short'\?\)"):
        read_mixture(CONFIG.model_copy(update={"mixture": {"math": {"shrot": 1.0}}}))
    with pytest.raises(ConfigError, match="mth"):
        read_mixture(CONFIG.model_copy(update={"mixture": {"mth": {"short": 1.0}}}))


def test_a_family_under_two_names_stands_twice() -> None:
    twice = {"regex": {"short": 1.0}, "regex.synthesis": {"short": 1.0}}
    with pytest.raises(ConfigError, match=r"pretrain\.mixture\.regex\.synthesis: stands twice"):
        read_mixture(CONFIG.model_copy(update={"mixture": twice}))
    assert (
        read_mixture(CONFIG.model_copy(update={"mixture": {"regex": {"short": 1.0}}})).cells[0][0] == "regex.synthesis"
    )


def test_what_does_not_fit_the_context_is_not_measured(caplog: pytest.LogCaptureFixture) -> None:
    short = CONFIG.model_copy(update={"architecture": SHAPE.model_copy(update={"context": 128})})
    tokenizer, items = build_tokenizer(128), draw_measured(short)
    kept = that_fit(tokenizer, items, short)
    assert 0 < len(kept) < len(items) and f"{len(items) - len(kept)} of {len(items)} reserved prompts" in caplog.text
    room = 128 - short.measurement.max_new_tokens
    longest = max(len(prompt) for prompt, _ in encode_rows(tokenizer, kept, 10**6))
    assert longest <= room < max(len(prompt) for prompt, _ in encode_rows(tokenizer, items, 10**6))


def test_context_too_short_is_named(tmp_path: Path) -> None:
    short = CONFIG.model_copy(update={"architecture": SHAPE.model_copy(update={"context": 64})})
    long = short.model_copy(update={"mixture": {"word.count": {"long": 1.0}}})
    with pytest.raises(ConfigError, match="context: 64 is too short for a prompt of word.count:long"):
        pretrain(long, tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_a_training_that_diverges_ends_where_it_does(tmp_path: Path) -> None:
    wild = {"steps": 40, "rows": 4, "muon_learning_rate": 10.0, "weight_decay": 10.0}  # ×(1 − 100) a step
    told: list[Told] = []
    with pytest.raises(ConfigError, match=r"pretrain\.schedule: the loss is not finite at step \d+; lower"):
        schedule = CONFIG.schedule.model_copy(update=wild)
        pretrain(CONFIG.model_copy(update={"schedule": schedule}), tmp_path / "x", lambda *own: told.append(own))
    assert len(told) < 40 and not (tmp_path / "x").exists()


@pytest.mark.parametrize("name", ["nano", "nano-regex"])
def test_the_shipped_card_is_what_the_code_would_write(name: str, tmp_path: Path) -> None:
    """All but the figures of the run: the same words and the same config."""
    folder = find_host(name).path
    config = pretrain_config(name)
    assert config == PretrainConfig(**json.loads((folder / "pretrain.json").read_text(encoding="utf-8")))
    report = PretrainReport(folder, "0" * 64, 0, 0, 0, 0, 0, 0.0, (CellAccuracy("math", "short", 1, 1, 0.0, 1.0),))
    write_card(tmp_path / "README.md", config, report)
    made, shipped = ((place / "README.md").read_text(encoding="utf-8") for place in (tmp_path, folder))
    assert _words(made) == _words(shipped)


def _words(card: str) -> str:
    """The card up to its tables of accuracy, without hashes and numbers."""
    return re.sub(r"[0-9a-f]{64}|[\d.,]+(e[+-]\d+)?", "", card.split("| family |")[0])
