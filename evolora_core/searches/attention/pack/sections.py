"""The tables, plots and checks of a pack of the attention search. What has no rows is left out."""

from pathlib import Path

from evolora_core.report.compute import COMPUTE
from evolora_core.report.sections import PackPlot, PackTable, Sections
from evolora_core.searches.attention.pack import facts, plots, plotted, tables

SECTIONS = Sections(
    tables={
        "attention_table": PackTable(tables.arm_rows, (tables.arm_table,), texts=("framework", "guards", "size")),
        "contrasts": PackTable(tables.contrast_rows, (tables.contrast_table,), texts=("note", "size"), optional=True),
        "predictions": PackTable(tables.prediction_rows, (tables.prediction_table,), texts=("size",), optional=True),
        "ablations": PackTable(
            tables.ablation_rows, (tables.ablation_table,), texts=("gene", "choice", "size"), optional=True
        ),
        "candidates": PackTable(
            tables.candidate_rows, (tables.candidate_table,), texts=("first_reason",), optional=True
        ),
        "rates": PackTable(tables.rate_rows, (tables.rate_table,), texts=("size",), optional=True),
        "compute": COMPUTE,
    },
    plots={
        "gain": PackPlot(plotted.gains, plots.gain),
        "scaling": PackPlot(plotted.losses, plots.scaling),
        "progress": PackPlot(plotted.progress, plots.progress),
    },
    headline="attention_table",
    checks=facts.checks,
    template=Path(__file__).with_name("templates") / "README.md.j2",
)
