"""Evolora's science: everything that can be computed without an orchestrator."""

__version__ = "0.1.0"
