import dataclasses

import pytest
import torch

from evolora_core.ecology.calibration import Calibration, calibrate
from evolora_core.hosts import Room


@pytest.fixture
def tight(small):
    """A machine on which 40 rows of answers and 120 tokens of training fit, by the real allocator's own error."""

    def allocate(module, arguments, options):
        rows, tokens = options["input_ids"].shape
        if rows * tokens > 120 if torch.is_grad_enabled() else rows > 40:
            torch.empty(2**60)  # more than any machine has

    hook = small.host.model.register_forward_pre_hook(allocate, with_kwargs=True)
    yield
    hook.remove()


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
