import dataclasses

import pytest
import torch

from evolora_core.ecology.calibration import Calibration, calibrate
from evolora_core.hosts import Room
from evolora_core.population import generate, train


@pytest.fixture
def tight(monkeypatch):
    """A machine on which 40 answers and 120 tokens of training fit, by the real allocator's own error."""
    cache_for, token_losses = generate.cache_for, train._token_losses

    def allocate(wanted, room):
        if wanted > room:
            torch.empty(2**60)

    def cache(model, part, rows, *rest):
        allocate(rows, 40)
        return cache_for(model, part, rows, *rest)

    def losses(host, ids, labels):
        allocate(ids.numel(), 120)
        return token_losses(host, ids, labels)

    monkeypatch.setattr(generate, "cache_for", cache)
    monkeypatch.setattr(train, "_token_losses", losses)


def test_the_plan_is_found_once_and_fits(small, tight, tmp_path, caplog):
    host = dataclasses.replace(small.host, room=Room())
    found = calibrate(host, small.items, small.config, small.decoding, seed=0)
    assert found.batch_rows in (16, 32) and 0 < found.pass_share < 1
    found.save(tmp_path / "calibration.json")
    caplog.clear()
    fresh = dataclasses.replace(small.host, room=Room())
    Calibration.load(tmp_path / "calibration.json").plan(fresh)
    again = calibrate(fresh, small.items, small.config, small.decoding, seed=0)
    assert not caplog.records
    assert (again.batch_rows, again.pass_share, again.accuracy) == (found.batch_rows, found.pass_share, found.accuracy)


def test_what_was_tried_is_counted(small):
    rows = {row["purpose"]: row for row in small.calibration.meter["rows"]}
    assert rows["update"]["flops"] > 0 and rows["rollout"]["flops"] > 0
