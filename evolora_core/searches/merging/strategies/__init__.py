"""Strategies that propose recipes: one file each."""
