"""LoRA adapters on a frozen host: the population engine, and what it answers."""
