"""A law is read from a store as it was fitted."""

import math

from evolora_core.searches.attention.pack.closing import _law


def test_an_error_that_one_seed_cannot_tell_is_unknown_and_not_nothing() -> None:
    row = {"floor": 1.2, "floor_se": None, "bend": 0.01, "programs": "mha,rope"}
    law = _law(row)
    assert math.isnan(law.floor_se) and law.programs == ("mha", "rope")
    assert _law(row | {"floor_se": 0.1}).floor_se == 0.1
