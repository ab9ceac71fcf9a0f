import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from evolora_core.engine import rng


def test_streams_are_fixed_for_ever() -> None:
    """A change here would change every published table."""
    assert rng.key(0, 1, 2, "act") == 12389047653318429426
    assert rng.stream(0, 0, 0, "a").integers(10**9) == 187470559


@given(st.integers(0, 2**31), st.integers(0, 100), st.integers(0, 100), st.text(max_size=5))
def test_every_part_of_the_name_matters(seed: int, generation: int, slot: int, role: str) -> None:
    keys = {
        rng.key(seed, generation, slot, role),
        rng.key(seed + 1, generation, slot, role),
        rng.key(seed, generation + 1, slot, role),
        rng.key(seed, generation, slot + 1, role),
        rng.key(seed, generation, slot, role + "x"),
        rng.key(seed, generation, slot, role, "x"),
    }
    assert len(keys) == 6


def test_a_row_does_not_depend_on_its_neighbours() -> None:
    keys = rng.row_keys(rng.key(3, 1, 0, "act"), 50)
    assert len(set(keys.tolist())) == 50
    together, alone = rng.uniforms(keys, 20), rng.uniforms(keys[7:8], 20)
    assert np.array_equal(together[7:8], alone)
    assert np.array_equal(together[:, :5], rng.uniforms(keys, 5))


def test_uniforms_are_uniform_and_rows_unrelated() -> None:
    draws = rng.uniforms(rng.row_keys(1, 400), 50)
    assert draws.min() >= 0 and draws.max() < 1
    assert stats.kstest(draws.ravel(), "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(draws[:-1].ravel(), draws[1:].ravel())[0, 1]) < 0.03
