"""Tasks of a user: rows of a data set with a verifier, or a family in a Python file."""
