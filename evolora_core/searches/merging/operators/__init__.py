"""Operators that merge models, tensor by tensor: one file a kind."""
