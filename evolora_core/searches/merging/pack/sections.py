"""The tables, plots and checks of a pack of the merge search. What has no rows is left out."""

from dataclasses import replace
from pathlib import Path

from evolora_core.report.comparisons import COMPARISON_PLOT, COMPARISONS
from evolora_core.report.not_run import NOT_RUN
from evolora_core.report.sections import PackPlot, PackTable, Sections
from evolora_core.searches.merging.pack import facts, landscape, landscape_plots, law, plots, plotted, tables

_RECIPE_TEXTS = ("space", "genome", "genome_id", "note")
_REGRET_TEXTS = ("strategy", "share_reads", "ratio_reads")

SECTIONS = Sections(
    tables={
        "merge_table": PackTable(tables.merge_rows, (tables.merge_table,), texts=("space",)),
        "not_run": NOT_RUN,
        "merge_domains": PackTable(tables.domain_rows, (tables.domain_table,), optional=True),
        "comparisons": replace(COMPARISONS, optional=True),
        "parents": PackTable(tables.parent_rows, (tables.parent_table,), optional=True),
        "recipes": PackTable(tables.recipe_rows, (tables.recipe_table,), texts=_RECIPE_TEXTS, optional=True),
        "candidates": PackTable(
            tables.candidate_rows, (tables.candidate_table,), texts=("first_reason",), optional=True
        ),
        "compute": PackTable(tables.cost_rows, (tables.cost_table,), optional=True),
        "landscape_marks": PackTable(
            landscape.mark_rows, (landscape.mark_table,), texts=("what", "genes"), optional=True
        ),
        "regret": PackTable(landscape.regret_rows, (landscape.regret_table,), texts=_REGRET_TEXTS, optional=True),
        "law_fits": PackTable(law.fit_rows, (law.fit_table,), optional=True),
        "law_points": PackTable(law.point_rows, (law.point_table,), optional=True),
    },
    plots={
        "test_by_arm": PackPlot(plotted.arm_points, plots.test_by_arm),
        "domains": PackPlot(plotted.domain_points, plots.domains),
        "comparisons": COMPARISON_PLOT,
        "progress": PackPlot(plotted.progress_lines, plots.progress),
        "search_against_test": PackPlot(plotted.overfitting_points, plots.search_against_test),
        "diversity": PackPlot(plotted.diversity_lines, plots.diversity),
        "landscape": PackPlot(landscape_plots.landscape_points, landscape_plots.landscape),
        "regret": PackPlot(landscape_plots.regret_curves, landscape_plots.regret),
        "law": PackPlot(law.law_points, law.law),
    },
    headline="merge_table",
    checks=facts.checks,
    provenance=facts.provenance,
    template=Path(__file__).with_name("templates") / "README.md.j2",
)
