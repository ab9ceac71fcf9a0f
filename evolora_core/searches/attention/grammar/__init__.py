"""Grammars: what a program of each framework may be made of, gene by gene, and how that is written as code."""
