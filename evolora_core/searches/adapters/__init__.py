"""The search among LoRA adapters: an ecology of them, and the rivals that spend what it spent."""
