"""Spaces of recipes that a strategy searches: one file each."""
