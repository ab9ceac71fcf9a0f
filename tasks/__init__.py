"""Prefect tasks: one for the stages of every search, which caches, retries and records; and pretraining."""
