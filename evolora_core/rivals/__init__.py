"""The rivals of the ecology: other ways to spend the same compute. Each is one module; only `sft` imports TRL."""
