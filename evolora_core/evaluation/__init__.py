"""How answers are graded, counted and compared."""
