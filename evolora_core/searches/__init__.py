"""The searches, one package each; `base.py` says what a search has to bring."""
