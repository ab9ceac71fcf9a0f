"""The rivals of the ecology: other ways to spend the same compute. `sft` and `grpo` alone import TRL."""
