"""The tables, plots and sentences of a pack of the adapter search."""

from pathlib import Path

from evolora_core.report.comparisons import COMPARISON_PLOT
from evolora_core.report.compute import COMPUTE
from evolora_core.report.not_run import NOT_RUN
from evolora_core.report.sections import PackPlot, PackTable, Sections
from evolora_core.searches.adapters.pack import breakdowns, facts, paper, plots, plotted, tradeoffs
from evolora_core.searches.adapters.pack.attribution import found_frame, found_table, origin_frame, origin_table
from evolora_core.searches.adapters.pack.curves import curve_frame, curve_table
from evolora_core.searches.adapters.pack.donors import donor_frame, donor_table
from evolora_core.searches.adapters.pack.earnings import earning_lines, earnings
from evolora_core.searches.adapters.pack.holdout_files import holdout_frame, holdout_table
from evolora_core.searches.adapters.pack.paid import paid_frame, paid_table
from evolora_core.searches.adapters.pack.prices import price_frame, price_table
from evolora_core.searches.adapters.pack.robustness import (
    changes_by_form,
    robustness_frame,
    robustness_points,
    robustness_table,
)
from evolora_core.searches.adapters.pack.transfer import transfer_frame, transfer_table
from evolora_core.searches.adapters.pack.tuning import tuning_frame, tuning_table
from evolora_core.searches.adapters.pack.worst import worst_frame, worst_pairs_frame, worst_pairs_table, worst_table

SECTIONS = Sections(
    tables={
        "paper_table": PackTable(paper.paper_rows, (paper.paper_table, paper.economy_table), texts=("not_run",)),
        "not_run": NOT_RUN,
        "comparisons": PackTable(paper.comparison_rows, (paper.comparison_table,), texts=("note", "regime", "bare")),
        "worst_runs": PackTable(worst_frame, (worst_table,), optional=True),
        "worst_runs_compared": PackTable(worst_pairs_frame, (worst_pairs_table,), optional=True),
        "by_family": PackTable(breakdowns.family_rows, (breakdowns.family_table,)),
        "holdouts": PackTable(holdout_frame, (holdout_table,), optional=True),
        "by_routing": PackTable(breakdowns.routing_rows, (breakdowns.routing_table,)),
        "transfer": PackTable(transfer_frame, (transfer_table,), texts=("note",), optional=True),
        "robustness": PackTable(robustness_frame, (robustness_table,), texts=("chosen",), optional=True),
        "compute": COMPUTE,
        "prices": PackTable(price_frame, (price_table,), optional=True),
        "origins": PackTable(origin_frame, (origin_table,), optional=True),
        "found": PackTable(found_frame, (found_table,), optional=True),
        "donors": PackTable(donor_frame, (donor_table,), texts=("donor",), optional=True),
        "tuning": PackTable(tuning_frame, (tuning_table,), texts=("changes", "edge"), optional=True),
        "tuning_paid": PackTable(paid_frame, (paid_table,), texts=("ahead", "ahead_paid"), optional=True),
        "curve": PackTable(curve_frame, (curve_table,), optional=True),
    },
    plots={
        "accuracy_by_family": PackPlot(plotted.family_points, plots.accuracy_by_family, plotted.trained_splits),
        "gain_and_retention": PackPlot(plotted.gain_points, plots.gain_and_retention, plotted.informative_routings),
        "comparisons": COMPARISON_PLOT,
        "curve": PackPlot(curve_frame, tradeoffs.curve),
        "frontier": PackPlot(plotted.frontier_points, tradeoffs.frontier),
        "robustness": PackPlot(robustness_points, changes_by_form),
        "net_and_roi": PackPlot(plotted.net_and_roi_lines, plots.net_and_roi),
        "energy_and_population": PackPlot(plotted.energy_lines, plots.energy_and_population),
        "earnings": PackPlot(earning_lines, earnings),
        "lineage": PackPlot(plotted.lives, plots.lineage),
    },
    headline="paper_table",
    takeaway=paper.takeaway,
    remarks=facts.remarks,
    checks=facts.checks,
    provenance=facts.provenance,
    template=Path(__file__).with_name("templates") / "README.md.j2",
    context=facts.context,
)
