"""Benchmarks, a module each: what `evolora bench NAME` measures."""
