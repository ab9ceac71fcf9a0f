"""Intervals, paired tests and verdicts."""
