"""Frozen host models: which there are, how they come here, how they are loaded and prompted. Imports no torch."""
