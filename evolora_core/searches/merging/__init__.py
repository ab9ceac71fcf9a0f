"""The search among recipes that merge fine-tuned models of one base."""
