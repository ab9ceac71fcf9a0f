"""Evolves attention mechanisms as programs, judged by how their loss falls as the model grows."""
