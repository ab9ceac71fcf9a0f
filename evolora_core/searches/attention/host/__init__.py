"""The fixed language model around an attention mechanism: its sizes, its training and its cost."""
