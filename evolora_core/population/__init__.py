"""The population engine: stacked LoRA tensors on one frozen model; batched generation, training, merging, PEFT import and export."""
