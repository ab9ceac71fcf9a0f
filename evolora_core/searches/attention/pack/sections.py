"""The tables, plots and checks of a pack of the attention search. What has no rows is left out."""

from pathlib import Path

from evolora_core.report.compute import COMPUTE
from evolora_core.report.sections import PackPlot, PackTable, Sections
from evolora_core.searches.attention.pack import (
    best,
    closing,
    exhaustive,
    exhaustive_plots,
    facts,
    fidelities,
    plots,
    plotted,
    searched,
    tables,
)

SECTIONS = Sections(
    tables={
        "attention_table": PackTable(
            tables.arm_rows, (tables.arm_table, tables.cost_table), texts=("framework", "guards", "size")
        ),
        "comparisons": PackTable(tables.contrast_rows, (tables.contrast_table,), texts=("note", "size"), optional=True),
        "predictions": PackTable(tables.prediction_rows, (tables.prediction_table,), texts=("size",), optional=True),
        "fidelities": PackTable(
            fidelities.rank_rows, (fidelities.rank_table,), texts=("what", "cheap", "dear"), optional=True
        ),
        "candidates": PackTable(
            searched.candidate_rows, (searched.candidate_table,), texts=("first_reason",), optional=True
        ),
        "operators": PackTable(searched.operator_rows, (searched.operator_table,), texts=("operator",), optional=True),
        "ensembles": PackTable(searched.ensemble_rows, (searched.ensemble_table,), texts=("size",), optional=True),
        "ablations": PackTable(
            tables.ablation_rows, (tables.ablation_table,), texts=("gene", "choice", "size"), optional=True
        ),
        "table_replays": PackTable(
            exhaustive.replay_rows, (exhaustive.replay_table,), texts=("strategy", "reads"), optional=True
        ),
        "table_programs": PackTable(
            exhaustive.program_rows, (exhaustive.best_table,), texts=("says", "reason"), optional=True
        ),
        "table_ranks": PackTable(exhaustive.rank_rows, (exhaustive.rank_table,), texts=("what",), optional=True),
        "rates": PackTable(tables.rate_rows, (tables.rate_table,), texts=("size",), optional=True),
        "compute": COMPUTE,
    },
    plots={
        "gain": PackPlot(plotted.gains, plots.gain),
        "scaling": PackPlot(plotted.losses, plots.scaling),
        "prediction": PackPlot(plotted.foretold, plots.prediction),
        "progress": PackPlot(plotted.progress, plots.progress),
        "table_replays": PackPlot(exhaustive_plots.replay_curves, exhaustive_plots.replays),
        "table_programs": PackPlot(exhaustive_plots.table_points, exhaustive_plots.table_programs),
    },
    headline="attention_table",
    takeaway=tables.takeaway,
    checks=facts.checks,
    closing=closing.closing,
    closing_keys=closing.KEYS,
    template=Path(__file__).with_name("templates") / "README.md.j2",
    context=facts.context,
    further={best.FILE: best.program_file},
)
