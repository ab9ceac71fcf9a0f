"""What one sees in the plots of the attention search, and which of them a suite has."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evolora_core.report import StoredSuite
from evolora_core.searches.attention.known.registry import BASELINE, KNOWN
from evolora_core.searches.attention.pack import looks, plots, plotted
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


def test_an_interval_that_leaves_the_plot_has_an_arrow_and_what_lies_beyond_is_said() -> None:
    rows = [
        ("rope", 0.2, 0.1, 0.9, 0.2, 0.1, 0.21),
        ("alibi", 0.1, np.nan, np.nan, 0.1, -0.9, 0.11),
        ("uniform", -0.05, -0.06, -0.04, -5.0, -6.0, 0.1),
    ]
    names = ["arm", "gain", "lo", "hi", "predicted", "predicted_lo", "predicted_hi"]
    (panel,) = plots.prediction(pd.DataFrame(rows, columns=names).assign(size="xl")).axes
    arrows = [line for line in panel.lines if line.get_marker() in ("<", ">")]
    low, high = panel.get_xlim()
    found = [(line.get_marker(), *np.ravel(line.get_xdata()), *np.ravel(line.get_ydata())) for line in arrows]
    assert found == [(">", high, -0.13), ("<", low, 1.17)]
    assert [text.get_text().strip() for text in panel.texts] == ["← measured −0.05, predicted −5.00"]
    assert len(panel.containers) == 4  # bars, none of them of `uniform`
