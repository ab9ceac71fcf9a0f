"""Tables, plots and paper packs of any search. Reads the store; a search says in `Sections` what its packs show."""

from evolora_core.report.contents import Contents
from evolora_core.report.other_forms import export
from evolora_core.report.pack import build, build_anew
from evolora_core.report.sections import PackPlot, PackTable, Sections
from evolora_core.report.stored import StoredSuite
from evolora_core.report.tables import Column, Table
from evolora_core.report.verification import renamed, verify

__all__ = [
    "Column",
    "Contents",
    "PackPlot",
    "PackTable",
    "Sections",
    "StoredSuite",
    "Table",
    "build",
    "build_anew",
    "export",
    "renamed",
    "verify",
]
