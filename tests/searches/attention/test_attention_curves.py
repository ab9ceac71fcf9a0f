"""Measured losses as files and arrays, and the halves of the held-out texts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from evolora_core.searches.attention.chosen import leave, read_chosen
from evolora_core.searches.attention.corpus.base import Corpus
from evolora_core.searches.attention.curves import Curve, joined, load_curve, losses_of, ratios, save_curve
from evolora_core.searches.attention.measuring import loss_rows
from evolora_core.searches.attention.panel import select
from evolora_core.searches.attention.seeds import fresh_seeds, selection_seeds
from evolora_core.searches.attention.tuning import _TUNING as TUNING

CELLS = [("xs", 0), ("s", 0), ("m", 10), ("xs", 10), ("xs", 2)]  # in no order of the alphabet or of numbers


def curve(cells: list[tuple[str, int]] | None = None, shift: float = 0.0) -> Curve:
    """Losses of five texts."""
    found = Curve()
    for size, seed in CELLS if cells is None else cells:
        found.n[size], found.flops[size] = 100 * len(size) + ord(size[0]), 7 * ord(size[0])
        rng = np.random.default_rng([seed, ord(size[0]), len(size)])
        found.texts[size, seed] = (rng.uniform(1, 3, 5) + shift).astype(np.float32)
        found.seconds[size, seed] = seed + 0.25
    return found


def same(one: Curve, other: Curve) -> None:
    """Equal in values, types and the order of cells, in which rows of tables are written."""
    assert (one.n, one.flops) == (other.n, other.flops)
    assert [*one.texts] == [*other.texts] and [*one.seconds.items()] == [*other.seconds.items()]
    assert all(own.dtype == np.float32 and np.array_equal(own, other.texts[cell]) for cell, own in one.texts.items())


def test_a_curve_is_read_as_it_was_written(tmp_path: Path) -> None:
    save_curve(curve(), tmp_path / "curve-12")
    assert {path.name for path in tmp_path.iterdir()} == {"curve-12.json", "curve-12.safetensors"}
    found = load_curve(tmp_path / "curve-12")
    same(found, curve())
    assert loss_rows("p", found, "test") == loss_rows("p", curve(), "test")


@pytest.mark.parametrize("genome", [None, {"a": "b"}])
def test_what_was_chosen_is_read_as_it_was_left(genome: dict[str, str] | None, tmp_path: Path) -> None:
    leave(tmp_path, "x = 'ν'\n", curve(), "matrix-mixer", genome)
    found = read_chosen(tmp_path)
    assert (found.source, found.framework, found.genome) == ("x = 'ν'\n", "matrix-mixer", genome)
    same(found.curve, curve())


def test_joined_has_the_cells_of_all() -> None:
    first, second = curve(CELLS[:2]), curve(CELLS[2:])
    same(joined([first, second]), curve())
    assert [*first.texts] == CELLS[:2]  # and changes none of them
    same(joined([]), Curve())


def test_losses_are_placed_and_what_is_missing_is_nan() -> None:
    curves = {"mha": curve(), "other": curve([("xs", 0), ("m", 10)], shift=0.5)}
    found = losses_of(curves, ["xs", "s", "m"], [0, 10], with_texts=True)
    assert (found.programs, found.sizes, found.seeds) == (["mha", "other"], ["xs", "s", "m"], [0, 10])
    assert found.texts is not None and found.texts.shape == (2, 3, 2, 5)
    measured = [[[1, 1], [1, 0], [0, 1]], [[1, 0], [0, 0], [0, 1]]]
    assert np.isfinite(found.values).astype(int).tolist() == measured
    assert np.isfinite(found.texts).all(axis=3).astype(int).tolist() == measured
    assert np.isfinite(found.n).astype(int).tolist() == [[1, 1, 1], [1, 0, 1]]
    assert found.n[0].tolist() == [curves["mha"].n[size] for size in ("xs", "s", "m")]
    assert found.values[1, 2, 1] == pytest.approx(float(np.mean(curves["other"].texts["m", 10], dtype=np.float64)))
    assert found.values[1, 2, 1] - found.values[0, 2, 1] == pytest.approx(0.5, abs=1e-6)
    assert losses_of(curves, ["xs"], [0]).texts is None


def test_ratios_are_of_the_sizes_that_both_have() -> None:
    own = Curve({}, {"xs": 30, "l": 5})
    assert ratios(own, Curve({}, {"xs": 20, "s": 1})) == {"xs": 1.5}


@given(st.integers(4, 41))
def test_the_halves_of_the_texts_are_disjoint_and_complete(count: int) -> None:
    texts = torch.arange(count * 5).reshape(count, 5)
    kinds = tuple("code" if number < count // 2 else "recall" for number in range(count))
    corpus = Corpus(count * 5, texts[:3], texts, torch.arange(count) % 4 + 1, kinds)
    halves = [select(corpus, split) for split in ("selection", "test")]
    rows = [{tuple(row) for row in half.texts.tolist()} for half in halves]
    assert not rows[0] & rows[1] and rows[0] | rows[1] == {tuple(row) for row in texts.tolist()}
    assert abs(len(rows[0]) - len(rows[1])) <= 1
    for half in halves:
        assert half.train is corpus.train and set(half.kinds) == set(kinds)
        for row, length, kind in zip(half.texts.tolist(), half.lengths.tolist(), half.kinds, strict=True):
            place = row[0] // 5
            assert (length, kind) == (int(corpus.lengths[place]), kinds[place])


@given(st.integers(0, 2**53 - 1), st.integers(0, 50))
def test_no_training_seed_serves_two_ends(run_seed: int, further: int) -> None:
    """Selection, judging and the tuning of rates, of this run seed and of the next, at the most that settings allow."""
    uses = [
        {*seeds, tuning}
        for run in (run_seed, run_seed + 1 + further)
        for seeds, tuning in [((*selection_seeds(run, 200), *fresh_seeds(run, 100)), 1000 * run + TUNING)]
    ]
    assert [len(own) for own in uses] == [301, 301] and not uses[0] & uses[1]
    assert max(uses[0]) < 2**63
