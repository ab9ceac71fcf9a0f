"""A pack of adapters without its plots, which take most of the time."""

from dataclasses import replace

from evolora_core.searches.adapters.pack.sections import SECTIONS

TABLES_ALONE = replace(SECTIONS, plots={})
