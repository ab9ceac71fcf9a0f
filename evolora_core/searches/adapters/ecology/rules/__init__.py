"""Learning rules: how an organelle's own weights change from its episodes. A rule is one file here, with a `RULE`.

A rule's module is imported only where it is asked for by its name: what other rules do is no part of what a run with
this one computes. Nothing else may import it.
"""
