"""Pretraining of our own small hosts."""
