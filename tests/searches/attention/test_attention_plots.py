"""What one sees in the plots of the attention search, and which of them a suite has."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evolora_core.report import StoredSuite
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.pack import looks, plotted
from evolora_core.searches.attention.pack.sections import SECTIONS


def test_every_mechanism_can_be_told_by_its_colour_and_mark() -> None:
    found = looks.looks_of([*KNOWN, "evolution"])
    peers = {name: found[name] for name, known in KNOWN.items() if name != BASELINE and not known.negative}
    assert len({(look.colour, look.marker) for look in peers.values()}) == len(peers) > 15
    assert {look.colour for look in peers.values()}.isdisjoint(looks.COLOURS)
    assert looks.looks_of(["rope"])["rope"] == found["rope"]  # the same in every plot
    assert found["rope"].width < found["evolution"].width


def test_a_suite_that_predicts_nothing_has_no_plot_of_predictions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = pd.DataFrame({"arm": ["rope", "alibi"], "gain": [0.2, 0.1], "predicted": [np.nan, 0.1]})
    for judged, shown in ((rows, rows), (rows.iloc[:1], rows.iloc[:0]), (pd.DataFrame(), pd.DataFrame())):
        monkeypatch.setattr(plotted, "judged", lambda _, judged=judged: judged)
        assert SECTIONS.plots["prediction"].read(StoredSuite(tmp_path, "none")).equals(shown)
