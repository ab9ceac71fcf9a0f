"""Regimes: how the organelles of a run live together. Each is one file here, with a `REGIME`."""
