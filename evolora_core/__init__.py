"""Evolora's science: everything that can be computed without an orchestrator. Imports neither Prefect nor `flows` nor `tasks`."""

__version__ = "0.1.0"
