"""Controls: what makes a model of the same parents without evolution. One file an idea."""
