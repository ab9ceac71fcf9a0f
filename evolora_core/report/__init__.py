"""Tables, plots and paper packs. Reads the store; nothing in the core depends on it."""

from evolora_core.report.pack import build, verify
from evolora_core.report.tables import Table, comparison_table, paper_table

__all__ = ["Table", "build", "comparison_table", "paper_table", "verify"]
