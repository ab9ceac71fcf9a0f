"""Tables, plots and paper packs. Reads the store; nothing in the core depends on it."""

from evolora_core.report.other_forms import export
from evolora_core.report.pack import build
from evolora_core.report.tables import Table, comparison_table, paper_table
from evolora_core.report.verification import verify

__all__ = ["Table", "build", "comparison_table", "export", "paper_table", "verify"]
