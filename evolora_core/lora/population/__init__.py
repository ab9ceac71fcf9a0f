"""The population engine: stacked LoRA tensors on one frozen model, answering, learning and merging together."""
